/** Files and batches by OpenAI's client, with lines run by the gateway: results, bad input, limits, cancellation, expiry. */
import { describe, expect, test } from 'bun:test'
import type { NotFoundError } from 'openai'
import {
  beginBatch as begin,
  CHAT,
  endedBatch as ended,
  readLines as read,
  toChatLine,
  toClient,
} from '../support/batch-client.ts'
import { costOf, HELLO, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'

const gateway = forAllTests(startGateway)
const clientOf = (apiKey = gateway.key) => toClient(apiKey, gateway.app.baseUrl)

const toLine = (customId: string, more: object = {}, body: object = HELLO) => toChatLine(customId, body, more)

function* stepsAfter(gate: Promise<void>, call = 2) {
  if (call > 1) yield { until: gate }
  yield JSON.stringify(wholeAnswer().body)
}

describe('a batch', () => {
  test('runs each line once, charges each, and returns what a request would', async () => {
    const client = clientOf()
    const before = gateway.app.rows().length
    const { id } = await begin(client, [toLine('a'), toLine('b'), toLine('c', {}, { ...HELLO, model: 'nothing' })])
    const batch = await ended(client, id)
    expect(batch).toMatchObject({
      ...{ object: 'batch', status: 'completed', endpoint: CHAT, errors: null, completion_window: '24h' },
      request_counts: { total: 3, completed: 2, failed: 1 },
    })
    const output = await read(client, batch.output_file_id)
    expect(output.map((line) => line.custom_id).sort()).toEqual(['a', 'b'])
    const [{ response }] = output
    expect(response.status_code).toBe(200)
    expect(response.body.object).toBe('chat.completion')
    const [failed] = await read(client, batch.error_file_id)
    expect(failed).toMatchObject({
      ...{ custom_id: 'c', error: null },
      response: { status_code: 404, body: { error: { code: 'model_not_found' } } },
    })
    const rows = (await gateway.app.settled(before + 2)).slice(before)
    expect(rows.map((row) => `req_${row.id}`).sort()).toEqual(output.map((line) => line.response.request_id).sort())
    const { prompt_tokens: prompt, completion_tokens: completion } = response.body.usage
    expect(rows.map((row) => row.cost_nano_usd)).toEqual([costOf(prompt, completion), costOf(prompt, completion)])
    expect(batch.usage).toMatchObject({ input_tokens: 2 * prompt, output_tokens: 2 * completion })
  })

  test('is, like its files, its own key only', async () => {
    const client = clientOf()
    const { id, input_file_id } = await begin(client, [toLine('a')])
    await ended(client, id)
    const other = clientOf(gateway.app.key({ name: 'other' }))
    const refusals = [
      other.batches.retrieve(id),
      other.batches.cancel(id),
      other.files.retrieve(input_file_id),
      other.files.content(input_file_id),
      other.files.delete(input_file_id),
      other.batches.create({ input_file_id, endpoint: CHAT, completion_window: '24h' }),
    ].map((asked) =>
      asked.then(
        () => 200,
        (error: NotFoundError) => error.status,
      ),
    )
    expect(await Promise.all(refusals)).toEqual([404, 404, 404, 404, 404, 404])
    expect((await other.batches.list()).data).toEqual([])
    expect((await other.files.list()).data).toEqual([])
  })

  test.each([
    ['is not JSON', [toLine('a'), '{"custom_id":'], 'invalid_json_line', 2],
    ['has no custom_id', [{ ...toLine('a'), custom_id: '' }], 'invalid_custom_id', 1],
    ['has the custom_id of another', [toLine('a'), '', toLine('a')], 'duplicate_custom_id', 3],
    ['does not exist', ['\n\n'], 'empty_file', null],
  ])('fails if a line %s', async (_, lines, code, line) => {
    const client = clientOf()
    const seen = gateway.upstream.requests.length
    const batch = await ended(client, (await begin(client, lines)).id)
    expect(batch.status).toBe('failed')
    expect(batch.errors?.data).toMatchObject([{ code, line }])
    expect(gateway.upstream.requests.length).toBe(seen)
  })

  test('has an error for each line that is no request, and runs the others', async () => {
    const client = clientOf()
    const lines = [
      toLine('method', { method: 'GET' }),
      toLine('url', { url: '/v1/embeddings' }),
      toLine('body', { body: 'text' }),
      toLine('stream', {}, { ...HELLO, stream: true }),
      toLine('field', {}, { ...HELLO, temperature: 'hot' }),
      toLine('good'),
    ]
    const batch = await ended(client, (await begin(client, lines)).id)
    expect(batch.request_counts).toEqual({ total: 6, completed: 1, failed: 5 })
    const errors = await read(client, batch.error_file_id)
    const found = errors.map((one) => [one.custom_id, one.error?.code ?? one.response.status_code])
    expect(Object.fromEntries(found)).toEqual({
      ...{ method: 'invalid_request', url: 'invalid_request', body: 'invalid_request', stream: 'invalid_request' },
      field: 400,
    })
  })

  test('waits for a rate limit, and runs all', async () => {
    const client = clientOf(gateway.app.key({ name: 'slow', rpm: 3 }))
    const { id } = await begin(client, [toLine('a'), toLine('b'), toLine('c'), toLine('d')])
    await until('two lines', async () => (await client.batches.retrieve(id)).request_counts?.completed === 2)
    gateway.app.pass(61_000)
    const batch = await ended(client, id)
    expect(batch.request_counts).toEqual({ total: 4, completed: 4, failed: 0 })
  })

  test('fails what its budget does not cover, and charges no more than that', async () => {
    const secret = gateway.app.key({ name: 'poor', budget: { nanoUsd: 30_000, period: 'total' } })
    const client = clientOf(secret)
    const batch = await ended(
      client,
      (
        await begin(
          client,
          Array.from({ length: 9 }, (_, at) => toLine(`${at}`)),
        )
      ).id,
    )
    expect(batch.status).toBe('completed')
    const errors = await read(client, batch.error_file_id)
    expect(errors.length).toBeGreaterThan(0)
    for (const { response } of errors) expect(response.body.error.code).toBe('insufficient_quota')
  })

  test('is cancelled with what is done, and the rest has an error', async () => {
    const client = clientOf()
    const gate = Promise.withResolvers<void>()
    let calls = 0
    gateway.upstream.script(() => ({ kind: 'stream', steps: stepsAfter(gate.promise, ++calls), end: 'eof' }))
    const { id } = await begin(
      client,
      Array.from({ length: 30 }, (_, at) => toLine(`${at}`)),
    )
    await until('lines at once', () => calls >= 8)
    expect((await client.batches.cancel(id)).status).toBe('cancelling')
    gate.resolve()
    const batch = await ended(client, id)
    expect(batch.status).toBe('cancelled')
    const { completed = 0, failed = 0 } = batch.request_counts ?? {}
    expect(completed + failed).toBe(30)
    expect(completed).toBe(calls)
    const errors = await read(client, batch.error_file_id)
    expect(errors.every(({ error }) => error.code === 'batch_cancelled')).toBe(true)
    gateway.upstream.script(wholeAnswer())
  })

  test('of a revoked key is cancelled', async () => {
    const secret = gateway.app.key({ name: 'gone' })
    const client = clientOf(secret)
    const gate = Promise.withResolvers<void>()
    gateway.upstream.script(() => ({ kind: 'stream', steps: stepsAfter(gate.promise), end: 'eof' }))
    const seen = gateway.upstream.requests.length
    await begin(
      client,
      Array.from({ length: 30 }, (_, at) => toLine(`${at}`)),
    )
    await gateway.upstream.waitFor((requests) => requests.length > seen)
    gateway.app.revoke(secret)
    gate.resolve()
    await until('its end', async () => (await gateway.app.logText()).includes('"state":"cancelled"'))
    expect(gateway.upstream.requests.length - seen).toBeLessThan(30)
  })
})
