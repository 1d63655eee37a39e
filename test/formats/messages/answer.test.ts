/** Responses to clients of Anthropic's API, for any content and order: the same blocks, whole and streamed. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/domain/error.ts'
import type { AnswerEvent, FinishReason } from '../../../src/domain/events.ts'
import { NO_USAGE, type Receipt } from '../../../src/domain/usage.ts'
import { messages as format } from '../../../src/formats/messages/messages.ts'
import { decodeState } from '../../../src/upstreams/dialects/reasoning-state.ts'
import { type Block, checkMessage, checkMessageStream, type Message } from '../../support/messages-contract.ts'

function toTask(changes: object) {
  const body = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }], ...changes }
  const task = format.toTask(body, { text: '', headers: {} })
  if (task instanceof Error) throw task
  return task
}

const task = toTask({ thinking: { type: 'adaptive' } })
const identity = { id: '0'.repeat(32), created: 1, model: 'acme/large' }
const usage = { ...NO_USAGE, prompt: 100, cacheRead: 60, cacheWrite: 20, cacheWrite1h: 10, completion: 7, reasoning: 3 }
const receipt: Receipt = { usage, costNanoUsd: 12_345, durationMs: 1 }

const stream = (events: readonly AnswerEvent[], batch = 1, of = task) => {
  const writer = format.writer(of, identity)
  let text = ''
  for (let at = 0; at < events.length; at += batch) text += writer.take(events.slice(at, at + batch))
  return text + writer.tail(receipt)
}

/** The message. Fails unless it is the same whole and streamed. */
function play(events: readonly AnswerEvent[], of = task): Message {
  const { message } = checkMessageStream(stream(events, 1, of))
  expect(checkMessageStream(stream(events, 3, of)).message).toEqual(message)
  expect(checkMessage(format.whole(of, identity, events, receipt))).toEqual(message)
  return message
}

const choice = 0
const text = (text: string): AnswerEvent => ({ kind: 'text', choice, text })
const think = (text: string, ...details: object[]): AnswerEvent => ({ kind: 'reasoning', choice, text, details })
const begin = (index: number, name = `f${index}`): AnswerEvent => ({
  ...{ kind: 'tool', choice, index, id: `call_${index}`, name, type: 'function' },
})
const argue = (index: number, text: string): AnswerEvent => ({ kind: 'arguments', choice, index, text })
const finish = (reason: FinishReason): AnswerEvent => ({ kind: 'finish', choice, reason })

const words = ({ type, text, thinking, input }: Block) => [type, text ?? thinking ?? input]

describe('a response', () => {
  test.each<[string, AnswerEvent[], unknown[][], string]>([
    ['with text', [text('He'), text('llo'), finish('stop')], [['text', 'Hello']], 'end_turn'],
    ['that was truncated', [text('He'), finish('length')], [['text', 'He']], 'max_tokens'],
    ['with a refusal', [{ kind: 'refusal', choice, text: 'No.' }, finish('stop')], [['text', 'No.']], 'refusal'],
    ['that was filtered', [finish('content_filter')], [], 'refusal'],
    [
      'with reasoning, text, and a call',
      [think('Hm'), think('m'), text('So:'), begin(0), argue(0, '{"a"'), argue(0, ':1}'), finish('tool_calls')],
      [
        ['thinking', 'Hmm'],
        ['text', 'So:'],
        ['tool_use', { a: 1 }],
      ],
      'tool_use',
    ],
    [
      "with a call and the upstream's finish reason stop",
      [begin(0), argue(0, '{}'), finish('stop')],
      [['tool_use', {}]],
      'tool_use',
    ],
    [
      'of calls one after the other',
      [begin(0), argue(0, '{"a":"}"}'), begin(1), argue(1, '{}'), begin(2), finish('tool_calls')],
      [
        ['tool_use', { a: '}' }],
        ['tool_use', {}],
        ['tool_use', {}],
      ],
      'tool_use',
    ],
    [
      'of calls that come interleaved',
      [
        ...[begin(0), begin(1), argue(0, '{"a":'), argue(1, '{"b":'), argue(0, '"\\"{"'), argue(1, '2'), begin(2)],
        ...[argue(2, '{"c":3}'), argue(0, '}'), argue(1, '}'), finish('tool_calls')],
      ],
      [
        ['tool_use', { a: '"{' }],
        ['tool_use', { b: 2 }],
        ['tool_use', { c: 3 }],
      ],
      'tool_use',
    ],
    [
      'that speaks between the pieces of a call',
      [begin(0), argue(0, '{"a":'), text('Wait.'), think('Hm'), argue(0, '1}'), text(' Done.'), finish('tool_calls')],
      [
        ['tool_use', { a: 1 }],
        ['text', 'Wait.'],
        ['thinking', 'Hm'],
        ['text', ' Done.'],
      ],
      'tool_use',
    ],
  ])('%s', (_, events, content, reason) => {
    const message = play(events)
    expect(message.content.map(words)).toEqual(content)
    expect(message).toMatchObject({ model: 'acme/large', stop_reason: reason })
  })

  test('has usage and cost, and counts nothing twice', () => {
    expect(play([text('x'), { kind: 'origin', origin: { service_tier: 'priority' } }]).usage).toEqual({
      input_tokens: 10,
      cache_read_input_tokens: 60,
      cache_creation_input_tokens: 30,
      cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 10 },
      output_tokens: 7,
      output_tokens_details: { thinking_tokens: 3 },
      server_tool_use: null,
      service_tier: 'priority',
      inference_geo: null,
      speed: null,
      iterations: null,
      fallback_credit: null,
      cost_nano_usd: 12_345,
      cost: 0.000012345,
    })
  })

  test("with arguments that aren't an object shows the text of a whole response", () => {
    const message = JSON.parse(format.whole(task, identity, [begin(0), argue(0, '{"a":'), finish('length')], receipt))
    expect(message.content[0]).toMatchObject({ input: { rawInvalidInput: '{"a":' } })
  })
})

