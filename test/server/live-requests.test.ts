/** Whoever follows a server's requests over its control socket, and how little the server does for those who do not read. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { createLog } from '../../src/log.ts'
import { createLiveRequests, type LiveRequests } from '../../src/server/admin-view/live-requests.ts'
import { type Control, createControl } from '../../src/server/owner-socket.ts'
import { socketPath } from '../../src/server/protocol.ts'
import type { SettledRow } from '../../src/store/ledger-rows.ts'
import { toOpen, toSettled } from '../ledger/fixture.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'
import { toStatus } from '../support/status.ts'

let live: LiveRequests
let control: Control
afterEach(() => control.stop())
const folder = forEachTest(createTestFolder)
beforeEach(() => {
  live = createLiveRequests({ snapshot: () => ({ secrets: new Map(), teams: new Map() }) })
  control = createControl({
    dataFolder: folder.path,
    log: createLog({ now: () => 0, write: async () => {} }),
    status: () => toStatus(),
    servers: { start: () => false, stop: () => false, settled: async () => null, stopped: async () => null },
    reload: async () => ({ settings: [], variables: [] }),
    flush: async () => ({ applied: 0, waiting: 0 }),
    inspectVault: async () => ({ where: 'the file secret', sealed_by: null, credentials: 0, problems: [] }),
    endTails: live.endCommands,
    setupCode: async () => null,
    drain() {},
    async admin({ url, signal }) {
      const { model, user } = Object.fromEntries(new URL(url).searchParams)
      const filter = { ...(model ? { model } : {}), ...(user ? { user } : {}) }
      return live.followByCommand(filter, signal) ?? new Response(null, { status: 429 })
    },
  })
})

const PATH = '/admin/api/requests/live'
const follow = (query = '', signal?: AbortSignal) =>
  fetch(`http://localhost${PATH}${query}`, { unix: socketPath(folder.path), ...(signal ? { signal } : {}) })

const finish = (fields: Partial<SettledRow> = {}, reason: string | null = null) =>
  live.finished({ row: toSettled(toOpen(fields), fields), reason })

const toLines = (text: string) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice('data: '.length)))

test('a line comes for each request that is wanted, without secrets, and a last one when the server stops', async () => {
  const [all, some] = await Promise.all([follow(), follow('?model=other/x')])
  finish({ user: 'ada' })
  finish({ model: 'other/x', status: 'failed' }, 'the upstream said sk-0123456789abcdefghij')
  finish({ model: 'other/x' })
  await control.stop()
  const lines = toLines(await all.text())
  expect(lines).toMatchObject([
    { model: 'acme/large', user: 'ada', cost_nano_usd: 500, reason: null },
    { model: 'other/x', status: 'failed', reason: 'the upstream said sk-…ghij' },
    { model: 'other/x', status: 'ok' },
    { end: 'stopped' },
  ])
  expect(toLines(await some.text())).toEqual([lines[1], lines[2], lines[3]])
})

test('of a burst beyond what waits for a reader the newest are told, and before them how many were left out', async () => {
  const following = await follow()
  for (let n = 0; n < 50_000; n++) finish({ user: String(n) })
  let text = ''
  // A stop waits only a moment for readers, so everything is read before it.
  for await (const bytes of following.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += bytes
    if (text.includes('"user":"49999"')) void control.stop()
  }
  const lines = toLines(text)
  expect([lines.at(0), lines.at(-1)]).toEqual([{ dropped: 49_000 }, { end: 'stopped' }])
  expect(lines.slice(1, -1).map(({ user }) => Number(user))).toEqual(
    Array.from({ length: 1_000 }, (_, n) => 49_000 + n),
  )
})

test('whoever stops to read holds up nobody, is kept no more than that for, and is told once they read again', async () => {
  const client = connect(socketPath(folder.path))
  client.write(`GET ${PATH} HTTP/1.1\r\nhost: localhost\r\n\r\n`)
  const other = await follow('?user=ada')
  client.pause()
  const rounds = 30
  for (let round = 0; round < rounds; round++) {
    for (let n = 0; n < 1_000; n++) finish()
    // As long as it takes until what has come is written.
    await Bun.sleep(60)
  }
  finish({ user: 'ada' })
  let read = ''
  const ended = new Promise((resolve) => client.on('end', resolve).on('close', resolve))
  client.on('data', (bytes) => {
    read += bytes
    if (read.includes('dropped') && !read.includes('stopped')) void control.stop()
  })
  client.resume()
  await ended
  const shown = read.split('"attempts"').length - 1
  const dropped = [...read.matchAll(/"dropped":(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0)
  expect(shown + dropped).toBe(rounds * 1_000 + 1)
  expect(shown).toBeLessThan(rounds * 500)
  expect(toLines(await other.text())).toMatchObject([{ user: 'ada' }, { end: 'stopped' }])
})

test('so many may follow at a time, and one that leaves makes room', async () => {
  const leaving = new AbortController()
  await Promise.all([follow('', leaving.signal), ...Array.from({ length: 7 }, () => follow())])
  const refused = await follow()
  expect(refused.status).toBe(429)
  leaving.abort()
  let status = 429
  while (status === 429) status = (await follow()).status
  expect(status).toBe(200)
})
