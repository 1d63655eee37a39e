/** Passthrough of Responses API streams, and the facts read from them: the same by the fast and the slow path. */
import { expect, test } from 'bun:test'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { readPieces, readWhole, toPassed, toRead, WORDS } from '../../support/passed.ts'
import { createPicker } from '../../support/random.ts'
import { toTarget } from '../../support/snapshot.ts'

const expected = { target: toTarget(), ...{ choices: 1, logprobs: false, callId: 'x-1', body: {} } }
const lane = openai.passthrough?.responses

const toFrame = (event: { type: string }) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
const TYPE = 'response.output_text.delta'
const at = { item_id: 'msg_1', output_index: 0, content_index: 0 }

/** Text as it is sent, or might be. */
const MAKES: readonly ((delta: string, n: number) => { type: string })[] = [
  (delta, n) => ({ type: TYPE, sequence_number: n, ...at, delta, logprobs: [], obfuscation: 'aB3'.repeat(n % 5) }),
  (delta, n) => ({ type: TYPE, content_index: 0, delta, item_id: 'msg_1', logprobs: [], sequence_number: n }),
  (delta, n) => ({ type: TYPE, delta, sequence_number: n, ...at, logprobs: [{ token: delta, logprob: -1 }] }),
  (delta, n) => ({ type: TYPE, sequence_number: n, ...at, item_id: 'a "delta":"b', delta }),
  (delta, n) => ({ type: TYPE, sequence_number: n, ...at, delta, new: { delta: 'x' } }),
  (delta, n) => ({ type: 'response.refusal.delta', sequence_number: n, ...at, delta }),
]

test('whatever the content, and however it is split', () => {
  if (!lane) throw new Error('it has no lane')
  const below = createPicker(11)
  let quick = 0
  for (let round = 0; round < 400; round++) {
    const isUsual = below(2) === 0
    const deltas = Array.from({ length: 1 + below(12) }, (_, n) => {
      const make = MAKES[isUsual ? 0 : below(MAKES.length)]
      return make?.(Array.from({ length: below(4) }, () => WORDS[below(WORDS.length)]).join(''), n + 2) ?? { type: '' }
    })
    const text = [
      { type: 'response.created', response: { id: 'resp_1', output: [] } },
      { type: 'response.output_item.added', output_index: 0, item: { type: 'message', content: [] } },
      ...deltas,
      { type: 'response.completed', response: { status: 'completed', output: [] } },
    ]
      .map(toFrame)
      .join('')
    const passed = readPieces(lane.decoder(expected), text, below)
    expect(toPassed(passed)).toBe(text)
    expect(toRead(passed)).toEqual(toRead(readWhole(lane.decoder(expected), text)))
    quick += passed.filter(({ kind }) => kind === 'frames').length
  }
  expect(quick).toBeGreaterThan(30)
})

const FAILURE = { code: 'server_error', message: 'It broke.' }
test.each([
  [
    'an event that is named beside its data',
    `event: response.failed\ndata: ${JSON.stringify({ response: { status: 'failed', error: FAILURE } })}\n\n`,
  ],
  ['an event that names itself', toFrame({ type: 'response.failed', ...{ response: { error: FAILURE } } })],
])('%s ends a response in failure', (_, text) => {
  if (!lane) throw new Error('it has no lane')
  const last = readWhole(lane.decoder(expected), text).find(({ kind }) => kind === 'failure')
  expect(last).toMatchObject({ error: { message: expect.stringContaining('It broke.') } })
})

test('a typed error without an envelope is an error in a 200, too', () => {
  const bare = { type: 'rate_limit_error', message: 'Slow down.' }
  expect(() => lane?.whole(bare, expected)).toThrow('Slow down.')
})
