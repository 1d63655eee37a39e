/** What a command makes of a server that answers its questions otherwise than one of this version would. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { awaitRevision, findServer, testThroughServer } from '../../src/cli/live.ts'
import { socketPath } from '../../src/server/protocol.ts'
import { takeLock } from '../../src/store/sqlite/database-file.ts'
import { toStatus } from '../support/status.ts'

let folder: string
let end: () => Promise<void>
let answer: unknown
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-live-'))
  const unlock = takeLock(folder)
  const server = Bun.serve({ unix: socketPath(folder), fetch: () => Response.json(answer) })
  end = async () => {
    await server.stop(true)
    unlock()
    rmSync(folder, { recursive: true })
  }
})
afterEach(() => end())

test('a status is taken as it is, with whatever more another version says', async () => {
  answer = { ...toStatus(), more: 1 }
  expect(await findServer(folder)).toMatchObject({ kind: 'server', status: toStatus() })
})

test.each<[what: string, body: unknown]>([
  ['that lacks a field', { ...toStatus(), in_flight: undefined }],
  ['with an upstream that lacks its targets', { ...toStatus(), upstreams: [{ id: 'a', state: 'up' }] }],
  ['that is no object', 'ok'],
])('a status %s is not guessed at: the server is to be restarted', async (_, body) => {
  answer = body
  expect(await findServer(folder)).toMatchObject({ kind: 'silent', why: expect.stringContaining('restart it') })
})

test('a test whose outcome cannot be read fails, and says what to do', async () => {
  answer = { id: 'a', state: 'who knows' }
  await expect(testThroughServer(folder, 'a')).rejects.toThrow('restart it')
})

test('a command that changed the configuration warns if the server still uses the previous one after the time limit', async () => {
  const warnings: string[] = []
  const io = { stderr: (text: string) => void warnings.push(text) }
  answer = toStatus({ config_revision: 7 })
  await awaitRevision(folder, 7, io, 60_000)
  expect(warnings).toEqual([])
  await awaitRevision(folder, 8, io, 30)
  answer = 'ok'
  await awaitRevision(folder, 8, io, 30)
  expect(warnings).toEqual([
    expect.stringMatching(
      /^warning: The change is saved, but .* still uses the previous configuration\..* tollgate doctor\n$/,
    ),
    expect.stringContaining('restart it'),
  ])
})

test('a command does not wait for a server that is gone', async () => {
  await end()
  end = async () => {}
  const warnings: string[] = []
  await awaitRevision(folder, 8, { stderr: (text) => void warnings.push(text) }, 60_000)
  expect(warnings).toEqual([])
})
