/** Anthropic's official client with other providers' models: the built-in one, and upstreams of every format. */
import { beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { forAllTests } from '../support/lifetime.ts'
import { DEMO, failureOf, startStage } from './conformance.ts'
import { SPEAKERS } from './conformance-speakers.ts'

let client: Anthropic

const stage = forAllTests(startStage)
beforeAll(() => {
  client = new Anthropic({ baseURL: stage.baseUrl.replace(/\/v1$/, ''), apiKey: stage.key, maxRetries: 0 })
})

type Params = Anthropic.MessageCreateParamsNonStreaming
const ask = (content: string): Anthropic.MessageParam => ({ role: 'user', content })

const tools: Anthropic.Tool[] = ['weather', 'clock'].map((name) => ({
  name,
  description: `Tells the ${name}.`,
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}))

const ways = [
  ['whole', (params: Params) => client.messages.create(params)],
  ['streamed', (params: Params) => client.messages.stream(params).finalMessage()],
] as const

/** Sends a response back unchanged, with the tools' results. */
const goOn = (messages: Anthropic.MessageParam[], { content }: Anthropic.Message) => {
  messages.push({ role: 'assistant', content: content as Anthropic.ContentBlockParam[] })
  const results = content.flatMap((block): Anthropic.ToolResultBlockParam[] =>
    block.type === 'tool_use' ? [{ type: 'tool_result', tool_use_id: block.id, content: `sunny ${block.name}` }] : [],
  )
  if (results.length > 0) messages.push({ role: 'user', content: results })
  return results.length
}

/**
 * Compares the usage of client and ledger. For streams, the client keeps only the usage fields that it knows, so not
 * the cost.
 */
async function expectBilled({ usage }: Anthropic.Message): Promise<void> {
  const { prompt, cached, completion, costNanoUsd } = await stage.billed()
  const cost = 'cost_nano_usd' in usage ? { cost_nano_usd: costNanoUsd } : {}
  expect(usage).toMatchObject({
    input_tokens: prompt - cached,
    cache_read_input_tokens: cached,
    output_tokens: completion,
    ...cost,
  } as object)
}

describe.each(ways)('the built-in model, %s', (_, send) => {
  test('responds', async () => {
    const message = await send({ model: DEMO, max_tokens: 100, messages: [ask('Hello there')], system: 'Be brief.' })
    expect(message).toMatchObject({ type: 'message', role: 'assistant', model: DEMO, stop_reason: 'end_turn' })
    expect(message.content).toMatchObject([{ type: 'text', text: expect.stringContaining('Hello there') }])
    await expectBilled(message)
  })

  test('reasons, calls two tools at once, and reads their results', async () => {
    const messages = [ask('Tell me weather and clock.')]
    const thinking = { type: 'enabled', budget_tokens: 2_000 } as const
    const params = { model: DEMO, max_tokens: 4_000, tools, thinking }
    const first = await send({ ...params, messages })
    expect(first.stop_reason).toBe('tool_use')
    expect(first.content.map(({ type }) => type)).toEqual(['thinking', 'tool_use', 'tool_use'])
    expect(goOn(messages, first)).toBe(2)
    const last = await send({ ...params, messages })
    expect(last.content.at(-1)).toMatchObject({
      type: 'text',
      text: expect.stringContaining('The tools answered: sunny weather; sunny clock'),
    })
    await expectBilled(last)
  })

  test('calls forced tools, and stops at the output limit', async () => {
    const params = { model: DEMO, max_tokens: 1_000, messages: [ask('Hello')], tools }
    const forced = await send({ ...params, tool_choice: { type: 'tool', name: 'clock' } })
    expect(forced.content).toMatchObject([{ type: 'tool_use', name: 'clock', input: { city: expect.any(String) } }])
    const none = await send({ ...params, tool_choice: { type: 'none' } })
    expect(none.stop_reason).toBe('end_turn')
    expect((await send({ ...params, max_tokens: 1, tool_choice: { type: 'none' } })).stop_reason).toBe('max_tokens')
  })
})

describe.each([false, true])("the client library's tool runner, streamed: %p", (stream) => {
  test('continues without a stored thread, and the second turn has its history and its tools', async () => {
    const asked: { thread: unknown; messages: unknown[]; tools: unknown[] }[] = []
    const watching = new Anthropic({
      baseURL: stage.baseUrl.replace(/\/v1$/, ''),
      apiKey: stage.key,
      maxRetries: 0,
      fetch: (url, init) => {
        asked.push(JSON.parse(String(init?.body)))
        return fetch(url as string, init as RequestInit)
      },
    })
    const runner = watching.beta.messages.toolRunner({
      ...{ model: DEMO, max_tokens: 1_000, messages: [ask('Tell me the weather.')], stream },
      tools: [{ ...tools[0], run: () => 'sunny' }],
    } as never) as AsyncIterable<unknown> & { done(): Promise<Anthropic.Beta.BetaMessage> }
    for await (const turn of runner) if (stream) await (turn as { finalMessage(): Promise<unknown> }).finalMessage()
    const last = await runner.done()
    expect(last.content.at(-1)).toMatchObject({
      type: 'text',
      text: expect.stringContaining('The tools answered: sunny'),
    })
    expect(asked.map(({ thread, messages, tools }) => [thread, messages.length, tools.length])).toEqual([
      [{ type: 'create' }, 1, 1],
      [undefined, 1, 1],
      [undefined, 3, 1],
    ])
  })
})

test('a schema is met, and parsed by the client', async () => {
  const schema = {
    type: 'object',
    properties: { title: { type: 'string' } },
    required: ['title'],
    additionalProperties: false,
  } as const
  const { parsed_output: parsed } = await client.messages.parse({
    ...{ model: DEMO, max_tokens: 1_000, messages: [ask('A title, please')] },
    output_config: { format: { type: 'json_schema', schema, parse: (text: string) => JSON.parse(text) } },
  } as never)
  expect(parsed).toEqual({ title: expect.any(String) } as never)
})

describe.each(SPEAKERS.map((speaker) => [speaker.name, speaker] as const))(
  '%s',
  (_, { model, say, limited, usage: told }) => {
    test.each(ways)('follows tool calls, with reasoning that is sent back, %s', async (_, send) => {
      const call = (name: string) => ({ name, input: { city: 'Oslo' } })
      stage.upstream.script(
        say(
          { reasoning: 'Both, then. 🤔', text: 'Let me see.', calls: [call('weather'), call('clock')] },
          { reasoning: 'Once more.', calls: [call('weather')] },
          { text: 'It is sunny.' },
        ),
      )
      const messages = [ask('Weather and time in Oslo?')]
      const kinds: string[][] = []
      for (let left = 3; left > 0; left--) {
        const message = await send({
          ...{
            model,
            max_tokens: 4_000,
            messages,
            tools,
            thinking: { type: 'adaptive' },
            output_config: { effort: 'low' },
          },
        } as Params)
        kinds.push(message.content.map(({ type }) => type).filter((type) => type !== 'redacted_thinking'))
        expect(message.stop_reason).toBe(left > 1 ? 'tool_use' : 'end_turn')
        await expectBilled(message)
        goOn(messages, message)
      }
      expect(kinds).toEqual([['thinking', 'text', 'tool_use', 'tool_use'], ['thinking', 'tool_use'], ['text']])
      expect(messages.at(-1)?.content[0]).toMatchObject({ type: 'text', text: 'It is sunny.' })
    })

    test('reports cached input separately', async () => {
      stage.upstream.script(say({ text: 'Hello' }))
      const { usage } = await client.messages.create({ model, max_tokens: 100, messages: [ask('Hi')] })
      const { prompt_tokens: prompt, prompt_tokens_details: details } = told
      expect(usage).toMatchObject({
        input_tokens: prompt - details.cached_tokens,
        cache_read_input_tokens: details.cached_tokens,
      })
    })

    test('reports a rate limit', async () => {
      stage.upstream.script(limited)
      const failure = await failureOf(client.messages.create({ model, max_tokens: 100, messages: [ask('Hi')] }))
      expect(failure).toBeInstanceOf(Anthropic.RateLimitError)
      expect((failure as InstanceType<typeof Anthropic.RateLimitError>).headers.get('retry-after')).toBe('34')
    })
  },
)

test('an error has its class, its type, and its request ID', async () => {
  const params = { model: DEMO, max_tokens: 10, messages: [ask('Hi')] }
  const nobody = new Anthropic({ baseURL: stage.baseUrl.replace(/\/v1$/, ''), apiKey: 'sk-ant-x', maxRetries: 0 })
  const failures = [
    [Anthropic.AuthenticationError, 'authentication_error', nobody.messages.create(params)],
    [Anthropic.NotFoundError, 'not_found_error', client.messages.create({ ...params, model: 'claude-none' })],
    [Anthropic.BadRequestError, 'invalid_request_error', client.messages.create({ ...params, max_tokens: 0 })],
    [Anthropic.BadRequestError, 'invalid_request_error', client.messages.stream({ ...params, messages: [] }).done()],
  ] as const
  for (const [kind, type, pending] of failures) {
    const failure = await failureOf(pending)
    expect(failure).toBeInstanceOf(kind)
    expect(failure).toMatchObject({ type, requestID: expect.stringMatching(/^req_[0-9a-f]{32}$/) } as object)
  }
})

test('tokens are counted before a request is sent', async () => {
  const { input_tokens: few } = await client.messages.countTokens({ model: DEMO, messages: [ask('Hi')] })
  const { input_tokens: many } = await client.messages.countTokens({ model: DEMO, messages: [ask('Hi')], tools })
  expect(few).toBeGreaterThan(0)
  expect(many).toBeGreaterThan(few)
})

test('a client with the older API version, and the key in its own header, gets the same', async () => {
  const headers = { 'anthropic-version': '2023-06-01', 'x-api-key': stage.key, authorization: null }
  const message = await client.messages.create(
    { model: DEMO, max_tokens: 50, messages: [ask('Hello')], temperature: 0.5 } as Params,
    { headers },
  )
  expect(message.stop_reason).toBe('end_turn')
})
