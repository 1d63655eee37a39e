/**
 * The official client with a well-behaved upstream behind the built binary: models, errors as its own classes, and
 * streams that are canceled or interrupted. The client is unmodified.
 */
import { beforeAll, describe, expect, test } from 'bun:test'
import OpenAI, {
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from 'openai'
import { createWorkplace, type RunningBinary } from '../support/binary.ts'
import { toCatalogue } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { obliging, startUpstream } from '../support/upstream.ts'
import { errorAnswer, streamAnswer } from '../support/upstream-answers.ts'

let server: RunningBinary
let client: OpenAI

const place = forAllTests(createWorkplace)
const upstream = forAllTests(startUpstream)
beforeAll(async () => {
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
  server = await place.serve(['--first-key', '--retries', '0', '--disconnect-grace', '1s', '--catalog', catalog], {
    environment: { UPSTREAM_KEY: 'x' },
  })
  client = new OpenAI({ baseURL: server.baseUrl, apiKey: String(server.key), maxRetries: 0 })
})

const hello = { model: 'fast', messages: [{ role: 'user' as const, content: 'Hello' }] }
const TEXT = 'tok0 tok1 tok2 tok3 tok4 '

describe('the official client', () => {
  test('gets a whole response', async () => {
    const answer = await client.chat.completions.create(hello)
    expect(answer.choices[0]?.message.content).toBe(TEXT)
    expect(answer).toMatchObject({ model: 'acme/large', usage: { total_tokens: 15 } })
    expect(answer._request_id).toBe(answer.id.replace('chatcmpl-', 'req_'))
  })

  test('gets a stream, and usage if it requests usage', async () => {
    const stream = await client.chat.completions.create({
      ...hello,
      stream: true,
      stream_options: { include_usage: true },
    })
    let text = ''
    let tokens = 0
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      tokens += chunk.usage?.total_tokens ?? 0
    }
    expect({ text, tokens }).toEqual({ text: TEXT, tokens: 15 })
  })

  test('lists the models and retrieves one by its ID', async () => {
    const ids = (await Array.fromAsync(client.models.list())).map((model) => model.id)
    const slugs = ['acme/idle', 'acme/large', 'acme/single', 'acme/small', 'acme/typed', 'local/tiny', 'local/typed']
    expect(ids).toEqual([...slugs, 'fast', 'a/b'].sort())
    for (const id of ids) expect(await client.models.retrieve(id)).toMatchObject({ id, object: 'model' })
  })

  test('cancels a stream, and the upstream call ends', async () => {
    upstream.script(() => streamAnswer({ tokens: 10_000, paceMs: 5 }))
    const stream = await client.chat.completions.create({ ...hello, stream: true })
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break
    await upstream.waitFor((seen) => seen.at(-1)?.abortedAtMs !== null, 'the abort')
    upstream.script(obliging)
  })
})

describe('the official client reports an error', () => {
  const errorOf = (pending: Promise<unknown>) =>
    pending.then(
      () => 'no error',
      (error: unknown) => error,
    )

  test('as a wrong key', async () => {
    const stranger = new OpenAI({ baseURL: server.baseUrl, apiKey: 'sk-wrong', maxRetries: 0 })
    const error = await errorOf(stranger.models.list())
    expect(error).toBeInstanceOf(AuthenticationError)
    expect(error).toMatchObject({ status: 401, code: 'invalid_api_key', type: 'invalid_request_error' })
    expect(error).toHaveProperty('requestID', expect.stringMatching(/^req_/))
  })

  test('as an unknown model', async () => {
    const error = await errorOf(client.chat.completions.create({ ...hello, model: 'no/such' }))
    expect(error).toBeInstanceOf(NotFoundError)
    expect(error).toMatchObject({ code: 'model_not_found', param: 'model' })
    expect(await errorOf(client.models.retrieve('no/such'))).toBeInstanceOf(NotFoundError)
  })

  test('as a bad request', async () => {
    const error = await errorOf(client.chat.completions.create({ ...hello, temperature: 3 }))
    expect(error).toBeInstanceOf(BadRequestError)
    expect(error).toMatchObject({ code: 'decimal_above_max_value', param: 'temperature' })
    const part = { type: 'text' as const, text: null as unknown as string }
    const nested = client.chat.completions.stream({ ...hello, messages: [{ role: 'user', content: [part] }] })
    expect(await errorOf(nested.done())).toMatchObject({ status: 400, param: 'messages[0].content[0].text' })
  })

  test("as the upstream's error about the request", async () => {
    const error = { message: 'Too hot.', type: 'invalid_request_error', param: 'temperature', code: 'too_hot' }
    upstream.script({ kind: 'whole', status: 422, body: { error } })
    expect(await errorOf(client.chat.completions.create({ ...hello, stream: true }))).toMatchObject({
      status: 422,
      code: 'too_hot',
      param: 'temperature',
      message: expect.stringContaining('Too hot.'),
    })
    upstream.script(obliging)
  })

  test('as a rate limit, with the time to retry', async () => {
    upstream.script(errorAnswer(429, 'slow down', { 'retry-after': '7' }))
    const error = await errorOf(client.chat.completions.create(hello))
    expect(error).toBeInstanceOf(RateLimitError)
    expect(error).toMatchObject({ status: 429, type: 'requests', code: 'upstream_rate_limited' })
    expect(error instanceof RateLimitError && error.headers?.get('retry-after')).toBe('7')
    upstream.script(obliging)
  })

  test('as a model without a ready upstream', async () => {
    expect(await errorOf(client.chat.completions.create({ ...hello, model: 'acme/idle' }))).toMatchObject({
      status: 503,
      code: 'model_not_ready',
    })
  })

  test('as a failed upstream', async () => {
    upstream.script({ kind: 'reset' })
    const error = await errorOf(client.chat.completions.create(hello))
    expect(error).toBeInstanceOf(InternalServerError)
    expect(error).toMatchObject({ status: 502, code: 'upstream_failed' })
    upstream.script(obliging)
  })

  test('as the end of an interrupted stream', async () => {
    upstream.script(() => ({ ...streamAnswer({ finish: null, usage: null }), end: 'eof' }))
    const read = async () => {
      for await (const _ of await client.chat.completions.create({ ...hello, stream: true }));
    }
    expect(await errorOf(read())).toMatchObject({ code: 'upstream_failed' })
    expect(await errorOf(client.chat.completions.stream(hello).finalContent())).toBeInstanceOf(Error)
    upstream.script(obliging)
  })
})
