/** Files and batches by OpenAI's client, with lines run by the gateway: results, bad input, limits, cancellation, expiry. */
import { describe, expect, test } from 'bun:test'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { NotFoundError } from 'openai'
import { DAY_MS } from '../../src/domain/time.ts'
import {
  beginBatch as begin,
  CHAT,
  endedBatch as ended,
  readLines as read,
  toChatLine,
  toClient,
  uploadLines as upload,
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
  test('runs each line once, charges each, and returns the same as single requests', async () => {
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

  test('is only visible to its key, and so are its files', async () => {
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
    ].map((asked) =>
      asked.then(
        () => 200,
        (error: NotFoundError) => error.status,
      ),
    )
    expect(await Promise.all(refusals)).toEqual([404, 404, 404, 404, 404])
    const asked = other.batches.create({ input_file_id, endpoint: CHAT, completion_window: '24h' })
    expect(await asked.catch((error) => error)).toMatchObject({ status: 404, param: 'input_file_id' })
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

  test('has an error for each invalid line, and runs the others', async () => {
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

  test("fails lines that its budget doesn't cover, and charges no more than the budget", async () => {
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

  test('runs fewer lines at once if its budget covers no more, and completes', async () => {
    const client = clientOf(gateway.app.key({ name: 'tight', budget: { nanoUsd: 5_000_000, period: 'total' } }))
    const lines = Array.from({ length: 20 }, (_, at) => toLine(`${at}`))
    const batch = await ended(client, (await begin(client, lines)).id)
    expect(batch.request_counts).toEqual({ total: 20, completed: 20, failed: 0 })
  })

  test('keeps its results when it is canceled; other lines get an error', async () => {
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

  test('of a revoked key is canceled', async () => {
    const secret = gateway.app.key({ name: 'gone' })
    const client = clientOf(secret)
    const gate = Promise.withResolvers<void>()
    gateway.upstream.script(() => ({ kind: 'stream', steps: stepsAfter(gate.promise), end: 'eof' }))
    const seen = gateway.upstream.requests.length
    const { id } = await begin(
      client,
      Array.from({ length: 30 }, (_, at) => toLine(`${at}`)),
    )
    await gateway.upstream.waitFor((requests) => requests.length > seen)
    gateway.app.revoke(secret)
    gate.resolve()
    const isEnd = (line: Record<string, unknown>) => line.event === 'batch_ended' && line.batch === id
    await until('its end', async () => (await gateway.app.logLines()).some(isEnd))
    expect((await gateway.app.logLines()).find(isEnd)?.state).toBe('cancelled')
    expect(gateway.upstream.requests.length - seen).toBeLessThan(30)
  })

  test('ends after a day with its results, and its files after 30 days', async () => {
    const secret = gateway.app.key({ name: 'late' })
    const client = clientOf(secret)
    const gate = Promise.withResolvers<void>()
    gateway.upstream.script(() => ({ kind: 'stream', steps: stepsAfter(gate.promise), end: 'eof' }))
    const seen = gateway.upstream.requests.length
    const { id, input_file_id } = await begin(
      client,
      Array.from({ length: 20 }, (_, at) => toLine(`${at}`)),
    )
    await gateway.upstream.waitFor((requests) => requests.length - seen === 8)
    gateway.app.pass(DAY_MS)
    await Bun.sleep(1_100)
    gate.resolve()
    const batch = await ended(client, id)
    expect(batch.status).toBe('expired')
    // Some calls reached their deadlines.
    const errors = (await read(client, batch.error_file_id)).filter(({ response }) => response === null)
    expect(errors.map(({ error }) => error.code)).toEqual(Array(12).fill('batch_expired'))
    const { completed = 0, failed = 0 } = batch.request_counts ?? {}
    expect(completed + failed).toBe(20)
    const stored = () => readdirSync(join(gateway.app.dataFolder, 'batches'))
    expect(stored()).toContain(input_file_id)
    gateway.app.pass(30 * DAY_MS)
    await until('removal', async () => (await client.files.list()).data.length === 0)
    for (const file of [input_file_id, batch.output_file_id, batch.error_file_id]) expect(stored()).not.toContain(file)
    expect((await client.batches.retrieve(id)).status).toBe('expired')
  })
})

describe('files', () => {
  test('are listed in pages, read back byte for byte, and deleted unless a batch uses them', async () => {
    const client = clientOf(gateway.app.key({ name: 'files' }))
    const ids = [await upload(client, ['one']), await upload(client, ['two']), await upload(client, ['three'])]
    const listed = async (order: 'asc' | 'desc') => {
      const found: string[] = []
      for await (const { id } of client.files.list({ limit: 2, order })) found.push(id)
      return found
    }
    expect(await listed('asc')).toEqual(ids)
    expect(await listed('desc')).toEqual(ids.toReversed())
    const [first = ''] = ids
    expect(await client.files.retrieve(first)).toMatchObject({ bytes: 3, filename: 'input.jsonl', purpose: 'batch' })
    expect(await (await client.files.content(first)).text()).toBe('one')
    expect(await client.files.delete(first)).toMatchObject({ id: first, deleted: true })
    expect(await client.files.retrieve(first).catch((error: NotFoundError) => error.status)).toBe(404)
    const folder = join(gateway.app.dataFolder, 'batches')
    expect(statSync(folder).mode & 0o777).toBe(0o700)
    for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
  })

  const form = (parts: Record<string, string | Blob>) => {
    const made = new FormData()
    for (const [name, value] of Object.entries(parts)) made.append(name, value)
    return made
  }
  const file = new File(['{}'], 'a.jsonl')
  test.each([
    ['another purpose', form({ purpose: 'assistants', file }), 400, 'purpose'],
    ['no purpose', form({ file }), 400, 'purpose'],
    ['no file', form({ purpose: 'batch' }), 400, 'file'],
    ['a field for a file', form({ purpose: 'batch', file: '{}' }), 400, 'file'],
    ['an empty file', form({ purpose: 'batch', file: new File([], 'a') }), 400, 'file'],
    ['a short expiry', expiring('created_at', '60'), 400, 'expires_after'],
    ['an unknown anchor', expiring('now', '3600'), 400, 'expires_after'],
    ['no form', '{}', 400, null],
  ])('with %s are rejected', async (_, body, status, param) => {
    const headers = { authorization: `Bearer ${gateway.key}` }
    const response = await fetch(`${gateway.app.baseUrl}/files`, { method: 'POST', headers, body })
    expect(response.status).toBe(status)
    expect(await response.json()).toMatchObject({ error: { param } })
  })

  function expiring(anchor: string, seconds: string) {
    return form({ purpose: 'batch', file, 'expires_after[anchor]': anchor, 'expires_after[seconds]': seconds })
  }

  test.each([
    ['an unknown file', { input_file_id: 'file-none' }, 404],
    ['no file', { input_file_id: undefined }, 400],
    ['another window', { completion_window: '1h' }, 400],
    ['an endpoint without batches', { endpoint: '/v1/audio/speech' }, 400],
    ['too much metadata', { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, at) => [at, ''])) }, 400],
    ['metadata that is no text', { metadata: { a: 1 } }, 400],
    ['a wrong expiry', { output_expires_after: { anchor: 'created_at', seconds: '1e9' } }, 400],
  ])('a batch with %s is rejected', async (_, wrong, status) => {
    const input_file_id = await upload(clientOf(), ['{}'])
    const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ input_file_id, endpoint: CHAT, completion_window: '24h', ...wrong })
    const response = await fetch(`${gateway.app.baseUrl}/batches`, { method: 'POST', headers, body })
    expect(response.status).toBe(status)
  })

  test('of one key are limited, and so are its batches', async () => {
    const client = clientOf(gateway.app.key({ name: 'many' }))
    const gate = Promise.withResolvers<void>()
    gateway.upstream.script(() => ({ kind: 'stream', steps: stepsAfter(gate.promise), end: 'eof' }))
    const input_file_id = await upload(client, [toLine('a')])
    const create = () => client.batches.create({ input_file_id, endpoint: CHAT, completion_window: '24h' })
    const batches = await Promise.all(Array.from({ length: 20 }, create))
    expect(await create().catch((error: Error) => error.message)).toContain('20 batches in progress')
    const refusal = await client.files.delete(input_file_id).catch((error: Error) => error.message)
    expect(refusal).toContain('is in progress')
    gate.resolve()
    for (const { id } of batches) expect((await ended(client, id)).request_counts?.completed).toBe(1)
  })
})
