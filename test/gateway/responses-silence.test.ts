/** Responses API streams that are idle, fail, or lose their client. */
import { expect, test } from 'bun:test'
import { forAllTests } from '../support/lifetime.ts'
import { checkResponseStream } from '../support/responses-contract.ts'
import { errorAnswer, streamAnswer, type Whole } from '../support/upstream-answers.ts'
import { startResponses } from './responses.ts'

const BEAT = ': keep-alive\n\n'
const SILENCE = 400

const gateway = forAllTests(() => startResponses({ config: { heartbeatMs: 50 } }))

const [role, ...words] = streamAnswer({ tokens: ['one ', 'two'] }).steps
const read = async () => (await gateway.post({ stream: true })).text()

test('comments keep it alive before its first event, and after it', async () => {
  const [first, ...rest] = words
  gateway.upstream.script({
    kind: 'stream',
    steps: [role ?? '', { waitMs: SILENCE }, first ?? '', { waitMs: SILENCE }, ...rest],
  })
  const text = await read()
  expect(text).toStartWith(BEAT)
  expect(text.slice(text.indexOf('response.created')).split(BEAT).length).toBeGreaterThan(2)
  expect(checkResponseStream(text).response).toMatchObject({ status: 'completed' })
})

const overflow: Whole = {
  ...errorAnswer(400),
  body: { error: { message: "This model's maximum context length is 8 tokens.", code: 'context_length_exceeded' } },
}

test.each([
  ['a server that fails', errorAnswer(500), 'upstream_failed', /returned 500/],
  ['a limit', errorAnswer(429, 'slow', { 'retry-after': '7' }), 'rate_limit_exceeded', /Please try again in 7s\.$/],
  ['a prompt too long', overflow, 'context_length_exceeded', /maximum context length/],
])('%s after a heartbeat is the third event, with a code that agents know', async (_, answer, code, message) => {
  gateway.upstream.script({ ...answer, delayMs: SILENCE })
  const before = await gateway.app.count()
  const text = await read()
  expect(text).toStartWith(BEAT)
  const { events, response } = checkResponseStream(text)
  expect(events.map(({ type }) => type)).toEqual(['response.created', 'response.in_progress', 'response.failed'])
  expect(response).toMatchObject({ error: { code, message: expect.stringMatching(message) }, output: [] })
  expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({ status: 'failed', cost_nano_usd: 0 })
})

test('output finished before a failure stays in the response', async () => {
  const steps = [...streamAnswer({ tokens: ['one'], finish: null, usage: null }).steps]
  const call = { index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '{' } }
  gateway.upstream.script({
    kind: 'stream',
    steps: [...steps, { choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: null }] }],
    end: 'reset',
  })
  const { response } = checkResponseStream(await read())
  expect(response).toMatchObject({ status: 'failed', output: [{ type: 'message', status: 'completed' }] })
})

test('a client that disconnects ends the call, which is recorded', async () => {
  const before = await gateway.app.count()
  gateway.upstream.script({ ...streamAnswer({ tokens: 1, finish: null, usage: null }), end: 'hang' })
  const client = new AbortController()
  const response = await gateway.post({ stream: true }, { signal: client.signal })
  await response.body?.getReader().read()
  client.abort()
  expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({ endpoint: 'responses', status: 'cut' })
})
