/** Tools of the official client: called by the built-in model, and by an upstream with many mistakes. */
import { beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { forAllTests } from '../support/lifetime.ts'
import { DEMO, failureOf, PLAIN, startStage, usageOf } from './conformance.ts'
import { SPEAKERS } from './conformance-speakers.ts'
import { SLOPPY, SLOPPY_USAGE, sayBadly } from './conformance-upstream.ts'

let client: OpenAI
/** The same client on the upstream itself. */
let direct: OpenAI

const stage = forAllTests(startStage)
beforeAll(() => {
  client = new OpenAI({ baseURL: stage.baseUrl, apiKey: stage.key, maxRetries: 0 })
  direct = new OpenAI({ baseURL: stage.upstream.url, apiKey: 'x', maxRetries: 0 })
})

const ask = (content: string) => [{ role: 'user' as const, content }]
const include = { stream_options: { include_usage: true } }

const Weather = z.object({ city: z.string(), unit: z.enum(['celsius', 'kelvin']) })
const Time = z.object({ zone: z.string() })

/** Tools that record their arguments. */
function toTools(called: unknown[]) {
  const keep = (name: string, answer: string) => (input: object) => {
    called.push({ name, ...input })
    return answer
  }
  return [
    zodFunction({ name: 'weather', parameters: Weather, function: keep('weather', '7 degrees') }),
    zodFunction({ name: 'clock', parameters: Time, function: keep('clock', 'noon') }),
  ]
}

describe('the built-in model', () => {
  test('calls the named tool, with arguments that match its schema', async () => {
    const answer = await client.chat.completions.parse({
      model: DEMO,
      messages: ask('What does weather say?'),
      tools: toTools([]),
    })
    const [choice] = answer.choices
    expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } })
    const [call] = choice?.message.tool_calls ?? []
    expect(call).toMatchObject({ id: expect.stringMatching(/^call_/), type: 'function', function: { name: 'weather' } })
    expect(Weather.safeParse(call?.type === 'function' ? call.function.parsed_arguments : null).success).toBeTrue()
    expect(answer.usage).toEqual(usageOf(await stage.billed()))
  })

  test('calls a forced tool, and none if tools are forbidden', async () => {
    const request = { model: DEMO, messages: ask('Hello'), tools: toTools([]) }
    const namesFor = async (tool_choice: OpenAI.Chat.ChatCompletionToolChoiceOption) => {
      const [choice] = (await client.chat.completions.create({ ...request, tool_choice })).choices
      return (
        choice?.message.tool_calls?.map((call) => (call.type === 'function' ? call.function.name : call.type)) ?? []
      )
    }
    expect(await namesFor('none')).toEqual([])
    expect(await namesFor('auto')).toEqual([])
    expect(await namesFor('required')).toEqual(['weather'])
    expect(await namesFor({ type: 'function', function: { name: 'clock' } })).toEqual(['clock'])
    const tools = [{ type: 'function', function: { name: 'clock' } }]
    expect(await namesFor({ type: 'allowed_tools', allowed_tools: { mode: 'required', tools } })).toEqual(['clock'])
  })

  for (const stream of [false, true]) {
    test(`runs the tool runner to its end, two calls at once${stream ? ', streaming' : ''}`, async () => {
      const called: { name: string }[] = []
      const request = { model: DEMO, messages: ask('Tell me weather and clock.'), tools: toTools(called) }
      const runner = stream
        ? client.chat.completions.runTools({ ...request, ...include, stream })
        : client.chat.completions.runTools(request)
      expect(await runner.finalContent()).toEndWith('The tools answered: 7 degrees; noon')
      expect(called.map(({ name }) => name)).toEqual(['weather', 'clock'])
      expect(runner.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool', 'assistant'])
      const { prompt, completion } = await stage.billed(2)
      expect(await runner.totalUsage()).toMatchObject({ prompt_tokens: prompt, completion_tokens: completion })
    })
  }

  test('calls custom tools with text, whole and streamed', async () => {
    const request: OpenAI.Chat.ChatCompletionCreateParamsNonStreaming = {
      model: DEMO,
      messages: ask('Use note.'),
      tools: [
        {
          type: 'custom',
          custom: { name: 'note' },
        },
      ],
    }
    const whole = (await client.chat.completions.create(request)).choices[0]
    const streamed = (await client.chat.completions.stream({ ...request, stream: true }).finalChatCompletion())
      .choices[0]
    for (const choice of [whole, streamed]) {
      expect(choice?.finish_reason).toBe('tool_calls')
      expect(choice?.message.tool_calls).toEqual([
        {
          id: expect.stringMatching(/^call_/),
          type: 'custom',
          custom: { name: 'note', input: 'demo' },
        },
      ])
    }
  })

  test('calls legacy functions, whole and streamed, and accepts their results', async () => {
    const functions = [{ name: 'weather', parameters: { type: 'object', properties: { city: { const: 'Oslo' } } } }]
    const request = { model: DEMO, messages: ask('Ask weather.'), functions }
    const whole = (await client.chat.completions.create(request)).choices[0]
    const streamed = (await client.chat.completions.stream(request).finalChatCompletion()).choices[0]
    for (const choice of [whole, streamed]) {
      expect(choice).toMatchObject({
        finish_reason: 'function_call',
        message: { content: null, function_call: { name: 'weather', arguments: '{"city":"Oslo"}' } },
      })
    }
    const message: OpenAI.Chat.ChatCompletionMessageParam[] = whole ? [whole.message] : []
    const answered = [...request.messages, ...message, { role: 'function' as const, name: 'weather', content: 'snow' }]
    const next = await client.chat.completions.create({ ...request, messages: answered })
    expect(next.choices[0]?.message.content).toEndWith('The tools answered: snow')
  })
})