describe('a signature', () => {
  const named = { type: 'reasoning.text', format: 'anthropic-claude-v1', signer: 'up', index: 0 }

  test("of thinking is encoded with the thinking, whose text isn't repeated", () => {
    const events = [
      think('Six', { ...named, text: 'Six' }),
      think('teen', { type: 'reasoning.text', text: 'teen', index: 0 }),
      think('', { type: 'reasoning.text', signature: 'c2ln', index: 0 }),
      text('16'),
    ]
    const [thought] = play(events).content
    expect(Buffer.from(String(thought?.signature).slice(4), 'base64url').toString()).not.toContain('teen')
    expect(decodeState(String(thought?.signature), thought?.thinking)).toEqual([
      { ...named, text: 'Sixteen', signature: 'c2ln' },
    ])
  })

  test('without text, before thinking or after a call, is its own block in that place', () => {
    const redacted = { type: 'reasoning.encrypted', data: 'UkVE', format: 'anthropic-claude-v1', index: 0 }
    const ofCall = { type: 'reasoning.encrypted', data: 'c2ln', id: 'call_0', format: 'google-gemini-v1', index: 1 }
    const { content } = play([
      think('', redacted),
      text('Let me see.'),
      ...[begin(0), argue(0, '{}'), think('', ofCall), begin(1), argue(1, '{}'), finish('tool_calls')],
    ])
    expect(content.map(({ type }) => type)).toEqual([
      ...['redacted_thinking', 'text', 'tool_use', 'redacted_thinking', 'tool_use'],
    ])
    expect(content.flatMap(({ data }) => (data ? decodeState(data) : []))).toEqual([redacted, ofCall])
  })
})

describe('unrequested thinking', () => {
  const unasked = toTask({})
  const signed = { type: 'reasoning.encrypted', data: 'c2ln', id: 'call_0', format: 'google-gemini-v1', index: 1 }
  /** The response as the model gets it in the next request. */
  const replay = (content: object[]) =>
    toTask({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_0', content: 'noon' }] },
      ],
    }).body.messages[1]

  test("isn't in the response, which begins with its text", () => {
    const said = [think('Hm'), think('', signed), text('He'), think('m'), text('llo'), finish('stop')]
    expect(play(said, unasked).content.map(words)).toEqual([['text', 'Hello']])
    expect(play([think('Hm'), finish('length')], unasked).content).toEqual([])
  })

  test('is encoded after the calls, and returns to its model with its text', () => {
    const call = [begin(0), argue(0, '{}')]
    const { content } = play([think('Hm'), text('So:'), ...call, think('m', signed), finish('tool_calls')], unasked)
    expect(content.map(({ type }) => type)).toEqual(['text', 'tool_use', 'redacted_thinking'])
    const sent = { reasoning: 'Hmm', reasoning_content: 'Hmm', reasoning_details: [signed] }
    expect(replay(content)).toMatchObject({ ...sent, content: 'So:' })
    const plain = play([...call, finish('tool_calls')], unasked).content
    expect(plain.map(({ type }) => type)).toEqual(['tool_use'])
  })

  test('is dropped if it is too long', () => {
    const long = Array.from({ length: 300 }, () => think('x'.repeat(1_024)))
    const { content } = play([...long, begin(0), think('', signed), finish('tool_calls')], unasked)
    expect(replay(content)).not.toHaveProperty('reasoning')
    expect(replay(content)).toMatchObject({ reasoning_details: [signed] })
  })
})

