/** `serve.lock`: one server a data folder, and free the moment its holder dies. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { isServed, takeLock } from '../../../src/store/data-folder.ts'

let folder: string
const children: Bun.Subprocess[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-lock-'))
})
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill('SIGKILL')
    await child.exited
  }
  rmSync(folder, { recursive: true })
})

/** Another process that takes the lock and keeps it until it is killed. */
async function holder() {
  const lock = resolve(import.meta.dir, '../../../src/store/data-folder.ts')
  const script = `const { takeLock } = await import(${JSON.stringify(lock)})
    globalThis.unlock = takeLock(${JSON.stringify(folder)}); console.log('held'); setInterval(() => {}, 1000)`
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', stderr: 'ignore' })
  children.push(child)
  const { value } = await child.stdout.getReader().read()
  expect(new TextDecoder().decode(value)).toBe('held\n')
  return child
}

test('a second server is refused, with the folder', async () => {
  await holder()
  expect(isServed(folder)).toBe(true)
  expect(() => takeLock(folder)).toThrow(`Another Tollgate is serving ${folder}.`)
})

test('it is free the moment that its holder is killed, and nothing but the file is left', async () => {
  const child = await holder()
  child.kill('SIGKILL')
  await child.exited
  expect(isServed(folder)).toBe(false)
  const unlock = takeLock(folder)
  expect(isServed(folder)).toBe(true)
  expect(readdirSync(folder)).toEqual(['serve.lock'])
  unlock()
  expect(isServed(folder)).toBe(false)
})

test('a folder that was never served is not served, and looking leaves nothing in it', () => {
  expect(isServed(folder)).toBe(false)
  expect(readdirSync(folder)).toEqual([])
})