const OSLO = { city: 'Oslo', unit: 'celsius' }
const UTC = { zone: 'UTC' }
const both = {
  reasoning: 'Both will do.',
  calls: [
    { name: 'weather', input: OSLO },
    { name: 'clock', input: UTC },
  ],
}

describe('a sloppy upstream', () => {
  test('breaks the client that calls it directly', async () => {
    stage.upstream.script(sayBadly(both))
    const request = { model: SLOPPY, messages: ask('Go'), tools: toTools([]) }
    expect(await failureOf(direct.chat.completions.stream(request).finalChatCompletion())).toBeInstanceOf(Error)
    expect(await failureOf(direct.chat.completions.parse(request))).toBeInstanceOf(Error)
  })
})

describe.each(SPEAKERS)('$name', ({ model, say, usage, limited }) => {
  for (const stream of [false, true]) {
    test(`has its calls, reasoning, and usage corrected${stream ? ' in a stream' : ''}`, async () => {
      stage.upstream.script(say(both))
      const request = { model, messages: ask('Go'), tools: toTools([]) }
      const thoughts: unknown[] = []
      const answer = stream
        ? await client.chat.completions
            .stream({ ...request, ...include })
            // The helper keeps only the last value of fields it doesn't know.
            .on('chunk', ({ choices }) => thoughts.push(Reflect.get(choices[0]?.delta ?? {}, 'reasoning_content')))
            .finalChatCompletion()
        : await client.chat.completions.parse(request)
      expect(answer).toMatchObject({ model, choices: [{ index: 0, finish_reason: 'tool_calls' }] })
      const { message } = answer.choices[0] ?? {}
      if (!stream) thoughts.push(Reflect.get(message ?? {}, 'reasoning_content'))
      expect(thoughts.join('')).toBe('Both will do.')
      expect(message?.tool_calls?.map((call) => call.type === 'function' && call.function.parsed_arguments)).toEqual([
        OSLO,
        UTC,
      ])
      expect(new Set(message?.tool_calls?.map(({ id }) => id)).size).toBe(2)
      expect(answer.usage).toEqual(usageOf(await stage.billed()))
      expect(answer.usage).toMatchObject(usage)
    })

    test(`completes several rounds with the tool runner${stream ? ', streaming' : ''}`, async () => {
      const called: unknown[] = []
      stage.upstream.script(
        say(
          { text: 'First the weather.', calls: [{ name: 'weather', input: OSLO }] },
          { calls: [{ name: 'clock', input: UTC }] },
          { reasoning: 'That is all.', text: 'It is noon, at 7 degrees.' },
        ),
      )
      const request = { model, messages: ask('Go'), tools: toTools(called) }
      const runner = stream
        ? client.chat.completions.runTools({ ...request, ...include, stream })
        : client.chat.completions.runTools(request)
      expect(await runner.finalContent()).toBe('It is noon, at 7 degrees.')
      expect(called).toEqual([
        { name: 'weather', ...OSLO },
        { name: 'clock', ...UTC },
      ])
      expect(runner.allChatCompletions().map(({ choices }) => choices[0]?.finish_reason)).toEqual([
        'tool_calls',
        'tool_calls',
        'stop',
      ])
      const { prompt, completion } = await stage.billed(3)
      expect(await runner.totalUsage()).toMatchObject({ prompt_tokens: prompt, completion_tokens: completion })
      expect(completion).toBe(3 * SLOPPY_USAGE.completion_tokens)
    })
  }

  test('writes JSON that matches its schema, whole and streamed', async () => {
    stage.upstream.script(say({ text: JSON.stringify(OSLO) }))
    const request = { model, messages: ask('Where?'), response_format: zodResponseFormat(Weather, 'weather') }
    expect((await client.chat.completions.parse(request)).choices[0]?.message.parsed).toEqual(Weather.parse(OSLO))
    const streamed = await client.chat.completions.stream(request).finalChatCompletion()
    expect(streamed.choices[0]?.message.parsed).toEqual(Weather.parse(OSLO))
  })

  test('at its rate limit says when to retry', async () => {
    stage.upstream.script(limited)
    const error = await failureOf(client.chat.completions.create({ model, messages: ask('Go') }))
    expect(error).toBeInstanceOf(OpenAI.RateLimitError)
    expect(error).toMatchObject({ status: 429, code: 'upstream_rate_limited' })
    expect(error instanceof OpenAI.APIError && error.headers?.get('retry-after')).toBe('34')
  })
})

test('a model without tools is refused before any upstream is called', async () => {
  const asked = stage.upstream.requests.length
  const request = { model: PLAIN, messages: ask('Go'), tools: toTools([]) }
  expect(await failureOf(client.chat.completions.create(request))).toMatchObject({
    status: 400,
    code: 'unsupported_parameter',
    param: 'tools',
  })
  expect(stage.upstream.requests).toHaveLength(asked)
})
