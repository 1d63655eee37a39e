/** The official client with the built-in model: every way to send a request and read its response, except tools. */
import { beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { LengthFinishReasonError } from 'openai/error'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { forAllTests } from '../support/lifetime.ts'
import { DEMO, failureOf, startStage, usageOf } from './conformance.ts'

let client: OpenAI

const stage = forAllTests(startStage)
beforeAll(() => {
  client = new OpenAI({ baseURL: stage.baseUrl, apiKey: stage.key, maxRetries: 0 })
})

const say = (content: string) => ({ model: DEMO, messages: [{ role: 'user' as const, content }] })
const include = { stream_options: { include_usage: true } }

const City = z.object({
  name: z.string(),
  population: z.number().int(),
  twin: z.union([z.string(), z.null()]),
  districts: z.array(z.object({ name: z.string(), kind: z.enum(['old', 'new']) })),
})

describe('a whole response', () => {
  test('has the text, finish reason, request ID, and the billed usage', async () => {
    const answer = await client.chat.completions.create(say('Hello there'))
    expect(answer).toMatchObject({
      object: 'chat.completion',
      model: DEMO,
      choices: [{ index: 0, finish_reason: 'stop', logprobs: null, message: { role: 'assistant', refusal: null } }],
    })
    expect(answer.choices[0]?.message.content).toEndWith('You wrote: Hello there')
    expect(answer._request_id).toBe(answer.id.replace('chatcmpl-', 'req_'))
    expect(answer.usage).toEqual(usageOf(await stage.billed()))
    expect(answer.usage?.completion_tokens).toBeGreaterThan(10)
  })

  test('has its reasoning under both names, with its tokens', async () => {
    const answer = await client.chat.completions.create({ ...say('Hello'), reasoning_effort: 'low' })
    const message: object = answer.choices[0]?.message ?? {}
    expect(message).toHaveProperty('reasoning', expect.stringContaining('think'))
    expect(message).toHaveProperty('reasoning_content', Reflect.get(message, 'reasoning'))
    const { completion, reasoning } = await stage.billed()
    expect(answer.usage?.completion_tokens_details?.reasoning_tokens).toBe(reasoning)
    expect(reasoning).toBeWithin(1, completion)
  })

  test('is a refusal if the model refuses', async () => {
    const [choice] = (await client.chat.completions.create(say('Do [refuse] this'))).choices
    expect(choice).toMatchObject({ finish_reason: 'stop', message: { content: null } })
    expect(choice?.message.refusal).toContain('refuses')
  })

  test('is truncated at max_tokens, and says so', async () => {
    for (const cap of [{ max_tokens: 3 }, { max_completion_tokens: 3 }]) {
      const answer = await client.chat.completions.create({ ...say('Hello'), ...cap })
      expect(answer.choices[0]?.finish_reason).toBe('length')
      expect(answer.usage?.completion_tokens).toBe(3)
    }
  })

  test('has as many choices as requested, and one usage', async () => {
    const answer = await client.chat.completions.create({ ...say('Hello'), n: 3 })
    expect(answer.choices.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(new Set(answer.choices.map(({ message }) => message.content)).size).toBe(3)
    expect(answer.usage).toEqual(usageOf(await stage.billed()))
  })

  test('has logprobs that spell its text', async () => {
    const answer = await client.chat.completions.create({ ...say('Hello'), logprobs: true, top_logprobs: 2 })
    const [choice] = answer.choices
    const tokens = choice?.logprobs?.content ?? []
    expect(tokens.map(({ token }) => token).join('')).toBe(String(choice?.message.content))
    expect(Buffer.from(tokens.flatMap(({ bytes }) => bytes ?? [])).toString()).toBe(String(choice?.message.content))
    expect(tokens.map(({ top_logprobs: top }) => top.length)).toEqual(tokens.map(() => 2))
    expect(tokens.every(({ logprob }) => logprob <= 0)).toBeTrue()
  })
})

describe('a streamed response', () => {
  test('has the same text as the whole one, for the same tokens, with usage once and last', async () => {
    const whole = await client.chat.completions.create(say('Hello there'))
    const chunks = await Array.fromAsync(
      await client.chat.completions.create({ ...say('Hello there'), stream: true, ...include }),
    )
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(
      String(whole.choices[0]?.message.content),
    )
    expect(chunks.flatMap(({ choices }) => choices[0]?.finish_reason ?? [])).toEqual(['stop'])
    expect(chunks.filter(({ usage }) => usage)).toEqual(chunks.slice(-1))
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: usageOf(await stage.billed()) })
    expect(chunks.at(-1)?.usage).toEqual(whole.usage ?? null)
    expect(new Set(chunks.map(({ id, model, created }) => `${id} ${model} ${created}`)).size).toBe(1)
  })

  test('has no chunk without a choice unless usage was requested', async () => {
    const chunks = await Array.fromAsync(await client.chat.completions.create({ ...say('Hello'), stream: true }))
    expect(chunks.every((chunk) => chunk.choices.length === 1 && !('usage' in chunk))).toBeTrue()
  })

  test('is joined by the stream helper, event by event', async () => {
    const runner = client.chat.completions.stream({ ...say('Hello there'), ...include })
    const events: string[] = []
    const deltas: string[] = []
    runner
      .on('content', (delta) => deltas.push(delta))
      .on('content.done', ({ content }) => events.push(content))
      .on('finalContent', (content) => events.push(content))
      .on('end', () => events.push('end'))
    const answer = await runner.finalChatCompletion()
    const text = deltas.join('')
    expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop', message: { role: 'assistant', content: text } })
    expect(await runner.finalMessage()).toMatchObject({ content: text, refusal: null })
    expect(events).toEqual([text, text, 'end'])
    expect(text).toEndWith('You wrote: Hello there')
    expect(answer.usage).toEqual(usageOf(await stage.billed()))
    expect(await runner.totalUsage()).toMatchObject({ total_tokens: Number(answer.usage?.total_tokens) })
  })

  test('reasons before its text', async () => {
    const stream = await client.chat.completions.create({ ...say('Hello'), reasoning_effort: 'high', stream: true })
    const said: string[] = []
    for await (const { choices } of stream) {
      const delta: { content?: string | null; reasoning?: string; reasoning_content?: string } = choices[0]?.delta ?? {}
      expect(delta.reasoning).toBe(delta.reasoning_content as string)
      if (delta.reasoning || delta.content) said.push(delta.reasoning ? 'reasoning' : 'content')
    }
    expect(said.filter((kind, at) => kind !== said[at - 1])).toEqual(['reasoning', 'content'])
  })

  test('passes a refusal, logprobs, and every choice to the helper', async () => {
    const refused = client.chat.completions.stream(say('Do [refuse] this'))
    const refusals: string[] = []
    refused.on('refusal.done', ({ refusal }) => refusals.push(refusal))
    expect((await refused.finalMessage()).refusal).toContain('refuses')
    expect(refusals).toHaveLength(1)

    const runner = client.chat.completions.stream({ ...say('Hello'), logprobs: true, top_logprobs: 1, n: 2 })
    const spelled: string[] = []
    runner.on('logprobs.content.done', ({ content }) => spelled.push(content.map(({ token }) => token).join('')))
    const { choices } = await runner.finalChatCompletion()
    expect(choices.map(({ message }) => message.content)).toEqual(spelled)
    expect(spelled[0]).not.toBe(String(spelled[1]))
  })

  test('can be canceled, and the client continues', async () => {
    const stream = await client.chat.completions.create({ ...say('word '.repeat(300)), stream: true })
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) stream.controller.abort()
    expect(stream.controller.signal.aborted).toBeTrue()
    expect((await client.chat.completions.create(say('Still there?'))).choices).toHaveLength(1)
  })
})

