/** `serve.lock`: one server a data folder, and free the moment its holder dies. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { isServed, takeLock } from '../../src/store/lock.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-lock-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Another process that takes the lock and keeps it until it is killed. */
async function holder() {
  const lock = resolve(import.meta.dir, '../../src/store/lock.ts')
  const script = `const { takeLock } = await import(${JSON.stringify(lock)})
    takeLock(${JSON.stringify(folder)}); console.log('held'); setInterval(() => {}, 1000)`
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', stderr: 'inherit' })
  const { value } = await child.stdout.getReader().read()
  expect(new TextDecoder().decode(value)).toBe('held\n')
  return child
}

test('a second server is refused, with the folder and what to do', async () => {
  const child = await holder()
  expect(isServed(folder)).toBe(true)
  expect(() => takeLock(folder)).toThrow(`Another Tollgate is serving ${folder}. Stop it first`)
  child.kill()
  await child.exited
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
