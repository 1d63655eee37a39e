/** Batches on the built binary: kills, stops, and restarts lose no response, and no line is sent twice. */
import { afterEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { APIError } from 'openai'
import { beginBatch, CHAT, endedBatch, readLines, toChatLine, toClient, uploadLines } from '../support/batch-client.ts'
import { applyJournal, createWorkplace, type RunningBinary } from '../support/binary.ts'
import { toCatalogue } from '../support/gateway.ts'
import { type Seen, startUpstream } from '../support/upstream.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'
import { mountSmallDisk, whyNoSmallDisk } from './crash-trouble.ts'

const noDisk = whyNoSmallDisk()
if (noDisk) console.warn(`Not tested with a full disk: ${noDisk}`)
const LIMIT_MS = 60_000
const LINES = 120

const cleanup = new AsyncDisposableStack()
let opened = cleanup
afterEach(async () => {
  await opened.disposeAsync()
})

/** A server, a key, and an upstream that responds after some ms. */
async function open(args: string[] = [], diskMiB: number | null = null) {
  opened = new AsyncDisposableStack()
  const upstream = await startUpstream(() => ({ ...wholeAnswer(), delayMs: 10 + Math.random() * 30 }))
  opened.defer(() => upstream.stop())
  const place = createWorkplace()
  opened.defer(() => place.close())
  const mounted = diskMiB === null ? null : mountSmallDisk(join(place.folder, 'data'), diskMiB)
  if (typeof mounted === 'string') throw new Error(mounted)
  const disk = mounted
  opened.defer(() => disk?.unmount())
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
  const serve = () =>
    place.serve(['--catalog', catalog, '--probe', 'off', ...args], { environment: { UPSTREAM_KEY: 'its credential' } })
  const server = await serve()
  const json = async (...argv: string[]) => JSON.parse((await place.run(...argv, '--json')).stdout)
  const { key } = await json('keys', 'create', '--name', 'ann')
  const clientAt = ({ baseUrl }: Pick<RunningBinary, 'baseUrl'>) => toClient(key, baseUrl)
  return { upstream, place, disk, server, serve, json, clientAt }
}

const toLines = (count: number, model = 'acme/large') =>
  Array.from({ length: count }, (_, at) =>
    toChatLine(`line ${at}`, { model, messages: [{ role: 'user', content: `line ${at}` }] }),
  )

const timesSent = (requests: readonly Seen[]) => {
  const times = new Map<string, number>()
  for (const { body } of requests) {
    const line = /line \d+/.exec(body)?.[0] ?? ''
    times.set(line, (times.get(line) ?? 0) + 1)
  }
  return [...times.values()]
}

test(
  'a batch goes on after each kill: every line has one result, was sent at most once, and is charged once',
  async () => {
    const { upstream, place, serve, json, clientAt, ...first } = await open()
    let { server } = first
    const { id } = await beginBatch(clientAt(server), toLines(LINES))
    for (const sent of [20, 50, 80]) {
      await upstream.waitFor((requests) => requests.length >= sent, `${sent} lines`, 20_000)
      server.signal('SIGKILL')
      await server.exited
      server = await serve()
    }
    const client = clientAt(server)
    const batch = await endedBatch(client, id)
    const [output, errors] = await Promise.all([
      readLines(client, batch.output_file_id),
      readLines(client, batch.error_file_id),
    ])
    const ids = [...output, ...errors].map(({ custom_id }) => custom_id)
    expect(new Set(ids).size).toBe(LINES)
    expect(ids.length).toBe(LINES)
    expect(batch.request_counts).toEqual({ total: LINES, completed: output.length, failed: errors.length })
    for (const { error } of errors) expect(error.code).toBe('interrupted')
    expect(errors.length).toBeLessThanOrEqual(3 * 8)
    expect(Math.max(...timesSent(upstream.requests))).toBe(1)
    await applyJournal(`${place.folder}/data`)
    const { requests } = await json('requests', 'list', '--limit', '1000')
    expect(requests.length).toBe(LINES)
    const byStatus = (status: string) => requests.filter((row: { status: string }) => row.status === status).length
    expect(byStatus('ok')).toBeGreaterThanOrEqual(output.length)
    expect(byStatus('ok') + byStatus('abandoned')).toBe(LINES)
    expect((await place.run('ledger', 'verify')).code).toBe(0)
  },
  LIMIT_MS,
)

test(
  'a line of a free model that was cut by a kill is sent again',
  async () => {
    const { upstream, server, serve, clientAt } = await open()
    const { id } = await beginBatch(clientAt(server), toLines(40, 'local/tiny'))
    await upstream.waitFor((requests) => requests.length >= 12, 'lines', 20_000)
    server.signal('SIGKILL')
    await server.exited
    const batch = await endedBatch(clientAt(await serve()), id)
    expect(batch.request_counts).toEqual({ total: 40, completed: 40, failed: 0 })
    expect(Math.max(...timesSent(upstream.requests))).toBeLessThanOrEqual(2)
  },
  LIMIT_MS,
)

test.skipIf(noDisk !== null)(
  'a full disk refuses files, and a batch waits for space without losing a response',
  async () => {
    const { upstream, disk, server, clientAt } = await open([], 400)
    const client = clientAt(server)
    const input_file_id = await uploadLines(client, toLines(LINES))
    await client.batches.create({ input_file_id, endpoint: CHAT, completion_window: '24h' })
    await upstream.waitFor((requests) => requests.length >= 20, 'lines', 20_000)
    await disk?.fill()
    const refused = await uploadLines(client, ['{}']).catch((error: APIError) => [error.status, error.code])
    expect(refused).toEqual([507, 'storage_full'])
    disk?.free()
    const [{ id = '' } = {}] = (await client.batches.list()).data
    const batch = await endedBatch(client, id)
    expect(batch.request_counts).toEqual({ total: LINES, completed: LINES, failed: 0 })
    expect((await readLines(client, batch.output_file_id)).length).toBe(LINES)
    expect(Math.max(...timesSent(upstream.requests))).toBe(1)
  },
  LIMIT_MS,
)

test.each([
  ['a restart', []],
  ['a stop of several processes', ['--processes', '2']],
])(
  '%s interrupts no line',
  async (_, args) => {
    const { upstream, place, server, serve, clientAt } = await open(args)
    const { id } = await beginBatch(clientAt(server), toLines(LINES))
    await upstream.waitFor((requests) => requests.length >= 20, 'lines', 20_000)
    let last = server
    if (args.length === 0) {
      expect((await place.restart()).code).toBe(0)
      await upstream.waitFor((requests) => requests.length >= 60, 'more lines', 20_000)
    } else {
      server.signal('SIGTERM')
      expect(await server.exited).toBe(0)
      last = await serve()
    }
    const client = clientAt(last)
    const batch = await endedBatch(client, id)
    expect(batch.request_counts).toEqual({ total: LINES, completed: LINES, failed: 0 })
    expect(Math.max(...timesSent(upstream.requests))).toBe(1)
  },
  LIMIT_MS,
)
