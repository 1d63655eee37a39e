/** Creates fixtures before tests and ends them afterwards. */
import { afterAll, afterEach, beforeAll, beforeEach } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface Ends {
  close?(): unknown
  stop?(): unknown
}

export const forEachTest = <T extends Ends>(make: () => T | Promise<T>): T => provide(make, beforeEach, afterEach)

export const forAllTests = <T extends Ends>(make: () => T | Promise<T>): T => provide(make, beforeAll, afterAll)

export function createTestFolder() {
  const path = mkdtempSync(join(tmpdir(), 'tollgate-test-'))
  return { path, close: () => rmSync(path, { recursive: true, force: true }) }
}

type Hook = (run: () => Promise<void>) => void

function provide<T extends Ends>(make: () => T | Promise<T>, before: Hook, after: Hook): T {
  let made: T | null = null
  before(async () => {
    made = await make()
  })
  after(async () => {
    const ended = made
    made = null
    await (ended?.close ? ended.close() : ended?.stop?.())
  })
  const current = () => {
    if (made === null) throw new Error('it is made before a test, and there is no test yet')
    return made
  }
  // Forwards everything to the current fixture.
  return new Proxy({} as T, {
    get: (_, name) => Reflect.get(current(), name),
    set: (_, name, value) => Reflect.set(current(), name, value),
    has: (_, name) => name in current(),
    ownKeys: () => Reflect.ownKeys(current()),
    getOwnPropertyDescriptor: (_, name) => Reflect.getOwnPropertyDescriptor(current(), name),
  })
}