test('any order of events gives a valid stream without lost content', () => {
  const event = fc.oneof(
    fc.string({ minLength: 1 }).map(text),
    fc.string({ minLength: 1 }).map((words) => think(words, { type: 'reasoning.text', text: words, index: 0 })),
    fc.constant(think('', { type: 'reasoning.encrypted', data: 'eA', index: 9 })),
    fc.nat(3).map((index) => argue(index, '')),
  )
  const inputs = fc.array(fc.dictionary(fc.string(), fc.string(), { maxKeys: 3 }), { maxLength: 4 })
  fc.assert(
    fc.property(fc.array(event), inputs, fc.infiniteStream(fc.nat()), (said, given, chance) => {
      const random = (below: number) => (chance.next().value ?? 0) % Math.max(1, below)
      const rest = given.map((input, index) => {
        const json = JSON.stringify(input)
        const cut = random(json.length)
        return [begin(index), argue(index, json.slice(0, cut)), argue(index, json.slice(cut))]
      })
      const events: AnswerEvent[] = []
      let begun = 0
      // Calls begin in order. Otherwise any order is possible.
      for (const waiting = [...said]; waiting.length > 0 || rest.some((each) => each.length > 0); ) {
        const from = rest.slice(0, begun + 1)[random(begun + 1)]
        if (waiting.length > 0 && random(2) === 0) events.push(waiting.shift() as AnswerEvent)
        else if (from && from.length > 0) {
          const next = from.shift() as AnswerEvent
          if (next.kind === 'tool') begun += 1
          events.push(next)
        } else if (waiting.length === 0) for (const each of rest) events.push(...each.splice(0))
      }
      const { content } = play([...events, finish(given.length > 0 ? 'tool_calls' : 'stop')])
      const joined = (kind: string) =>
        events.flatMap((each) => (each.kind === kind && 'text' in each ? each.text : [])).join('')
      expect(content.map((block) => block.text ?? '').join('')).toBe(joined('text'))
      expect(content.map((block) => block.thinking ?? '').join('')).toBe(joined('reasoning'))
      expect(content.flatMap(({ type, id, input }) => (type === 'tool_use' ? [[id, input]] : []))).toEqual(
        given.map((input, index) => [`call_${index}`, input]),
      )
    }),
  )
})

test('a failure is an error event with the request ID', () => {
  const error = new GatewayError('overloaded', 'Too much.')
  error.requestId = `req_${'1'.repeat(32)}`
  const writer = format.writer(task, identity)
  expect(writer.keepAlive).toStartWith(':')
  const begun = writer.take([text('x')])
  expect(writer.keepAlive).toBe('event: ping\ndata: {"type":"ping"}\n\n')
  expect(checkMessageStream(begun + writer.failure(error)).error).toEqual({
    type: 'overloaded_error',
    message: 'Too much.',
  })
})

test.each([
  [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    'prompt is too long: 9000 tokens > 8192 maximum',
  ],
  [
    'The input token count (1,048,577) exceeds the maximum number of tokens allowed (1048576).',
    'prompt is too long: 1048577 tokens > 1048576 maximum',
  ],
  ['prompt is too long: 7 tokens > 6 maximum', 'prompt is too long: 7 tokens > 6 maximum'],
  [
    'The request exceeds the available context size.',
    'prompt is too long: The request exceeds the available context size.',
  ],
])('the error of a too long prompt has the words that agents look for: %s', (message, words) => {
  const error = new GatewayError('invalid_request', message, { code: 'context_length_exceeded' })
  expect(format.error(error)).toMatchObject({ error: { type: 'invalid_request_error', message: words } })
})
