/** LangChain's Anthropic class, through the Messages API: the built-in model, and upstreams of every format. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import type { AIMessageChunk, BaseMessage, HumanMessage, ToolMessage, UsageMetadata } from '@langchain/core/messages'
import { z } from 'zod'
import { type Bill, DEMO, failureOf, type Stage, startStage } from '../../e2e/conformance.ts'
import { SPEAKERS } from '../../e2e/conformance-speakers.ts'
import { installed } from '../npm.ts'

interface Library {
  ChatAnthropic: new (fields: {
    model: string
    apiKey: string
    anthropicApiUrl: string
    maxRetries: number
    maxTokens: number
    thinking?: { type: 'adaptive' }
  }) => BaseChatModel
}
interface Messages {
  HumanMessage: typeof HumanMessage
  ToolMessage: typeof ToolMessage
}

const modules = await installed(['@langchain/anthropic@1.5.11', '@langchain/core@1.4.0'])

/**
 * LangChain's usage in the ledger's terms, of whole responses. For streams, it adds the usage in `message_start` and in
 * `message_delta`, where the API repeats and corrects it.
 */
const tokensOf = ({ usage_metadata: usage }: { usage_metadata?: UsageMetadata | undefined }) => ({
  ...{ prompt: usage?.input_tokens, cached: usage?.input_token_details?.cache_read, completion: usage?.output_tokens },
})
const tokensIn = ({ prompt, cached, completion }: Bill) => ({ prompt, cached, completion })

const weather = {
  ...{ name: 'weather', description: 'Says the weather' },
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}
const clock = { name: 'clock', input_schema: { type: 'object', properties: { zone: { type: 'string' } } } }
const calls = [
  { name: 'weather', input: { city: 'Oslo' } },
  { name: 'clock', input: { zone: 'UTC' } },
]

/** Joins a stream as LangChain does. */
async function gather(stream: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> {
  const [first, ...rest] = await Array.fromAsync(stream)
  if (!first) throw new Error('an empty stream')
  return rest.reduce((sum, chunk) => sum.concat(chunk), first)
}

describe.skipIf(modules === null)("LangChain's Anthropic class", () => {
  let stage: Stage
  let library: Library
  let messages: Messages

  beforeAll(async () => {
    process.env.LANGSMITH_TRACING = 'false'
    process.env.LANGCHAIN_TRACING_V2 = 'false'
    stage = await startStage()
    library = await import(join(modules ?? '', '@langchain/anthropic'))
    messages = await import(join(modules ?? '', '@langchain/core/messages'))
  })
  afterAll(() => stage.close())

  const toModel = (model: string, apiKey = stage.key, thinking?: { type: 'adaptive' }) =>
    new library.ChatAnthropic({
      ...(thinking && { thinking }),
      ...{ model, apiKey, anthropicApiUrl: stage.baseUrl.replace(/\/v1$/, ''), maxRetries: 0, maxTokens: 2_000 },
    })

  test('gets the same text and usage from the built-in model, whole and streamed', async () => {
    const whole = await toModel(DEMO).invoke('Hello there')
    expect(whole.text).toEndWith('You wrote: Hello there')
    expect(whole.response_metadata).toMatchObject({ stop_reason: 'end_turn', model: DEMO })
    expect(tokensOf(whole)).toEqual(tokensIn(await stage.billed()))
    const streamed = await gather(await toModel(DEMO).stream('Hello there'))
    expect(streamed.text).toBe(whole.text)
    expect<object>(tokensIn(await stage.billed())).toEqual(tokensOf(whole))
  })

  test('reports an unknown model and a wrong key', async () => {
    expect(await failureOf(toModel('no/such').invoke('Hello'))).toMatchObject({ status: 404 })
    expect(await failureOf(toModel(DEMO, 'sk-tg-wrong').invoke('Hello'))).toMatchObject({ status: 401 })
  })

  describe.each(SPEAKERS)('with $name', ({ model, say, limited }) => {
    test('follows tool calls to the final response, whole and streamed', async () => {
      stage.upstream.script(
        say({ reasoning: 'Both will do.', calls }, { reasoning: 'That is all.', text: 'It is noon, at 7 degrees.' }),
      )
      const thinking = { type: 'adaptive' } as const
      const bound = toModel(model, stage.key, thinking).bindTools?.([weather, clock])
      if (!bound) throw new Error('it takes no tools')
      for (const isStream of [false, true]) {
        const ask = async (input: BaseMessage[]) => (isStream ? gather(await bound.stream(input)) : bound.invoke(input))
        const expectBilled = async (message: AIMessageChunk) => {
          const billed = tokensIn(await stage.billed())
          if (!isStream) expect(tokensOf(message)).toEqual(billed)
        }
        const asked = new messages.HumanMessage('Go')
        const called = await ask([asked])
        expect(called.tool_calls?.map(({ name, args }) => ({ name, input: args }))).toEqual(calls)
        expect(JSON.stringify(called.content)).toContain('Both will do.')
        await expectBilled(called)
        const results = (called.tool_calls ?? []).map(
          ({ id = '' }) => new messages.ToolMessage({ tool_call_id: id, content: '7 degrees' }),
        )
        const answered = await ask([asked, called, ...results])
        expect(answered.text).toBe('It is noon, at 7 degrees.')
        await expectBilled(answered)
      }
    })

    test('reads an object that the schema accepts', async () => {
      stage.upstream.script(say({ calls: [{ name: 'weather', input: { city: 'Oslo' } }] }))
      const structured = toModel(model).withStructuredOutput(z.object({ city: z.string() }), { name: 'weather' })
      expect(await structured.invoke('Oslo')).toEqual({ city: 'Oslo' })
    })

    test('reports a rate limit', async () => {
      stage.upstream.script(limited)
      expect(await failureOf(toModel(model).invoke('Go'))).toMatchObject({ status: 429 })
    })
  })
})
