/** LangChain's chat model with the built-in model, a sloppy upstream, and a plain one. */
import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test'
import {
  type AIMessage,
  type AIMessageChunk,
  type BaseMessage,
  HumanMessage,
  ToolMessage,
  type UsageMetadata,
} from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'
import { wholeAnswer } from '../support/upstream-answers.ts'
import { type Bill, DEMO, failureOf, PLAIN, type Stage, startStage } from './conformance.ts'
import { SPEAKERS } from './conformance-speakers.ts'
import { SLOPPY, sayBadly } from './conformance-upstream.ts'

let stage: Stage

beforeAll(async () => {
  // Nothing here may call home.
  process.env.LANGSMITH_TRACING = 'false'
  process.env.LANGCHAIN_TRACING_V2 = 'false'
  stage = await startStage()
})
afterAll(() => stage.close())

const toModel = (model: string, baseURL = stage.baseUrl, apiKey = stage.key) =>
  new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration: { baseURL } })

/** Joins a stream as LangChain does. */
async function gather(stream: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> {
  const [first, ...rest] = await Array.fromAsync(stream)
  if (!first) throw new Error('an empty stream')
  return rest.reduce((sum, chunk) => sum.concat(chunk), first)
}

/** LangChain's usage in the ledger's terms. */
const tokensOf = ({ usage_metadata: usage }: { usage_metadata?: UsageMetadata | undefined }) => ({
  prompt: usage?.input_tokens,
  cached: usage?.input_token_details?.cache_read,
  completion: usage?.output_tokens,
  reasoning: usage?.output_token_details?.reasoning,
})
const tokensIn = ({ prompt, cached, completion, reasoning }: Bill) => ({ prompt, cached, completion, reasoning })

const Weather = z.object({ city: z.string(), unit: z.enum(['celsius', 'kelvin']) })
const weather = tool(async () => '7 degrees', { name: 'weather', description: 'Says the weather', schema: Weather })
const clock = tool(async () => 'noon', {
  name: 'clock',
  description: 'Says the time',
  schema: z.object({ zone: z.string() }),
})
const tools = [weather, clock]

/** Runs a message's tool calls, as an agent would, and returns the conversation after them. */
async function answerCalls(asked: HumanMessage, message: AIMessage): Promise<BaseMessage[]> {
  const results = (message.tool_calls ?? []).map(async ({ id = '', name, args }) => {
    const content =
      name === 'weather' ? await weather.invoke(Weather.parse(args)) : await clock.invoke({ zone: args.zone })
    return new ToolMessage({ tool_call_id: id, content })
  })
  return [asked, message, ...(await Promise.all(results))]
}

describe('the built-in model', () => {
  test('responds, with finish reason, model, and the billed usage', async () => {
    const message = await toModel(DEMO).invoke('Hello there')
    expect(message.text).toEndWith('You wrote: Hello there')
    expect(message.response_metadata).toMatchObject({ finish_reason: 'stop', model_name: DEMO })
    expect(message.id).toMatch(/^chatcmpl-/)
    expect(tokensOf(message)).toEqual(tokensIn(await stage.billed()))
  })

  test('streams the same response in pieces, for the same tokens', async () => {
    const whole = await toModel(DEMO).invoke('Hello there')
    const streamed = await gather(await toModel(DEMO).stream('Hello there'))
    expect(streamed.text).toBe(whole.text)
    expect(streamed.response_metadata).toMatchObject({ finish_reason: 'stop', model_name: DEMO })
    expect(tokensOf(streamed)).toEqual(tokensIn(await stage.billed()))
    expect(tokensOf(streamed)).toEqual(tokensOf(whole))
  })

  test('calls tools and responds to their results, whole and streamed', async () => {
    const model = toModel(DEMO).bindTools(tools)
    const asked = new HumanMessage('Tell me weather and clock.')
    for (const ask of [
      (input: BaseMessage[]) => model.invoke(input),
      async (input: BaseMessage[]) => gather(await model.stream(input)),
    ]) {
      const called = await ask([asked])
      expect(called.response_metadata.finish_reason).toBe('tool_calls')
      expect(called.invalid_tool_calls).toEqual([])
      expect(called.tool_calls?.map(({ name }) => name)).toEqual(['weather', 'clock'])
      expect(Weather.safeParse(called.tool_calls?.[0]?.args).success).toBeTrue()
      expect(tokensOf(called)).toEqual(tokensIn(await stage.billed()))
      const answered = await ask(await answerCalls(asked, called))
      expect(answered.text).toEndWith('The tools answered: 7 degrees; noon')
      expect(tokensOf(answered)).toEqual(tokensIn(await stage.billed()))
    }
  })

  test('follows a schema by every method', async () => {
    for (const method of ['jsonSchema', 'functionCalling'] as const) {
      for (const strict of [true, false]) {
        const model = toModel(DEMO).withStructuredOutput(Weather, { name: 'weather', method, strict })
        expect(Weather.safeParse(await model.invoke('Oslo')).success).toBeTrue()
      }
    }
    const { raw, parsed } = await toModel(DEMO)
      .withStructuredOutput(Weather, { method: 'jsonSchema', includeRaw: true })
      .invoke('Oslo')
    expect(parsed).toEqual(JSON.parse(raw.text))
  })

  test('reports truncation at the limit', async () => {
    const model = new ChatOpenAI({
      model: DEMO,
      apiKey: stage.key,
      maxTokens: 3,
      configuration: { baseURL: stage.baseUrl },
    })
    const message = await model.invoke('Hello')
    expect(message.response_metadata.finish_reason).toBe('length')
    expect(tokensOf(message).completion).toBe(3)
  })
})

const calls = [
  { name: 'weather', input: { city: 'Oslo', unit: 'celsius' } },
  { name: 'clock', input: { zone: 'UTC' } },
]
const answer = { reasoning: 'That is all.', text: 'It is noon, at 7 degrees.' }
const asked = new HumanMessage('Go')

test('a sloppy upstream breaks LangChain that calls it directly', async () => {
  stage.upstream.script(sayBadly({ calls }))
  const direct = toModel(SLOPPY, stage.upstream.url, 'x').bindTools(tools)
  // LangChain logs a warning about calls in an unknown form.
  const warned = spyOn(console, 'warn').mockImplementation(() => {})
  for (const message of [await direct.invoke([asked]), await gather(await direct.stream([asked]))]) {
    expect(message.tool_calls?.map(({ args }) => args)).not.toEqual(calls.map(({ input }) => input))
  }
  warned.mockRestore()
})

describe.each(SPEAKERS)('$name', ({ model, say, usage, limited }) => {
  test('follows tool calls to the final response, whole and streamed', async () => {
    const bound = toModel(model).bindTools(tools)
    stage.upstream.script(say({ calls }, answer))
    for (const ask of [
      (input: BaseMessage[]) => bound.invoke(input),
      async (input: BaseMessage[]) => gather(await bound.stream(input)),
    ]) {
      const called = await ask([asked])
      expect(called.response_metadata.finish_reason).toBe('tool_calls')
      expect(called.tool_calls?.map(({ args }) => args)).toEqual(calls.map(({ input }) => input))
      expect(tokensOf(called)).toEqual(tokensIn(await stage.billed()))
      const answered = await ask(await answerCalls(asked, called))
      expect(answered.text).toBe(answer.text)
      expect(answered.additional_kwargs.reasoning_content).toBe(answer.reasoning)
      expect(tokensOf(answered)).toEqual({
        prompt: usage.prompt_tokens,
        cached: usage.prompt_tokens_details.cached_tokens,
        completion: usage.completion_tokens,
        reasoning: usage.completion_tokens_details.reasoning_tokens,
      })
    }
  })

  test('follows a schema by every method', async () => {
    const oslo = { city: 'Oslo', unit: 'celsius' }
    for (const method of ['jsonSchema', 'functionCalling'] as const) {
      stage.upstream.script(
        say(method === 'jsonSchema' ? { text: JSON.stringify(oslo) } : { calls: [{ name: 'weather', input: oslo }] }),
      )
      const structured = toModel(model).withStructuredOutput(Weather, { name: 'weather', method })
      expect(await structured.invoke('Oslo')).toEqual(Weather.parse(oslo))
    }
  })

  test('reports a rate limit', async () => {
    stage.upstream.script(limited)
    const error = await failureOf(toModel(model).invoke('Go'))
    expect(error).toMatchObject({ status: 429, code: 'upstream_rate_limited' })
  })
})

describe('a model without structured output', () => {
  const schema = z.object({ city: z.string(), degrees: z.number() })

  test('follows a schema anyway, whole and streamed', async () => {
    stage.upstream.script(wholeAnswer({ tokens: ['Of course:\n```json\n{"city": "Oslo", "degrees": 7}\n```\nBye!'] }))
    const model = toModel(PLAIN).withStructuredOutput(schema, { name: 'weather', method: 'jsonSchema', strict: true })
    expect(await model.invoke('How is Oslo?')).toEqual({ city: 'Oslo', degrees: 7 })
    expect((await Array.fromAsync(await model.stream('How is Oslo?'))).at(-1)).toEqual({ city: 'Oslo', degrees: 7 })
    expect(await stage.billed(2)).toMatchObject({ prompt: 20, completion: 2, calls: 2 })
  })
})

test('an error has its status, message, and code', async () => {
  expect(await failureOf(toModel('no/such').invoke('Hello'))).toMatchObject({
    status: 404,
    code: 'model_not_found',
    message: expect.stringContaining('model not found'),
  })
  expect(await failureOf(toModel(DEMO, stage.baseUrl, 'sk-wrong').invoke('Hello'))).toMatchObject({
    status: 401,
    code: 'invalid_api_key',
  })
})
