/** Output speed of local servers: reported, else measured, and only for responses that are long enough. */
import { expect, test } from 'bun:test'
import { Meter } from '../../src/accounting/meter.ts'
import { Speeds } from '../../src/accounting/settle.ts'
import type { AnswerEvent } from '../../src/domain/events.ts'
import { NO_USAGE } from '../../src/domain/usage.ts'
import type { WireFormat } from '../../src/upstreams/dialects/dialect.ts'
import { ollama } from '../../src/upstreams/dialects/ollama/ollama.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { DONE, text } from '../support/answers.ts'
import { toTarget } from '../support/snapshot.ts'
import { toExpected, toShape } from '../support/transcript.ts'

/** Measured speed of a response with `ms` between words, and this end. */
function measure(ms: number, ...ends: AnswerEvent[]): number | null {
  let nowMs = 0
  const meter = new Meter(() => nowMs)
  meter.take([text('one')])
  nowMs = ms
  meter.take([text('two'), ...ends])
  return meter.tokensPerSecond
}

const used = (completion: number, more: object = {}): AnswerEvent => ({
  ...{ kind: 'usage', usage: { ...NO_USAGE, prompt: 5, completion } },
  ...more,
})

test("a server's reported speed counts, otherwise the time from the first token to the last", () => {
  expect(measure(2_000, used(41), DONE)).toBe(20)
  expect(measure(2_000, used(41, { tokensPerSecond: 33.5 }), DONE)).toBe(33.5)
})

test('short, instant, estimated, and interrupted responses are ignored', () => {
  expect(measure(2_000, used(15, { tokensPerSecond: 33.5 }), DONE)).toBeNull()
  expect(measure(20, used(41), DONE)).toBeNull()
  expect(measure(2_000, DONE)).toBeNull()
  expect(measure(2_000, used(41))).toBeNull()
})

const answers: [string, WireFormat, object][] = [
  [
    'llama-server',
    openai,
    { usage: { prompt_tokens: 5, completion_tokens: 20 }, timings: { predicted_per_second: 12.5 } },
  ],
  ['Ollama', ollama, { prompt_eval_count: 5, eval_count: 20, eval_duration: 1_600_000_000 }],
]

test.each(answers)('%s reports it in a whole response', (_, dialect, report) => {
  const message = { role: 'assistant', content: 'Hello.' }
  const answer = { message, done: true, choices: [{ index: 0, message, finish_reason: 'stop' }], ...report }
  const meter = new Meter()
  meter.take(dialect.whole(answer, toExpected(toShape({}))))
  expect(meter.tokensPerSecond).toBe(12.5)
})

test.each([Number.NaN, -1, 0, 1e9, '12', null])('%p is not a speed', (predicted_per_second) => {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }]
  const answer = { choices, usage: { prompt_tokens: 5, completion_tokens: 20 }, timings: { predicted_per_second } }
  const [usage] = openai.whole(answer, toExpected(toShape({}))).filter(({ kind }) => kind === 'usage')
  expect(usage).not.toHaveProperty('tokensPerSecond')
})

test("lists show the speed of the model's last responses, and only of local servers", () => {
  const speeds = new Speeds()
  const at = { ...toTarget({ id: 'box', local: true }) }
  const note = (target: typeof at, tokensPerSecond: number) => {
    const meter = new Meter()
    meter.take([text('one'), used(20, { tokensPerSecond }), DONE])
    speeds.note([{ target, meter }])
  }
  expect(speeds.of(at)).toBeNull()
  note(at, 10)
  expect(speeds.of(at)).toBe(10)
  note(at, 20)
  expect(speeds.of(at)).toBe(12)
  expect(speeds.of({ ...at, upstreamModel: 'other' })).toBeNull()
  const hosted = toTarget({ id: 'hosted' })
  note(hosted, 90)
  expect(speeds.of(hosted)).toBeNull()
})