describe('structured output', () => {
  test("is parsed into the schema's type", async () => {
    const response_format = zodResponseFormat(City, 'city')
    const answer = await client.chat.completions.parse({ ...say('Oslo'), response_format })
    const parsed = answer.choices[0]?.message.parsed
    expect(City.parse(parsed)).toEqual(JSON.parse(String(answer.choices[0]?.message.content)))
    expect(answer.usage).toEqual(usageOf(await stage.billed()))
  })

  test('is parsed while it streams, with the same result', async () => {
    const response_format = zodResponseFormat(City, 'city')
    const runner = client.chat.completions.stream({ ...say('Oslo'), response_format, ...include })
    const partial: unknown[] = []
    runner.on('content.delta', ({ parsed }) => partial.push(parsed))
    const answer = await runner.finalChatCompletion()
    const whole = await client.chat.completions.parse({ ...say('Oslo'), response_format })
    expect(answer.choices[0]?.message.parsed).toEqual(whole.choices[0]?.message.parsed as z.infer<typeof City>)
    expect(partial.length).toBeGreaterThan(1)
    expect(answer.usage).toEqual(whole.usage as OpenAI.CompletionUsage)
  })

  test('that was truncated is reported as too long, not as invalid JSON', async () => {
    const response_format = zodResponseFormat(City, 'city')
    const pending = client.chat.completions.parse({ ...say('Oslo'), response_format, max_tokens: 2 })
    expect(await failureOf(pending)).toBeInstanceOf(LengthFinishReasonError)
  })

  test('in JSON mode is an object', async () => {
    const answer = await client.chat.completions.create({ ...say('Oslo'), response_format: { type: 'json_object' } })
    expect(JSON.parse(String(answer.choices[0]?.message.content))).toMatchObject({ you_wrote: 'Oslo' })
  })
})
