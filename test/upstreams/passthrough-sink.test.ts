/** Passthrough streams over a real socket: nothing is lost or duplicated, however they are split and read. */
import { expect, test } from 'bun:test'
import { Meter } from '../../src/accounting/meter.ts'
import { DEFAULT_DEADLINES } from '../../src/domain/deadlines.ts'
import type { PassthroughSink, Take } from '../../src/domain/events.ts'
import { anthropic } from '../../src/upstreams/dialects/anthropic/anthropic.ts'
import { createHttpBackend } from '../../src/upstreams/http-call.ts'
import { createHttp1Transport } from '../../src/upstreams/http1/transport.ts'
import { toEvent, toSteps } from '../support/anthropic-answers.ts'
import { forAllTests } from '../support/lifetime.ts'
import { createPicker } from '../support/random.ts'
import { toTarget } from '../support/snapshot.ts'
import { startUpstream } from '../support/upstream.ts'

const transport = createHttp1Transport()
const upstream = forAllTests(startUpstream)

const WORDS = ['Hello', ' "quoted"', '\n', '\\', ' é', '日本語', '😀', ' ', '\u2028', 'data: ', '"}}\n\n']
const REQUEST = { model: 'm', max_tokens: 100, stream: true, messages: [{ role: 'user', content: 'Hi' }] }

/** A stream with one word at a time. */
function toSource(words: readonly string[]): string {
  const steps = toSteps({ blocks: [{ thought: 'Hm' }, { text: 'First' }] })
  const first = steps.findLastIndex((step) => step.includes('text_delta'))
  const deltas = words.map((text) =>
    toEvent({ type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text } }),
  )
  return steps.toSpliced(first + 1, 0, ...deltas).join('')
}

async function open(pieces: readonly Uint8Array[]) {
  upstream.script({ kind: 'stream', steps: pieces.flatMap((piece) => [piece, { waitMs: 0 }]), end: 'eof' })
  const { upstream: settings, ...target } = toTarget({ baseUrl: upstream.url, dialect: 'anthropic' })
  const { rest } = await createHttpBackend(anthropic, transport).call({
    body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 100, stream: true },
    passthrough: { endpoint: 'messages', text: JSON.stringify(REQUEST), headers: {}, json: REQUEST },
    target: { ...target, upstream: settings },
    signal: new AbortController().signal,
    observer: { sent() {}, left: () => 0 },
    deadlines: DEFAULT_DEADLINES,
    callId: 'x-1',
    hops: 'a',
    take: () => null,
    inTurn: async (work) => work(),
  })
  if (rest === null) throw new Error('the answer is no stream')
  return rest
}

/** Split after an event or a few, as usual, and otherwise anywhere, even within characters. */
function cut(bytes: Buffer, below: (n: number) => number): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf('\n\n', at + below(400))
    const behind = end === -1 ? bytes.length : end + 2
    const to = below(3) === 0 ? at + 1 + below(behind - at) : behind
    pieces.push(bytes.subarray(at, to))
    at = to
  }
  return pieces
}

test('passed bytes and other events are together the whole stream, all of which is metered', async () => {
  const below = createPicker(11)
  let passes = 0
  for (let round = 0; round < 40; round++) {
    const words = Array.from({ length: 4 + below(30) }, () => WORDS[below(WORDS.length)] ?? '')
    const source = toSource(words)
    const stream = await open(cut(Buffer.from(source), below))
    const meter = new Meter()
    let text = ''
    /** Usually there is buffer space, sometimes later, and sometimes enough for now. */
    const answer = () => {
      const lot = below(12)
      if (lot > 2) return true
      return lot === 0 ? Bun.sleep(1).then(() => true) : lot === 1 ? false : Bun.sleep(1).then(() => false)
    }
    const take: Take = (events) => {
      meter.take(events)
      for (const event of events) if (event.kind === 'raw') text += `event: ${event.name}\ndata: ${event.data}\n\n`
      return answer()
    }
    const passage: PassthroughSink = {
      pass(frames, words) {
        passes++
        meter.takeText(words)
        text += frames
        return answer()
      },
    }
    while (meter.outcome === null) await stream.pump(take, below(5) === 0 ? undefined : passage)
    expect(text).toBe(source)
    expect(meter.captured().answer).toEqual([`First${words.join('')}`])
    expect(meter.outcome).toBe('ok')
  }
  expect(passes).toBeGreaterThan(50)
})

test("an error in the passthrough is thrown to the pump's caller, and the stream continues from there", async () => {
  const source = toSource(['one', 'two', 'three', 'four'])
  const stream = await open(source.split(/(?<=\n\n)/).map((event) => Buffer.from(event)))
  let text = ''
  let thrown = 0
  let isDone = false
  const take: Take = (events) => {
    for (const event of events) {
      if (event.kind === 'raw') text += `event: ${event.name}\ndata: ${event.data}\n\n`
      isDone ||= event.kind === 'done'
    }
    return true
  }
  const passage: PassthroughSink = {
    pass(frames) {
      text += frames
      thrown++
      throw new Error('mine')
    },
  }
  while (!isDone) await stream.pump(take, passage).catch(({ message }) => expect(message).toBe('mine'))
  expect(text).toBe(source)
  expect(thrown).toBeGreaterThan(0)
})
