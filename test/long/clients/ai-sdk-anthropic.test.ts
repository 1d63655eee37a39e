/** The AI SDK with its Anthropic provider, through the Messages API: the built-in model, and upstreams of every format. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import {
  APICallError,
  generateText,
  isStepCount,
  type LanguageModel,
  type LanguageModelUsage,
  Output,
  streamText,
  tool,
} from 'ai'
import { z } from 'zod'
import { type Bill, DEMO, failureOf, type Stage, startStage } from '../../e2e/conformance.ts'
import { SPEAKERS } from '../../e2e/conformance-speakers.ts'
import { installed } from '../npm.ts'

interface Provider {
  createAnthropic(settings: { baseURL: string; apiKey: string }): (model: string) => LanguageModel
}

const modules = await installed(['@ai-sdk/anthropic@4.0.105'])
const LIBRARY = join(modules ?? '', '@ai-sdk/anthropic')

/** The SDK's usage in the ledger's terms; this API doesn't report reasoning. */
const tokensOf = ({ inputTokens, inputTokenDetails, outputTokens }: LanguageModelUsage) => ({
  ...{ prompt: inputTokens, cached: inputTokenDetails.cacheReadTokens, completion: outputTokens },
})
const tokensIn = ({ prompt, cached, completion }: Bill) => ({ prompt, cached, completion })

const Weather = z.object({ city: z.string(), unit: z.enum(['celsius', 'kelvin']) })
const tools = {
  weather: tool({ description: 'Says the weather', inputSchema: Weather, execute: async () => '7 degrees' }),
  clock: tool({ inputSchema: z.object({ zone: z.string() }), execute: async () => 'noon' }),
}
const steps = { tools, stopWhen: isStepCount(5), maxRetries: 0 }
const calls = [
  { name: 'weather', input: { city: 'Oslo', unit: 'celsius' } },
  { name: 'clock', input: { zone: 'UTC' } },
]

describe.skipIf(modules === null)('the AI SDK with its Anthropic provider', () => {
  let stage: Stage
  let provider: ReturnType<Provider['createAnthropic']>

  beforeAll(async () => {
    globalThis.AI_SDK_LOG_WARNINGS = false
    stage = await startStage()
    const { createAnthropic }: Provider = await import(LIBRARY)
    provider = createAnthropic({ baseURL: stage.baseUrl, apiKey: stage.key })
  })
  afterAll(() => stage.close())

  test('gets the same text and usage from the built-in model, whole and streamed', async () => {
    const asked = { model: provider(DEMO), prompt: 'Hello there', maxRetries: 0 }
    const whole = await generateText(asked)
    expect(whole.text).toEndWith('You wrote: Hello there')
    expect(whole).toMatchObject({ finishReason: 'stop', rawFinishReason: 'end_turn' })
    expect(tokensOf(whole.usage)).toEqual(tokensIn(await stage.billed()))
    const streamed = streamText(asked)
    expect(await streamed.text).toBe(whole.text)
    expect(tokensOf(await streamed.usage)).toEqual(tokensIn(await stage.billed()))
  })

  test('reports an unknown model and a wrong key', async () => {
    const { createAnthropic }: Provider = await import(LIBRARY)
    const wrong = createAnthropic({ baseURL: stage.baseUrl, apiKey: 'sk-tg-wrong' })(DEMO)
    for (const [model, statusCode] of [
      [provider('no/such'), 404],
      [wrong, 401],
    ] as const) {
      const failure = await failureOf(generateText({ model, prompt: 'Hi', maxRetries: 0 }))
      expect(APICallError.isInstance(failure)).toBe(true)
      expect(failure).toMatchObject({ statusCode, isRetryable: false })
    }
  })

  describe.each(SPEAKERS)('with $name', ({ model, say, limited }) => {
    test('follows tool calls to the final response, with reasoning sent back, whole and streamed', async () => {
      stage.upstream.script(
        say({ reasoning: 'Both will do.', calls }, { reasoning: 'That is all.', text: 'It is noon, at 7 degrees.' }),
      )
      const providerOptions = { anthropic: { thinking: { type: 'adaptive' } } }
      const asked = { model: provider(model), prompt: 'Go', providerOptions, ...steps }
      const whole = await generateText(asked)
      const streamed = streamText(asked)
      await streamed.consumeStream()
      for (const result of [whole, streamed]) {
        const made = await result.steps
        expect(made.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop'])
        expect(made[0]?.toolCalls.map(({ toolName: name, input }) => ({ name, input }))).toEqual(calls)
        expect(made.map(({ reasoningText }) => reasoningText)).toEqual(['Both will do.', 'That is all.'])
        expect(await result.text).toBe('It is noon, at 7 degrees.')
        expect(tokensOf(await result.usage)).toEqual(tokensIn(await stage.billed(2)))
      }
    })

    test('reads an object that the schema accepts', async () => {
      const oslo = { city: 'Oslo', unit: 'celsius' } as const
      stage.upstream.script(say({ text: JSON.stringify(oslo) }))
      const output = Output.object({ schema: Weather })
      const result = await generateText({ model: provider(model), prompt: 'Oslo', output, maxRetries: 0 })
      expect(result.output).toEqual(oslo)
    })

    test('reports a rate limit', async () => {
      stage.upstream.script(limited)
      const failure = await failureOf(generateText({ model: provider(model), prompt: 'Go', maxRetries: 0 }))
      expect(failure).toMatchObject({ statusCode: 429, isRetryable: true })
    })
  })
})
