/** The AI SDK with its provider for compatible servers: with the built-in model, a sloppy upstream, and a plain one. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createOpenAICompatible, type OpenAICompatibleProvider } from '@ai-sdk/openai-compatible'
import {
  APICallError,
  generateObject,
  generateText,
  isStepCount,
  type LanguageModelUsage,
  Output,
  streamObject,
  streamText,
  tool,
} from 'ai'
import { z } from 'zod'
import { wholeAnswer } from '../support/upstream-answers.ts'
import { type Bill, DEMO, failureOf, PLAIN, type Stage, startStage } from './conformance.ts'
import { SPEAKERS } from './conformance-speakers.ts'
import { SLOPPY, SLOPPY_USAGE, sayBadly } from './conformance-upstream.ts'

let stage: Stage
let provider: OpenAICompatibleProvider
/** The same provider on the upstream itself. */
let direct: OpenAICompatibleProvider

beforeAll(async () => {
  globalThis.AI_SDK_LOG_WARNINGS = false
  stage = await startStage()
  const settings = { name: 'tollgate', includeUsage: true, supportsStructuredOutputs: true }
  provider = createOpenAICompatible({ ...settings, baseURL: stage.baseUrl, apiKey: stage.key })
  direct = createOpenAICompatible({ ...settings, baseURL: stage.upstream.url, apiKey: 'x' })
})
afterAll(() => stage.close())

const say = (model: string, prompt: string) => ({ model: provider(model), prompt, maxRetries: 0 })
const reasoning = { providerOptions: { openaiCompatible: { reasoningEffort: 'low' } } }

/** The SDK's usage in the ledger's terms. */
const tokensOf = (usage: LanguageModelUsage) => ({
  prompt: usage.inputTokens,
  cached: usage.inputTokenDetails.cacheReadTokens,
  completion: usage.outputTokens,
  reasoning: usage.outputTokenDetails.reasoningTokens,
})
const tokensIn = ({ prompt, cached, completion, reasoning }: Bill) => ({ prompt, cached, completion, reasoning })

const tools = {
  weather: tool({
    description: 'Says the weather',
    inputSchema: z.object({ city: z.string(), unit: z.enum(['celsius', 'kelvin']) }),
    execute: async () => '7 degrees',
  }),
  clock: tool({ inputSchema: z.object({ zone: z.string() }), execute: async () => 'noon' }),
}
const steps = { tools, stopWhen: isStepCount(5) }

const City = z.object({ name: z.string(), districts: z.array(z.object({ kind: z.enum(['old', 'new']) })) })

