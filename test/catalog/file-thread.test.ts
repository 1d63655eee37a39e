/** Reads catalogs on a thread next to a running server: in turns, with a time limit. */
import { afterEach, expect, test } from 'bun:test'
import { createFileThread, type FileThread } from '../../src/catalog/file-thread.ts'

const OPTIONS = { name: 'catalog', environment: {} }
const SMALL = 'version: 1\nupstreams: { u: { dialect: demo, local: true } }\nmodels: {}\n'
/** A catalog whose check takes seconds. */
const NASTY = Array.from({ length: 20_000 }, (_, index) => `x${index}: 1`).join('\n')

let thread: FileThread
afterEach(() => thread.close())

test('a text that takes too long is stopped, and the next one is read', async () => {
  thread = createFileThread({ limitMs: 3_000 })
  const given = thread.parse(NASTY, OPTIONS, 'ann').catch((error: unknown) => error)
  let turns = 0
  const timer = setInterval(() => turns++, 10)
  const error = await given
  clearInterval(timer)
  expect(error).toMatchObject({ failure: { kind: 'catalog_not_read' } })
  // The event loop ran during the check.
  expect(turns).toBeGreaterThan(3)
  expect((await thread.parse(SMALL, OPTIONS, 'ben')).catalog.upstreams).toMatchObject([{ id: 'u' }])
})

test('an export may have a longer time limit than a text', async () => {
  thread = createFileThread({ limitMs: 1 })
  const of = { rows: { upstreams: [], models: [], routes: [], aliases: [] }, sealed: [], unseen: [] }
  await expect(thread.export(of, 'ann')).rejects.toMatchObject({ failure: { kind: 'catalog_not_read' } })
  expect((await thread.export(of, 'cli', 60_000)).leftOut).toEqual([])
})

test('one owner can have a few texts read at a time, and gets an error for more', async () => {
  thread = createFileThread()
  const asked = Array.from({ length: 8 }, () =>
    thread.parse(SMALL, OPTIONS, 'ann').then(
      () => 'read',
      () => 'not read',
    ),
  )
  expect((await Promise.all(asked)).filter((said) => said === 'not read').length).toBeGreaterThan(0)
  expect(await thread.parse(SMALL, OPTIONS, 'ann')).toMatchObject({ catalog: { models: [] } })
})

test('a refusal is the same error as for a command', async () => {
  thread = createFileThread()
  const error = await thread.parse('version: 2', OPTIONS, 'ann').catch((cause: unknown) => cause)
  expect(error).toMatchObject({ name: 'ServiceError', failure: { kind: 'catalog_invalid' } })
})
