/** Properties over generated responses: for any events in any order, a stream is valid and has the content of the whole response. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/domain/error.ts'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import type { ChatTask } from '../../../src/domain/task.ts'
import { NO_USAGE } from '../../../src/domain/usage.ts'
import { responses } from '../../../src/formats/responses/responses.ts'
import { checkResponse, checkResponseStream } from '../../support/responses-contract.ts'

setDefaultTimeout(60_000)

const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 })
const choice = 0

/** Content between the pieces of calls. */
const said: fc.Arbitrary<AnswerEvent> = fc.oneof(
  text.map((each): AnswerEvent => ({ kind: 'text', choice, text: each })),
  text.map((each): AnswerEvent => ({ kind: 'refusal', choice, text: each })),
  text.map((each): AnswerEvent => ({ kind: 'reasoning', choice, text: each })),
  text.map(
    (data): AnswerEvent => ({
      ...{ kind: 'reasoning', choice, text: '' },
      details: [{ type: 'reasoning.encrypted', data, index: 0, format: 'google-gemini-v1', signer: 'x' }],
    }),
  ),
  fc.constant<AnswerEvent>({
    ...{ kind: 'annotations', choice },
    items: [
      { type: 'url_citation', url_citation: { url: 'https://a', title: 'A', start_index: 0, end_index: 1 }, index: 0 },
    ],
  }),
)

const NAMES = ['look', 'ns__look', 'patch', 'local_shell', 'unheard_of']

const call = fc.record({
  name: fc.constantFrom(...NAMES),
  args: fc.oneof(
    fc.dictionary(text, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 }).map((value) => JSON.stringify(value)),
    text.map((input) => JSON.stringify({ input })),
  ),
})

/** Interleaved pieces of calls, with other content anywhere. */
const answer = fc.gen().map((gen): AnswerEvent[] => {
  const calls = gen(() => fc.array(call, { maxLength: 3 }))
  const left = calls.map(({ args }) => args)
  const events: AnswerEvent[] = gen(() => fc.array(said, { maxLength: 4 }))
  calls.forEach(({ name }, index) => {
    events.push({ kind: 'tool', choice, index, id: `call_${index}`, name, type: 'function' })
  })
  while (left.some((rest) => rest !== '')) {
    const index = gen(() => fc.integer({ min: 0, max: left.length - 1 }))
    const size = gen(() => fc.integer({ min: 1, max: 5 }))
    const rest = left[index] ?? ''
    if (rest !== '') events.push({ kind: 'arguments', choice, index, text: rest.slice(0, size) })
    left[index] = rest.slice(size)
    if (size === 5) events.push(gen(() => said))
  }
  const reason = gen(() => fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter'))
  return [...events, { kind: 'finish', choice, reason }, { kind: 'done' }]
})

const FUNCTION = { type: 'function', name: 'look', parameters: { type: 'object', properties: {} } }

function toTask(asks: boolean, effort = 'low'): ChatTask {
  const task = responses.toTask(
    {
      model: 'a/b',
      input: 'x',
      ...(asks ? { reasoning: { summary: 'auto', effort }, include: ['reasoning.encrypted_content'] } : {}),
      tools: [
        FUNCTION,
        { type: 'namespace', name: 'ns', tools: [FUNCTION] },
        { type: 'custom', name: 'patch' },
        { type: 'local_shell' },
      ],
    },
    { text: '', headers: {} },
  )
  if (task instanceof GatewayError) throw task
  return task
}

const IDENTITY = { id: '0199'.repeat(8), created: 1_763_726_400, model: 'a/b' }
const RECEIPT = { usage: { ...NO_USAGE, prompt: 3, completion: 2 }, costNanoUsd: 7, durationMs: 2_500 }
const BEYOND = { beyond: ['custom_tool_call', 'local_shell_call'] }

test('a stream is valid, and ends with the same content as a whole response', () => {
  fc.assert(
    fc.property(answer, fc.boolean(), fc.integer({ min: 1, max: 4 }), (events, asks, batch) => {
      const task = toTask(asks)
      const writer = responses.writer(task, IDENTITY)
      let body = ''
      for (let at = 0; at < events.length; at += batch) body += writer.take(events.slice(at, at + batch))
      body += writer.tail(RECEIPT)
      const { response } = checkResponseStream(body, BEYOND)
      const whole = JSON.parse(responses.whole(task, IDENTITY, events, RECEIPT))
      checkResponse(whole, BEYOND)
      expect(response).toEqual(whole)
      expect(whole.completed_at).toBe(whole.status === 'completed' ? IDENTITY.created + 2 : null)
    }),
    { numRuns: 500 },
  )
})

test.each([
  ['low', [{ type: 'summary_text', text: 'Hm' }]],
  ['none', []],
])('with the effort %s, the reasoning summary is %j', (effort, summary) => {
  const events: AnswerEvent[] = [
    { kind: 'reasoning', choice, text: 'Hm' },
    { kind: 'finish', choice, reason: 'stop' },
  ]
  const whole = JSON.parse(responses.whole(toTask(true, effort), IDENTITY, events, RECEIPT))
  expect(whole.output).toMatchObject([{ type: 'reasoning', summary }])
})

test('all content that has a place is written, and each call keeps its arguments', () => {
  fc.assert(
    fc.property(answer, (events) => {
      const whole = JSON.parse(responses.whole(toTask(true), IDENTITY, events, RECEIPT))
      const items = whole.output as Record<string, unknown>[]
      const textOf = (kind: string) =>
        events.flatMap((each) => (each.kind === kind && 'text' in each ? each.text : [])).join('')
      const parts = items.flatMap(({ content }) => (content ?? []) as { text?: string; refusal?: string }[])
      expect(parts.map((part) => part.text ?? '').join('')).toBe(textOf('text'))
      expect(parts.map((part) => part.refusal ?? '').join('')).toBe(textOf('refusal'))
      const thoughts = items.flatMap(({ summary }) => (summary ?? []) as { text: string }[])
      expect(thoughts.map((part) => part.text).join('')).toBe(textOf('reasoning'))
      const argued = events.flatMap((each) => (each.kind === 'arguments' ? [each] : []))
      for (const item of items.filter(({ type }) => type === 'function_call')) {
        const index = Number(String(item.call_id).replace('call_', ''))
        const own = argued.filter((each) => each.index === index).map((each) => each.text)
        expect(item.arguments).toBe(own.join(''))
      }
    }),
    { numRuns: 300 },
  )
})

test('a stream that fails anywhere is valid, too', () => {
  fc.assert(
    fc.property(answer, fc.nat({ max: 20 }), (events, until) => {
      const writer = responses.writer(toTask(true), IDENTITY)
      const begun = until === 0 ? '' : writer.take(events.slice(0, Math.min(until, events.length - 2)))
      const body = begun + writer.failure(new GatewayError('upstream_failed', 'It broke.'))
      expect(checkResponseStream(body, BEYOND).response).toMatchObject({ error: { code: 'upstream_failed' } })
    }),
    { numRuns: 200 },
  )
})
