/** `serve.lock`: one server a data folder, and free the moment its holder dies. */
import { afterEach, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { isServed, takeLock } from '../../../src/store/data-folder.ts'
import { createTestFolder, forEachTest } from '../../support/lifetime.ts'

const children: Bun.Subprocess[] = []
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill('SIGKILL')
    await child.exited
  }
})
const folder = forEachTest(createTestFolder)

/** Another process that takes the lock and keeps it until it is killed. */
async function holder() {
  const lock = resolve(import.meta.dir, '../../../src/store/data-folder.ts')
  const script = `const { takeLock } = await import(${JSON.stringify(lock)})
    globalThis.unlock = takeLock(${JSON.stringify(folder.path)}); console.log('held'); setInterval(() => {}, 1000)`
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', stderr: 'ignore' })
  children.push(child)
  const { value } = await child.stdout.getReader().read()
  expect(new TextDecoder().decode(value)).toBe('held\n')
  return child
}

test('a second server is refused, with the folder', async () => {
  await holder()
  expect(isServed(folder.path)).toBe(true)
  expect(() => takeLock(folder.path)).toThrow(`Another Tollgate server is using ${folder.path}.`)
})

test('it is free the moment that its holder is killed, and nothing but the file is left', async () => {
  const child = await holder()
  child.kill('SIGKILL')
  await child.exited
  expect(isServed(folder.path)).toBe(false)
  const unlock = takeLock(folder.path)
  expect(isServed(folder.path)).toBe(true)
  expect(readdirSync(folder.path)).toEqual(['serve.lock'])
  unlock()
  expect(isServed(folder.path)).toBe(false)
})

test('a folder that was never served is not served, and looking leaves nothing in it', () => {
  expect(isServed(folder.path)).toBe(false)
  expect(readdirSync(folder.path)).toEqual([])
})
