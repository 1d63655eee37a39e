/** What tests need anew: made before them, ended after them, without a hook for either in every file. */
import { afterAll, afterEach, beforeAll, beforeEach } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface Ends {
  close?(): unknown
  stop?(): unknown
}

/** Makes one before each test. What is returned stands for that of the test that runs. */
export const forEachTest = <T extends Ends>(make: () => T | Promise<T>): T => provide(make, beforeEach, afterEach)

/** Makes one for all tests of the file or the `describe`. */
export const forAllTests = <T extends Ends>(make: () => T | Promise<T>): T => provide(make, beforeAll, afterAll)

/** An empty folder that ends with all that is in it. */
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
  // Nobody sees the object below: all goes to the one that was made.
  return new Proxy({} as T, {
    get: (_, name) => Reflect.get(current(), name),
    set: (_, name, value) => Reflect.set(current(), name, value),
    has: (_, name) => name in current(),
    ownKeys: () => Reflect.ownKeys(current()),
    getOwnPropertyDescriptor: (_, name) => Reflect.getOwnPropertyDescriptor(current(), name),
  })
}
