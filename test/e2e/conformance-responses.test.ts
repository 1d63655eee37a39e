/** The official client's Responses API, with the built-in model and with upstreams of every API format. */
import { beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { forAllTests } from '../support/lifetime.ts'
import { checkResponseStream } from '../support/responses-contract.ts'
import { type Bill, DEMO, failureOf, startStage } from './conformance.ts'
import { SPEAKERS } from './conformance-speakers.ts'

let client: OpenAI
/** Streams that the client reads, as sent over the wire. */
let bodies: Promise<string>[] = []

const stage = forAllTests(startStage)
beforeAll(async () => {
  const listen: typeof fetch = Object.assign(async (...call: Parameters<typeof fetch>) => {
    const response = await fetch(...call)
    if (response.headers.get('content-type')?.startsWith('text/event-stream')) bodies.push(response.clone().text())
    return response
  }, fetch)
  client = new OpenAI({ baseURL: stage.baseUrl, apiKey: stage.key, maxRetries: 0, fetch: listen })
})

/** Checks all streams since the last call against their contract. */
async function checkStreams(): Promise<number> {
  const read = await Promise.all(bodies)
  bodies = []
  for (const body of read) checkResponseStream(body)
  return read.length
}

const Weather = z.object({ city: z.string(), unit: z.enum(['celsius', 'kelvin']) })
const Time = z.object({ zone: z.string() })
const TOOLS = [
  zodResponsesFunction({ name: 'weather', parameters: Weather }),
  zodResponsesFunction({ name: 'clock', parameters: Time }),
]

const usageOf = ({ prompt, cached, completion, reasoning, costNanoUsd }: Bill) => ({
  input_tokens: prompt,
  input_tokens_details: { cached_tokens: cached, cache_write_tokens: 0 },
  output_tokens: completion,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: prompt + completion,
  cost_nano_usd: costNanoUsd,
  cost: costNanoUsd / 1e9,
})

type Body = OpenAI.Responses.ResponseCreateParamsNonStreaming

/** Sends a request, whole or with the client's stream helper. */
async function ask(body: Body, isStream: boolean): Promise<OpenAI.Responses.Response> {
  if (!isStream) return client.responses.create(body)
  return client.responses.stream({ ...body, stream: true }).finalResponse()
}

describe('the built-in model', () => {
  test('responds the same whole and streamed, and reports the billed usage', async () => {
    const whole = await client.responses.create({ model: DEMO, input: 'Hello', instructions: 'Be brief.' })
    expect(whole).toMatchObject({ object: 'response', status: 'completed', store: false })
    expect(whole.output_text).not.toBe('')
    expect<unknown>(whole.usage).toEqual(usageOf(await stage.billed()))
    let text = ''
    const streamed = await client.responses
      .stream({ model: DEMO, input: 'Hello', instructions: 'Be brief.' })
      .on('response.output_text.delta', ({ delta }) => {
        text += delta
      })
      .finalResponse()
    expect(text).toBe(whole.output_text)
    expect(streamed.output_text).toBe(text)
    expect(streamed.usage).toEqual(whole.usage)
    expect(await checkStreams()).toBe(1)
  })

  test('follows a schema, and the client parses the output', async () => {
    const body = { model: DEMO, input: 'Weather?', text: { format: zodTextFormat(Weather, 'weather') } }
    const parsed = await client.responses.parse(body)
    expect(Weather.safeParse(parsed.output_parsed).success).toBeTrue()
    const streamed = await client.responses.stream(body).finalResponse()
    expect(streamed.output_parsed).toEqual(parsed.output_parsed)
    await checkStreams()
  })

  test('calls a forced tool, with arguments that the client parses', async () => {
    const request = {
      model: DEMO,
      input: 'Go',
      tools: TOOLS,
      tool_choice: { type: 'function' as const, name: 'clock' },
    }
    const { output } = await client.responses.parse(request)
    const call = output.find(({ type }) => type === 'function_call')
    expect(Time.safeParse(Reflect.get(call ?? {}, 'parsed_arguments')).success).toBeTrue()
  })

  test('accepts images', async () => {
    const image_url =
      'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='
    const content = [{ type: 'input_image' as const, image_url, detail: 'auto' as const }]
    const { status } = await client.responses.create({ model: DEMO, input: [{ role: 'user', content }] })
    expect(status).toBe('completed')
  })
})

describe('a refused request', () => {
  const refused = (body: object) => failureOf(client.responses.create({ model: DEMO, input: 'x', ...body }))

  test('has errors that the client knows', async () => {
    const unknown = await refused({ model: 'acme/none' })
    expect(unknown).toBeInstanceOf(OpenAI.NotFoundError)
    expect(unknown).toMatchObject({ code: 'model_not_found' })
    const kept = await refused({ previous_response_id: 'resp_1' })
    expect(kept).toBeInstanceOf(OpenAI.BadRequestError)
    expect(kept).toMatchObject({ code: 'unsupported_parameter', param: 'previous_response_id' })
    expect(await failureOf(client.responses.retrieve('resp_1'))).toBeInstanceOf(OpenAI.NotFoundError)
    expect(await failureOf(client.responses.delete('resp_1'))).toBeInstanceOf(OpenAI.NotFoundError)
  })
})

/** A model's output, as the client may send it back. */
const toInput = (item: OpenAI.Responses.ResponseOutputItem): OpenAI.Responses.ResponseInput =>
  item.type === 'message' || item.type === 'reasoning' || item.type === 'function_call' ? [item] : []

const OSLO = { city: 'Oslo', unit: 'celsius' }
const UTC = { zone: 'UTC' }
const ANSWERS: Record<string, string> = { weather: '7 degrees', clock: 'noon' }

describe.each(SPEAKERS)('$name', ({ model, say, limited }) => {
  for (const isStream of [false, true])
    test(`completes several rounds, with reasoning sent back${isStream ? ', streaming' : ''}`, async () => {
      const calls = [
        { name: 'weather', input: OSLO },
        { name: 'clock', input: UTC },
      ]
      stage.upstream.script(
        say(
          { reasoning: 'Both will do.', calls },
          { text: 'Once more.', calls: [{ name: 'clock', input: UTC }] },
          { reasoning: 'That is all.', text: 'It is noon, at 7 degrees.' },
        ),
      )
      const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: 'Go' }]
      const called: unknown[] = []
      const thoughts: string[] = []
      for (;;) {
        const include = ['reasoning.encrypted_content' as const]
        const body: Body = { model, input, tools: TOOLS, include, reasoning: { effort: 'high', summary: 'auto' } }
        const response = await ask({ ...body, store: false }, isStream)
        expect<unknown>(response.usage).toEqual(usageOf(await stage.billed()))
        const due = response.output.filter((item) => item.type === 'function_call')
        for (const item of response.output)
          if (item.type === 'reasoning') thoughts.push(...item.summary.map(({ text }) => text))
        input.push(...response.output.flatMap(toInput))
        for (const { name, arguments: args, call_id } of due) {
          called.push({ name, input: JSON.parse(args) })
          input.push({ type: 'function_call_output', call_id, output: ANSWERS[name] ?? '' })
        }
        if (due.length > 0) continue
        expect(response.output_text).toBe('It is noon, at 7 degrees.')
        break
      }
      expect(called).toEqual([...calls, { name: 'clock', input: UTC }])
      expect(thoughts).toEqual(['Both will do.', 'That is all.'])
      expect(await checkStreams()).toBe(isStream ? 3 : 0)
    })

  test('reports that it is overloaded', async () => {
    stage.upstream.script(limited)
    const failure = await failureOf(client.responses.create({ model, input: 'Go', stream: true }))
    expect(failure).toBeInstanceOf(OpenAI.RateLimitError)
    expect(Reflect.get(failure as object, 'headers').get('retry-after')).toBe('34')
  })
})
