/** Headers, types and retries of real clients. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { checkHeaders, checkStream } from '../support/contract.ts'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { obliging } from '../support/upstream.ts'
import { errorAnswer, streamAnswer, toDelta } from '../support/upstream-answers.ts'

const gateway = forAllTests(startGateway)
beforeEach(() => gateway.upstream.script(obliging))

test.each([
  ['application/json; charset=utf-8'],
  ['application/json;charset=UTF-8'],
  ['Application/JSON'],
  ['application/vnd.api+json'],
])('a body of %s is taken as sent', async (type) => {
  expect((await gateway.chat({}, { headers: { 'content-type': type } })).status).toBe(200)
})

test('a stream requested by a client that only accepts JSON is a stream', async () => {
  const response = await gateway.chat({ stream: true }, { headers: { accept: 'application/json' } })
  checkHeaders('stream', response.headers)
  checkStream(await response.text())
})

test('a stream is never compressed, whatever its client accepts', async () => {
  const response = await gateway.chat({ stream: true }, { headers: { 'accept-encoding': 'gzip, br, zstd' } })
  expect(response.headers.get('content-encoding')).toBeNull()
  checkStream(await response.text())
})

test('the first token arrives before the upstream sends the second', async () => {
  const [role = '', one = ''] = streamAnswer({ tokens: ['one '] }).steps
  gateway.upstream.script({ kind: 'stream', steps: [role, one], end: 'hang' })
  const client = new AbortController()
  const response = await gateway.chat({ stream: true }, { signal: client.signal })
  const first = await response.body?.getReader().read()
  expect(new TextDecoder().decode(first?.value)).toContain('one ')
  client.abort()
})

test("a client's retry is a new request, with its own ID and row", async () => {
  const before = await gateway.app.count()
  const ids = new Set<string | null>()
  for (const count of ['0', '1']) {
    const response = await gateway.chat({}, { headers: { 'x-stainless-retry-count': count } })
    ids.add(response.headers.get('x-request-id'))
  }
  expect(ids.size).toBe(2)
  expect(await gateway.app.settled(before + 2)).toHaveLength(before + 2)
})

describe('a configuration error', () => {
  test.each([401, 402, 403, 404, 405])("%i isn't retried by clients, and says where to look", async (status) => {
    gateway.upstream.script(errorAnswer(status, 'words that are for nobody else'))
    const response = await gateway.chat()
    expect(response.status).toBe(502)
    expect(response.headers.get('x-should-retry')).toBe('false')
    const text = await response.text()
    expect(text).toMatch(/api_key|account|base_url/)
    expect(text).not.toContain('for nobody else')
  })

  test('is distinguished from temporary errors', async () => {
    gateway.upstream.script(errorAnswer(500))
    expect((await gateway.chat()).headers.get('x-should-retry')).toBeNull()
  })
})

describe('a prompt beyond the context', () => {
  const text = 'All of these words are many more than fit. '.repeat(2_000)

  test('gets the classic error text before anything is called', async () => {
    const calls = gateway.upstream.requests.length
    const response = await gateway.chat({ messages: [{ role: 'user', content: text }] })
    expect(response.status).toBe(400)
    expect(JSON.parse(await response.text()).error).toMatchObject({
      code: 'context_length_exceeded',
      param: 'messages',
      message: expect.stringMatching(/^This model's maximum context length is 8192 tokens\. However, /),
    })
    expect(gateway.upstream.requests).toHaveLength(calls)
  })

  test("doesn't count as too long because of its bytes only", async () => {
    const content = 'word '.repeat(6_000)
    expect((await gateway.chat({ messages: [{ role: 'user', content }] })).status).toBe(200)
  })

  test('has the contract’s code even if only the upstream finds it too long', async () => {
    const message = "This model's maximum context length is 10 tokens. However, you requested 20 tokens."
    gateway.upstream.script({ kind: 'whole', status: 400, body: { object: 'error', message, code: 400 } })
    const response = await gateway.chat()
    expect(JSON.parse(await response.text()).error).toMatchObject({ code: 'context_length_exceeded', message })
  })
})

test.each([false, true])("log probabilities that weren't requested are removed, stream: %p", async (stream) => {
  const logprobs = { content: [{ token: 'Hi', logprob: -0.1, bytes: [72, 105], top_logprobs: [] }], refusal: null }
  const [frame] = [toDelta({ content: 'Hi' })]
  const told = JSON.parse(JSON.stringify(frame).replace('"logprobs":null', `"logprobs":${JSON.stringify(logprobs)}`))
  gateway.upstream.script(
    stream
      ? { kind: 'stream', steps: [told, toDelta({}, 'stop')] }
      : {
          kind: 'whole',
          body: { choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop', logprobs }] },
        },
  )
  expect(await (await gateway.chat({ stream })).text()).not.toContain('"token"')
  expect(await (await gateway.chat({ stream, logprobs: true })).text()).toContain('"token":"Hi"')
})

test("a text format isn't sent to a model without format support", async () => {
  await gateway.chat({ response_format: { type: 'text' } })
  expect(Object.keys(gateway.upstream.requests.at(-1)?.json ?? {})).not.toContain('response_format')
  await gateway.chat({ model: 'acme/typed', response_format: { type: 'text' } })
  expect(gateway.upstream.requests.at(-1)?.json).toMatchObject({ response_format: { type: 'text' } })
})

test("reasoning in tags is counted as reasoning if the upstream doesn't count it", async () => {
  gateway.upstream.script(streamAnswer({ tokens: ['<think>', 'Hm, hm.', '</think>', 'Hi'], usage: null }))
  const body = { model: 'local/tiny', stream: true, stream_options: { include_usage: true } }
  const { usage } = checkStream(await (await gateway.chat(body)).text(), { includeUsage: true })
  expect(usage).toMatchObject({ completion: 5, reasoning: 4 })
})
