/** Batches at an upstream, on the built binary: whenever it is killed, they are sent once and charged once. */
import { expect, test } from 'bun:test'
import { CREDENTIAL } from '../support/app.ts'
import { beginBatch, endedBatch, readLines, toChatLine, toClient } from '../support/batch-client.ts'
import { startBatchUpstream } from '../support/batch-upstream.ts'
import { createWorkplace } from '../support/binary.ts'
import { until } from '../support/until.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'

const LINES = 300
/** Nano-dollars: input 100, output 10. */
const COST = 100 * 500 + 10 * 1_000

const BATCH_PRICE = ', { mode: batch, prompt: "0.0000005", completion: "0.000001" }'

const toCatalog = (url: string, batchPrice = BATCH_PRICE) => `
version: 1
upstreams: { ours: { dialect: openai, base_url: "${url}", api_key: \${UPSTREAM_KEY}, batches: [chat] } }
models:
  o/chat:
    name: Chat
    context_length: 8192
    max_output_length: 100
    input_modalities: [text]
    output_modalities: [text]
    supported_features: []
    pricing: [{ prompt: "0.000001", completion: "0.000002" }${batchPrice}]
    routes: [{ upstream: ours, model: chat-1 }]
`

test('after kills while it submits, waits, and reads results, a batch is sent once, and each line has one result and one charge', async () => {
  const upstream = startBatchUpstream('openai')
  const place = createWorkplace()
  try {
    const answer = wholeAnswer({ tokens: ['Yes'], usage: { prompt_tokens: 100, completion_tokens: 10 } }).body as object
    upstream.answer = () => ({ status: 200, body: answer })
    const catalog = await place.write('catalog.yaml', toCatalog(upstream.url))
    const serve = () =>
      place.serve(['--catalog', catalog, '--probe', 'off'], { environment: { UPSTREAM_KEY: CREDENTIAL } })
    const json = async (...argv: string[]) => JSON.parse((await place.run(...argv, '--json')).stdout)
    let server = await serve()
    const kill = async () => {
      server.signal('SIGKILL')
      await server.exited
      server = await serve()
    }
    const { key } = await json('keys', 'create', '--name', 'ann', '--budget', '50')
    const lines = Array.from({ length: LINES }, (_, at) =>
      toChatLine(`line ${at}`, { model: 'o/chat', messages: [{ role: 'user', content: `line ${at}` }] }),
    )
    // Accepted, but not confirmed.
    upstream.fail = (method, path) => (method === 'POST' && path === '/v1/batches' ? 'hang' : null)
    const { id } = await beginBatch(toClient(key, server.baseUrl), lines)
    await until('the submission', () => upstream.batches.length === 1)
    await kill()
    const [remote] = upstream.batches
    const looks = () => upstream.asked.filter((one) => one === `GET /v1/batches/${remote?.id}`).length
    await until('the first look', () => looks() === 1)
    Object.assign(remote ?? {}, { status: 'completed', hasFiles: true })
    upstream.paceMs = 2
    await kill()
    const reads = () => upstream.asked.filter((one) => one.endsWith('/content')).length
    for (const times of [1, 2]) {
      await until('some results', () => reads() === times)
      await Bun.sleep(250)
      await kill()
    }
    const client = toClient(key, server.baseUrl)
    const batch = await endedBatch(client, id)
    expect(batch.request_counts).toEqual({ total: LINES, completed: LINES, failed: 0 })
    const output = await readLines(client, batch.output_file_id)
    expect(new Set(output.map((line) => line.custom_id)).size).toBe(LINES)
    expect(output.length).toBe(LINES)
    expect(upstream.batches.length).toBe(1)
    const { requests } = await json('requests', 'list', '--limit', '1000')
    expect(requests.length).toBe(LINES)
    const charged = requests.map((row: { status: string; cost_nano_usd: number }) => [row.status, row.cost_nano_usd])
    expect(charged).toEqual(Array(LINES).fill(['ok', COST]))
    const spent = await json('keys', 'show', 'ann')
    expect(JSON.stringify(spent)).toContain(`"spent_nano_usd":${LINES * COST}`)
    expect((await place.run('ledger', 'verify')).code).toBe(0)
  } finally {
    await place.close()
    await upstream.stop()
  }
}, 60_000)

/** A server with one line of a batch at its upstream. */
async function open(batchPrice?: string) {
  await using opened = new AsyncDisposableStack()
  const upstream = startBatchUpstream('openai')
  opened.defer(() => upstream.stop())
  const place = createWorkplace()
  opened.defer(() => place.close())
  const catalog = await place.write('catalog.yaml', toCatalog(upstream.url, batchPrice))
  const serve = () =>
    place.serve(['--catalog', catalog, '--probe', 'off'], { environment: { UPSTREAM_KEY: CREDENTIAL } })
  const server = await serve()
  const { key } = JSON.parse((await place.run('keys', 'create', '--name', 'ann', '--json')).stdout)
  const begin = () =>
    beginBatch(toClient(key, server.baseUrl), [
      toChatLine('a', { model: 'o/chat', messages: [{ role: 'user', content: 'Hi' }] }),
    ])
  return { ...{ upstream, place, serve, server, key, begin }, opened: opened.move() }
}

test('a server stops while a batch is canceled at its upstream, and the next one ends the batch', async () => {
  const { upstream, serve, server, key, begin, opened } = await open()
  await using _ = opened
  const { id } = await begin()
  await until('the submission', () => upstream.batches.length === 1)
  await toClient(key, server.baseUrl).batches.cancel(id)
  await until('the cancellation', () => upstream.asked.some((one) => one.endsWith('/cancel')))
  server.signal('SIGTERM')
  await server.exited
  Object.assign(upstream.batches[0] ?? {}, { status: 'cancelled', hasFiles: true })
  upstream.fail = (_, path) => (path.endsWith('/cancel') ? Response.json({ error: {} }, { status: 409 }) : null)
  const next = await serve()
  expect(await endedBatch(toClient(key, next.baseUrl), id)).toMatchObject({ status: 'cancelled' })
}, 60_000)

test('after kills, a line that may have been charged is not sent again if its model has a price for batches', async () => {
  const { upstream, place, serve, server, key, begin, opened } = await open('')
  await using _ = opened
  upstream.fail = (_, path) => (path.endsWith('/chat/completions') ? 'hang' : null)
  const { id } = await begin()
  await until('the call', () => upstream.asked.some((one) => one.endsWith('/chat/completions')))
  server.signal('SIGKILL')
  await server.exited
  await place.write('catalog.yaml', toCatalog(upstream.url))
  const client = toClient(key, (await serve()).baseUrl)
  const batch = await endedBatch(client, id)
  expect(await readLines(client, batch.error_file_id)).toMatchObject([{ error: { code: 'interrupted' } }])
  expect(upstream.batches).toEqual([])
}, 60_000)
