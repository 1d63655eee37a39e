/** Chat clients of Anthropic's models, on a strict upstream. */
import { describe, expect, test } from 'bun:test'
import { toEvent } from '../support/anthropic-answers.ts'
import { inTurn } from '../support/anthropic-upstream.ts'
import { forAllTests } from '../support/lifetime.ts'
import { HELLO, startAnthropic } from './anthropic.ts'

const gateway = forAllTests(startAnthropic)

const USAGE = { stream_options: { include_usage: true } }
const ways = [
  ['whole', {}],
  ['streamed', { stream: true, ...USAGE }],
] as const

const weather = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'Says the weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}
const clock = { type: 'function', function: { name: 'clock' } }

describe.each(ways)('a %s response', (_, how) => {
  test('is its text, with its usage', async () => {
    gateway.play({ blocks: [{ text: 'Hello, 🎉 you.' }], usage: { input_tokens: 12, output_tokens: 7 } })
    const { choices, usage } = await gateway.ask({ ...how, max_tokens: 100, temperature: 1.5, top_p: 0.5, user: 'u1' })
    expect(choices).toMatchObject([{ content: 'Hello, 🎉 you.', finish: 'stop', toolCalls: [] }])
    expect(usage).toEqual({ prompt: 12, completion: 7, cached: 0, reasoning: 0 })
    expect(gateway.sent()).toEqual({
      model: 'claude-adaptive',
      max_tokens: 100,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello there!' }] }],
      temperature: 1,
      metadata: { user_id: 'u1' },
      ...('stream' in how ? { stream: true } : {}),
    })
  })

  test('leads through several tools over several turns, with reasoning that returns unchanged', async () => {
    gateway.play(
      inTurn(
        {
          blocks: [
            { thought: 'Both, then. 🤔' },
            { redacted: 'c2VjcmV0' },
            { text: 'Let me see.' },
            { call: 'weather', input: { city: 'Oslo' } },
            { call: 'clock', input: {} },
          ],
        },
        { blocks: [{ thought: 'Once more.' }, { call: 'weather', input: { city: 'Rome' } }] },
        { blocks: [{ text: 'It is noon.' }] },
      ),
    )
    const messages: Record<string, unknown>[] = [{ role: 'user', content: 'Weather and time?' }]
    const asked = { ...how, model: 'anthropic/budget', messages, tools: [weather, clock], reasoning_effort: 'low' }
    const finishes: unknown[] = []
    for (const turn of [1, 2, 3]) {
      const response = await gateway.post(asked)
      const text = await response.text()
      expect({ turn, status: response.status, text }).toMatchObject({ status: 200 })
      const message = toMessage(text)
      const { choices } = await gateway.ask(asked)
      finishes.push(choices[0]?.finish)
      messages.push(message)
      for (const call of choices[0]?.toolCalls ?? [])
        messages.push({ role: 'tool', tool_call_id: call.id, content: 'sunny' })
    }
    expect(finishes).toEqual(['tool_calls', 'tool_calls', 'stop'])
    const sent = gateway.sent().messages as { role: string; content: Record<string, unknown>[] }[]
    expect(sent.map(({ role, content }) => `${role}: ${content.map(({ type }) => type).join(' ')}`)).toEqual([
      'user: text',
      'assistant: thinking redacted_thinking text tool_use tool_use',
      'user: tool_result tool_result',
      'assistant: thinking tool_use',
      'user: tool_result',
    ])
    expect(sent[1]?.content[0]).toMatchObject({ thinking: 'Both, then. 🤔', signature: expect.any(String) })
    expect(gateway.sent()).toMatchObject({ thinking: { type: 'enabled', budget_tokens: 6_400 }, max_tokens: 64_000 })
  })

  test('keeps reasoning apart from text, and counts it as output', async () => {
    const output_tokens_details = { thinking_tokens: 20 }
    gateway.play({
      blocks: [{ thought: 'Hm.' }, { text: 'Yes.' }],
      usage: { output_tokens: 30, output_tokens_details },
    })
    const { choices, usage } = await gateway.ask({ ...how, reasoning_effort: 'xhigh' })
    expect(choices).toMatchObject([{ content: 'Yes.', reasoning: 'Hm.' }])
    expect(usage).toMatchObject({ completion: 30, reasoning: 20 })
    expect(gateway.sent()).toMatchObject({
      thinking: { type: 'adaptive', display: 'summarized' },
      output_config: { effort: 'max' },
    })
  })

  test('has several choices, each from its own call', async () => {
    gateway.play({ blocks: [{ text: 'One.' }] })
    const { choices, usage } = await gateway.ask({ ...how, n: 3 })
    expect(choices.map(({ content }) => content)).toEqual(['One.', 'One.', 'One.'])
    expect(usage).toMatchObject({ prompt: 30, completion: 15 })
  })

  test('meets a schema, which is sent if it is supported completely', async () => {
    gateway.play({ blocks: [{ text: '{"city":"Oslo"}' }] })
    const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const response_format = { type: 'json_schema', json_schema: { name: 'city', schema } }
    const { choices } = await gateway.ask({ ...how, response_format })
    expect(choices[0]?.content).toBe('{"city":"Oslo"}')
    expect(gateway.sent()).toMatchObject({
      output_config: { format: { type: 'json_schema', schema: { ...schema, additionalProperties: false } } },
    })
  })

  test('is validated against unsupported parts of a schema, and requested again', async () => {
    const answers = ['{"age":-1}', '{"age":7}']
    let calls = 0
    gateway.play(() => ({ blocks: [{ text: answers[calls++] ?? '' }] }))
    const schema = {
      type: 'object',
      properties: { age: { type: 'integer', minimum: 0 } },
      required: ['age'],
      additionalProperties: false,
    }
    const response_format = { type: 'json_schema', json_schema: { name: 'age', schema } }
    const { choices, usage } = await gateway.ask({ ...how, response_format })
    expect(choices[0]?.content).toBe('{"age":7}')
    expect(usage).toMatchObject({ prompt: 20 })
    expect(gateway.sent()).toMatchObject({
      output_config: {
        format: { schema: { properties: { age: { type: 'integer', description: '{minimum: 0}' } } } },
      },
    })
  })

  test('that is a refusal is reported as one, even without text', async () => {
    const stop_details = { type: 'refusal', category: 'cyber', explanation: 'Not this.' }
    gateway.play(({ json }) => ({
      ...(json?.stream ? { kind: 'stream', steps: toRefusal(stop_details), end: 'eof' } : whole(stop_details)),
    }))
    const { choices } = await gateway.ask(how)
    expect(choices).toMatchObject([{ content: '', refusal: 'Not this.', finish: 'content_filter' }])
  })

  test('ends at its cap, and is reported as truncated', async () => {
    gateway.play({ blocks: [{ text: 'Once upon' }], stop: 'max_tokens' })
    expect((await gateway.ask({ ...how, max_tokens: 2 })).choices[0]?.finish).toBe('length')
  })
})

