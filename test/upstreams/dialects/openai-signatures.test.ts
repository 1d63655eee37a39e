/** Thought signatures of Gemini models behind Google's OpenAI format, and their way back. */
import { describe, expect, test } from 'bun:test'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import type { CanonicalRequest, Message } from '../../../src/domain/request.ts'
import type { Target } from '../../../src/domain/snapshot.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { toTarget } from '../../support/snapshot.ts'
import { toExpected, toShape } from '../../support/transcript.ts'

const target = toTarget()
const expected = { ...toExpected(toShape()), target }

const call = (id: string, more: object = {}) => ({
  id,
  type: 'function' as const,
  function: { name: 'weather', arguments: '{}' },
  ...more,
})
const signedBy = (place: string, thought_signature: unknown) => ({ extra_content: { [place]: { thought_signature } } })
const SIGNED = [call('a', signedBy('google', 'AAAA')), call('b'), call('c', signedBy('vertex', 'CCCC'))]

const detail = (data: string, id: string, index: number, place: string) => ({
  ...{ type: 'reasoning.encrypted', data, id, format: 'google-gemini-v1', signer: 'paid/large-v1' },
  ...{ extra_content: place, index },
})
const DETAILS = [detail('AAAA', 'a', 0, 'google'), detail('CCCC', 'c', 1, 'vertex')] as const

const detailsOf = (events: readonly AnswerEvent[]) =>
  events.flatMap((event) => (event.kind === 'reasoning' ? [event.text, ...(event.details ?? [])] : []))

const streamed = (...lists: object[][]) => {
  const decoder = openai.decoder(expected)
  const out: AnswerEvent[] = []
  const choices = [...lists.map((tool_calls) => ({ delta: { tool_calls } })), { delta: {}, finish_reason: 'stop' }]
  for (const choice of choices)
    decoder.event({ name: null, data: JSON.stringify({ choices: [{ index: 0, ...choice }] }) }, out)
  decoder.end(out)
  return out
}

describe('a signature on a tool call', () => {
  test("is an item of reasoning_details with the call's ID, streamed or whole", () => {
    const message = { role: 'assistant', content: null, tool_calls: SIGNED }
    const whole = openai.whole({ choices: [{ message, finish_reason: 'stop' }] }, expected, '{}')
    for (const events of [whole, streamed(SIGNED), streamed(...SIGNED.map((each) => [each]))])
      expect(detailsOf(events)).toEqual(['', DETAILS[0], '', DETAILS[1]])
  })

  test('has the generated ID of its call if the upstream sends none, and appears once', () => {
    const events = streamed([call('', signedBy('google', 'AAAA'))], [{ index: 0, ...signedBy('google', 'AAAA') }])
    const [begun] = events.filter((event) => event.kind === 'tool')
    expect(detailsOf(events)).toEqual(['', { ...DETAILS[0], id: begun?.id }])
    expect(begun?.id).toMatch(/^call_/)
  })

  test.each([null, 5, '', '\ud800'])('is ignored if it is %p', (signature) => {
    expect(detailsOf(streamed([call('a', signedBy('google', signature))]))).toEqual([])
  })
})

describe('sent back', () => {
  const sent = (message: object, to: Target = target) => {
    const messages = [{ role: 'user', content: 'Hi' }, message] as Message[]
    const body: CanonicalRequest = { model: 'm', messages }
    return JSON.parse(openai.request(body, to).body).messages[1]
  }
  const answer = { role: 'assistant', content: null, tool_calls: [call('a'), call('b'), call('c')] }

  test('is on its call as received, and not an item of reasoning_details', () => {
    expect(sent({ ...answer, reasoning_details: DETAILS })).toEqual({ ...answer, tool_calls: SIGNED })
    const text = { type: 'reasoning.text', text: 'Hm', index: 5 }
    expect(sent({ ...answer, reasoning_details: [text, ...DETAILS] }).reasoning_details).toEqual([text])
  })

  test('is dropped for another model', () => {
    const details = { ...answer, reasoning_details: DETAILS }
    expect(sent(details, { ...target, upstreamModel: 'another' })).toEqual(answer)
  })

  test('that a client added to the call is sent unchanged', () => {
    const own = { ...answer, tool_calls: [call('a', signedBy('google', 'own'))] }
    expect(sent({ ...own, reasoning_details: DETAILS })).toEqual(own)
  })
})
