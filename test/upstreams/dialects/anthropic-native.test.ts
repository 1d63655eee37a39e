/** Facts read from a Messages API response that is passed through: the same as from a translated one. */
import { expect, test } from 'bun:test'
import { anthropic } from '../../../src/upstreams/dialects/anthropic/anthropic.ts'
import type { PassthroughFormat } from '../../../src/upstreams/dialects/dialect.ts'
import { toSteps } from '../../support/anthropic-answers.ts'
import { readPieces, readWhole, toPassed, toRead, WORDS } from '../../support/passed.ts'
import { createPicker } from '../../support/random.ts'
import { toTarget } from '../../support/snapshot.ts'

const expected = {
  target: toTarget({ dialect: 'anthropic' }),
  ...{ choices: 1, logprobs: false, callId: 'x-1', body: {} },
}

function lane(): PassthroughFormat {
  const found = anthropic.passthrough?.messages
  if (!found) throw new Error('it has no lane')
  return found
}

test('whatever the content, and however it is split', () => {
  const below = createPicker(7)
  let quick = 0
  for (let round = 0; round < 300; round++) {
    const texts = Array.from({ length: 1 + below(3) }, () =>
      Array.from({ length: 1 + below(12) }, () => WORDS[below(WORDS.length)]).join(''),
    )
    const text = toSteps({ blocks: [{ thought: 'Hm' }, ...texts.map((text) => ({ text }))] }).join('')
    const passed = readPieces(lane().decoder(expected), text, below)
    expect(toPassed(passed)).toBe(text)
    expect(toRead(passed)).toEqual(toRead(readWhole(anthropic.decoder(expected), text)))
    quick += passed.filter(({ kind }) => kind === 'frames').length
    const tails = passed.filter((event) => event.kind === 'raw' && event.isTail)
    expect(tails).toMatchObject([{ name: 'message_stop' }])
  }
  expect(quick).toBeGreaterThan(30)
})

test('events without a name are recognized by the type in their data', () => {
  const message = '"message":{"type":"message","id":"msg_up","usage":{"input_tokens":1}}'
  const delta = '"delta":{"type":"text_delta","text":"Hi"}'
  const datas = [
    `{${message},"type":"message_start"}`,
    '{"index":0,"content_block":{"type":"text","text":""},"type":"content_block_start"}',
    `{"index":0,${delta},"type":"content_block_delta"}`,
    '{"type":"message_stop"}',
  ]
  const text = datas.map((data) => `data: ${data}\n\n`).join('')
  const events = readWhole(lane().decoder(expected), text)
  const raws = events.filter((event) => event.kind === 'raw')
  expect(raws.map(({ origin, isTail }) => [origin, isTail])).toEqual([
    ['message', false],
    [null, false],
    [null, false],
    [null, true],
  ])
})

test('the end is held back whatever its event is called', () => {
  const text =
    'event: message_start\ndata: {"type":"message_start","message":{}}\n\nevent: end\ndata: {"type":"message_stop"}\n\n'
  const events = readWhole(lane().decoder(expected), text)
  expect(events.findLast((event) => event.kind === 'raw')).toMatchObject({ name: 'end', isTail: true })
})