const toRefusal = (stop_details: object) => [
  toEvent({ type: 'message_start', message: { id: 'm', usage: { input_tokens: 18, output_tokens: 1 } } }),
  toEvent({ type: 'ping' }),
  toEvent({ type: 'message_delta', delta: { stop_reason: 'refusal', stop_details }, usage: { output_tokens: 5 } }),
  toEvent({ type: 'message_stop' }),
]
const whole = (stop_details: object) => ({
  kind: 'whole' as const,
  body: { id: 'm', content: [], stop_reason: 'refusal', stop_details, usage: { input_tokens: 18, output_tokens: 5 } },
})

/** Joins a stream's deltas by index. */
function toMessage(text: string): Record<string, unknown> {
  if (!text.startsWith('data:') && !text.startsWith(':')) return JSON.parse(text).choices[0].message
  const message = { role: 'assistant', content: '', reasoning_details: [] as object[], tool_calls: [] as ToolCall[] }
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: {')) continue
    const delta = JSON.parse(line.slice(6)).choices[0]?.delta ?? {}
    message.content += delta.content ?? ''
    message.reasoning_details.push(...(delta.reasoning_details ?? []))
    for (const call of delta.tool_calls ?? []) {
      const known = message.tool_calls[call.index]
      if (known) known.function.arguments += call.function.arguments
      else message.tool_calls.push({ id: call.id, type: call.type, function: { ...call.function } })
    }
  }
  return message
}

interface ToolCall {
  id: string
  type: string
  function: { name: string; arguments: string }
}

test('the strict upstream was called as the catalog says', () => {
  const { headers, path } = gateway.upstream.requests.at(-1) ?? { headers: {}, path: '' }
  expect(path).toBe('/v1/messages')
  expect(headers).toMatchObject({ 'anthropic-version': '2023-06-01', 'x-api-key': expect.any(String) })
  expect(headers).not.toHaveProperty('authorization')
  expect(HELLO.model).toBe('anthropic/adaptive')
})