describe('the built-in model', () => {
  test('generates text, with reasoning and the billed usage', async () => {
    const result = await generateText({ ...say(DEMO, 'Hello there'), ...reasoning })
    expect(result.text).toEndWith('You wrote: Hello there')
    expect(result.finalStep.reasoningText).toContain('think')
    expect(result).toMatchObject({ finishReason: 'stop', rawFinishReason: 'stop' })
    expect(result.finalStep.response).toMatchObject({ id: expect.stringMatching(/^chatcmpl-/), modelId: DEMO })
    expect(tokensOf(result.usage)).toEqual(tokensIn(await stage.billed()))
    expect(result.usage.outputTokenDetails.reasoningTokens).toBeGreaterThan(0)
  })

  test('streams reasoning, then text, then its finish reason and usage', async () => {
    const whole = await generateText({ ...say(DEMO, 'Hello there'), ...reasoning })
    const result = streamText({ ...say(DEMO, 'Hello there'), ...reasoning })
    const parts = await Array.fromAsync(result.stream)
    expect(parts.map(({ type }) => type).filter((type, at, all) => type !== all[at - 1])).toEqual([
      'start',
      'start-step',
      'reasoning-start',
      'reasoning-delta',
      'reasoning-end',
      'text-start',
      'text-delta',
      'text-end',
      'finish-step',
      'finish',
    ])
    expect(parts.at(-1)).toMatchObject({ finishReason: 'stop' })
    expect(await result.text).toBe(whole.text)
    expect(tokensOf(await result.usage)).toEqual(tokensIn(await stage.billed()))
    expect(await result.usage).toEqual(whole.usage)
  })

  test('makes two tool calls in one step, and responds in the next', async () => {
    const result = await generateText({ ...say(DEMO, 'Tell me weather and clock.'), ...steps })
    expect(result.steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop'])
    expect(result.toolCalls.map(({ toolName }) => toolName)).toEqual(['weather', 'clock'])
    expect(result.text).toEndWith('The tools answered: 7 degrees; noon')
    expect(tokensOf(result.usage)).toEqual(tokensIn(await stage.billed(2)))
  })

  test('streams tool calls, with their input in pieces, and continues with their results', async () => {
    const result = streamText({ ...say(DEMO, 'Tell me weather and clock.'), ...steps })
    const parts = await Array.fromAsync(result.stream)
    const inputs = parts.flatMap((part) => (part.type === 'tool-call' ? [part] : []))
    for (const { toolCallId, input } of inputs) {
      const pieces = parts.flatMap((part) =>
        part.type === 'tool-input-delta' && part.id === toolCallId ? part.delta : [],
      )
      expect(JSON.parse(pieces.join(''))).toEqual(input)
    }
    expect(inputs.map(({ toolName }) => toolName)).toEqual(['weather', 'clock'])
    expect(parts.filter(({ type }) => type === 'tool-result')).toHaveLength(2)
    expect((await result.steps).map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop'])
    expect(await result.text).toEndWith('The tools answered: 7 degrees; noon')
    expect(tokensOf(await result.usage)).toEqual(tokensIn(await stage.billed(2)))
  })

  test('generates objects that the schema accepts, whole and streamed', async () => {
    const whole = await generateObject({ ...say(DEMO, 'Oslo'), schema: City })
    const streamed = streamObject({ ...say(DEMO, 'Oslo'), schema: City })
    const partial = await Array.fromAsync(streamed.partialObjectStream)
    expect(City.parse(whole.object)).toEqual(await streamed.object)
    expect(partial.at(-1)).toEqual(whole.object)
    expect(partial.length).toBeGreaterThan(1)
    expect(tokensOf(await streamed.usage)).toEqual(tokensIn(await stage.billed()))
    const { output } = await generateText({ ...say(DEMO, 'Oslo'), output: Output.object({ schema: City }) })
    expect(output).toEqual(whole.object)
  })

  test('accepts images and files', async () => {
    const content = [
      { type: 'text' as const, text: 'Look' },
      { type: 'file' as const, data: Buffer.from('\x89PNG\r\n', 'latin1'), mediaType: 'image/png' },
      { type: 'file' as const, data: Buffer.from('%PDF-1.4'), mediaType: 'application/pdf' },
    ]
    const result = await generateText({ model: provider(DEMO), maxRetries: 0, messages: [{ role: 'user', content }] })
    expect(result.text).toContain('You also sent 2 attachments.')
  })

  test('reports truncation at the limit, and refusals', async () => {
    expect((await generateText({ ...say(DEMO, 'Hello'), maxOutputTokens: 3 })).finishReason).toBe('length')
    const refused = await generateText(say(DEMO, 'Do [refuse] this'))
    expect(refused).toMatchObject({ finishReason: 'content-filter', text: expect.stringContaining('refuses') })
  })
})

const calls = [
  { name: 'weather', input: { city: 'Oslo', unit: 'celsius' } },
  { name: 'clock', input: { zone: 'UTC' } },
]
const calling = { reasoning: 'Both will do.', calls }
const answer = { reasoning: 'That is all.', text: 'It is noon, at 7 degrees.' }

test('a sloppy upstream breaks the SDK that calls it directly', async () => {
  stage.upstream.script(sayBadly(calling, answer))
  const request = { ...say(SLOPPY, 'Go'), model: direct(SLOPPY), ...steps }
  expect(await failureOf(generateText(request))).toBeInstanceOf(Error)
  const parts = await Array.fromAsync(streamText({ ...request, onError: () => {} }).stream)
  expect(parts.map(({ type }) => type)).toContain('error')
})

describe.each(SPEAKERS)('$name', ({ model, say: speak, usage, limited }) => {
  test('follows tool calls to the final response, whole', async () => {
    stage.upstream.script(speak(calling, answer))
    const result = await generateText({ ...say(model, 'Go'), ...steps })
    expect(result.steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop'])
    expect(result.toolCalls.map(({ input }) => input)).toEqual(calls.map(({ input }) => input))
    expect(result.text).toBe(answer.text)
    expect(result.finalStep.reasoningText).toBe(answer.reasoning)
    expect(tokensOf(result.usage)).toEqual(tokensIn(await stage.billed(2)))
    expect(result.usage).toMatchObject({
      inputTokens: 80,
      inputTokenDetails: { cacheReadTokens: 2 * usage.prompt_tokens_details.cached_tokens },
    })
    if (model !== SLOPPY) return
    // The SDK sends reasoning back, and the upstream gets it.
    expect(stage.upstream.requests.at(-1)?.json?.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: null, reasoning_content: 'Both will do.', tool_calls: [{}, {}] },
      { role: 'tool', content: '7 degrees' },
      { role: 'tool', content: 'noon' },
    ])
  })

  test('follows tool calls to the final response, streaming', async () => {
    stage.upstream.script(speak(calling, answer))
    const result = streamText({ ...say(model, 'Go'), ...steps })
    const parts = await Array.fromAsync(result.stream)
    expect(parts.filter(({ type }) => type === 'error')).toEqual([])
    expect((await result.steps).map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop'])
    expect(parts.flatMap((part) => (part.type === 'tool-call' ? [part.input] : []))).toEqual(
      calls.map(({ input }) => input),
    )
    expect(await result.text).toBe(answer.text)
    expect((await result.finalStep).reasoningText).toBe(answer.reasoning)
    expect(tokensOf(await result.usage)).toEqual(tokensIn(await stage.billed(2)))
    expect((await result.usage).outputTokens).toBe(2 * SLOPPY_USAGE.completion_tokens)
  })

  test('gives objects that the schema accepts, whole and streamed', async () => {
    const object = { name: 'Oslo', districts: [{ kind: 'old' }] }
    stage.upstream.script(speak({ text: JSON.stringify(object) }))
    expect((await generateObject({ ...say(model, 'Oslo'), schema: City })).object).toEqual(City.parse(object))
    const streamed = streamObject({ ...say(model, 'Oslo'), schema: City })
    expect((await Array.fromAsync(streamed.partialObjectStream)).at(-1)).toEqual(City.parse(object))
    expect(await streamed.object).toEqual(City.parse(object))
  })

  test('reports a rate limit as an error that may be retried', async () => {
    stage.upstream.script(limited)
    const error = await failureOf(generateText(say(model, 'Go')))
    expect(error).toBeInstanceOf(APICallError)
    expect(error).toMatchObject({
      statusCode: 429,
      isRetryable: true,
      data: { error: { code: 'upstream_rate_limited' } },
    })
  })
})

describe('a model without structured output', () => {
  const schema = z.object({ city: z.string(), degrees: z.number() })
  const prose = wholeAnswer({ tokens: ['Of course:\n```json\n{"city": "Oslo", "degrees": 7}\n```\nBye!'] })

  test('generates objects anyway, whole and streamed', async () => {
    stage.upstream.script(prose)
    const whole = await generateObject({ ...say(PLAIN, 'How is Oslo?'), schema })
    expect(whole.object).toEqual({ city: 'Oslo', degrees: 7 })
    expect(tokensOf(whole.usage)).toEqual(tokensIn(await stage.billed()))
    const streamed = streamText({ ...say(PLAIN, 'How is Oslo?'), output: Output.object({ schema }) })
    expect(await streamed.output).toEqual(whole.object)
    expect(tokensOf(await streamed.usage)).toEqual(tokensIn(await stage.billed()))
  })

  test('that never writes the object fails, after two corrections', async () => {
    stage.upstream.script(wholeAnswer({ tokens: ['{"city": "Oslo"}'] }))
    const asked = stage.upstream.requests.length
    const error = await failureOf(generateObject({ ...say(PLAIN, 'How is Oslo?'), schema, maxRetries: 0 }))
    expect(error).toBeInstanceOf(APICallError)
    expect(error).toMatchObject({ statusCode: 502, data: { error: { code: 'schema_not_met' } } })
    expect(stage.upstream.requests.length - asked).toBe(3)
  })
})

test('an error has its status, message, and code', async () => {
  const unknown = await failureOf(generateText(say('no/such', 'Hello')))
  expect(unknown).toBeInstanceOf(APICallError)
  expect(unknown).toMatchObject({
    statusCode: 404,
    isRetryable: false,
    message: expect.stringContaining('model not found'),
    data: { error: { code: 'model_not_found', param: 'model' } },
  })
  const wrong = createOpenAICompatible({ name: 'tollgate', baseURL: stage.baseUrl, apiKey: 'sk-wrong' })
  expect(await failureOf(generateText({ model: wrong(DEMO), prompt: 'Hi', maxRetries: 0 }))).toMatchObject({
    statusCode: 401,
    data: { error: { code: 'invalid_api_key' } },
  })
})
