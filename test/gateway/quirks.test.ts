/**
 * The corpus of sloppy upstreams through dialect and normalizer: whole, byte by byte, in random pieces, and cut off.
 */
import { describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { FOLDER, QUIRKS, readTranscript, STREAMED, WHOLE } from '../fixtures/quirks/index.ts'
import type { Quirk } from '../fixtures/quirks/quirk.ts'
import { type Asked, checkStream, checkWhole, type Report } from '../support/contract.ts'
import { inBytes, inPieces } from '../support/cuts.ts'
import { expectAnswers } from '../support/expected.ts'
import { createPicker } from '../support/random.ts'
import { MODEL, type Played, playStream, playWhole, playWholeAsStream, toShape } from '../support/transcript.ts'

const shapeOf = ({ asked = {} }: Quirk, includeUsage: boolean) => toShape({ ...asked, includeUsage })
const askedOf = ({ asked = {} }: Quirk, includeUsage: boolean): Asked => {
  return { includeUsage, model: MODEL, choices: asked.choices ?? 1 }
}

const play = (quirk: Quirk, pieces: Uint8Array[], includeUsage = true) =>
  playStream(pieces, shapeOf(quirk, includeUsage))
const check = (quirk: Quirk, played: Played, includeUsage = true) =>
  checkStream(played.text, askedOf(quirk, includeUsage))

function expectQuirk(quirk: Quirk, { failure, usage }: Played, { choices }: Pick<Report, 'choices'>): void {
  expectAnswers(choices, quirk)
  if (!quirk.error) expect(failure).toBeNull()
  if (quirk.error) expect(failure?.message).toContain(quirk.error === true ? '' : quirk.error)
  if (quirk.usage === null) expect(usage).toBeNull()
  if (!quirk.usage) return
  const [prompt, completion, cacheRead = 0, reasoning = 0] = quirk.usage
  expect(usage).toMatchObject({ prompt, completion, cacheRead, reasoning })
}

/** Random cuts, the same in each run. */
function toCuts(bytes: Uint8Array, seed: number): number[] {
  const pick = createPicker(seed)
  return Array.from({ length: 1 + pick(40) }, () => pick(bytes.length + 1))
}

describe('a stream of an upstream that', () => {
  const table = STREAMED.map((quirk) => ({ ...quirk, quirk, bytes: readTranscript(quirk.name, 'sse') }))

  test.each(table)('$shows ($name) keeps the contract', ({ quirk, bytes }) => {
    for (const includeUsage of [true, false]) {
      const played = play(quirk, [bytes], includeUsage)
      expectQuirk(quirk, played, check(quirk, played, includeUsage))
    }
  })

  test.each(table)('$shows ($name) gives the same byte by byte and in any chunks', ({ quirk, bytes }) => {
    const cuts = Array.from({ length: 12 }, (_, seed) => inPieces(bytes, toCuts(bytes, seed)))
    for (const pieces of [inBytes(bytes), ...cuts]) {
      const played = play(quirk, pieces)
      expectQuirk(quirk, played, check(quirk, played))
    }
  })

  test.each(table)('$shows ($name) and is interrupted is reported as interrupted', ({ quirk, bytes }) => {
    const pick = createPicker(bytes.length)
    const entire = check(quirk, play(quirk, [bytes])).choices
    const finished = toFirstFinish(bytes)
    for (let round = 0; round < 24; round += 1) {
      const at = pick(bytes.length + 1)
      const played = play(quirk, [bytes.subarray(0, at)])
      const { choices } = check(quirk, played)
      if (at < finished) expect([at, played.failure !== null]).toEqual([at, true])
      if (played.failure === null) continue
      for (const { index, content, reasoning } of choices) {
        expect(entire[index]?.content).toStartWith(content)
        expect(entire[index]?.reasoning).toStartWith(reasoning)
      }
    }
  })
})

/** Where the upstream first ends any part of the answer. */
function toFirstFinish(bytes: Uint8Array): number {
  const found = /"finish_reason": ?"(?!"|null"|error")|\[DONE\]/.exec(Buffer.from(bytes).toString('latin1'))
  return found ? found.index + found[0].length : Number.POSITIVE_INFINITY
}

describe('a whole response of an upstream that', () => {
  const table = WHOLE.map((quirk) => ({ ...quirk, quirk, bytes: readTranscript(quirk.name, 'whole') }))

  test.each(table)('$shows ($name) keeps the contract', ({ quirk, bytes }) => {
    const shape = shapeOf(quirk, true)
    const played = playWhole(bytes, shape)
    if (quirk.error) expect(played.failure?.message).toContain(quirk.error === true ? '' : quirk.error)
    else expectQuirk(quirk, played, checkWhole(played.text, askedOf(quirk, true)))
  })

  test.each(table)('$shows ($name) gives the same as a stream', ({ quirk, bytes }) => {
    const played = playWholeAsStream(bytes, shapeOf(quirk, true))
    const streamed = check(quirk, played)
    if (!quirk.error) expectQuirk(quirk, played, streamed)
  })
})

const twins = STREAMED.filter((quirk) => WHOLE.includes(quirk) && !quirk.error && !quirk.trimmed)
test.each(twins)('whole and streamed, $name costs and returns the same', (quirk) => {
  const streamed = play(quirk, [readTranscript(quirk.name, 'sse')])
  const whole = playWhole(readTranscript(quirk.name, 'whole'), shapeOf(quirk, true))
  const report = checkWhole(whole.text, askedOf(quirk, true))
  expect(report.choices).toEqual(check(quirk, streamed).choices)
})

test('the corpus and its index list the same files, once each', () => {
  const listed = [...STREAMED.map(({ name }) => `${name}.sse`), ...WHOLE.map(({ name }) => `${name}.whole`)]
  const found = readdirSync(FOLDER).filter((file) => /\.(sse|whole)$/.test(file))
  expect(listed.toSorted()).toEqual(found.toSorted())
  expect(new Set(QUIRKS.map(({ name }) => name)).size).toBe(QUIRKS.length)
  expect(QUIRKS.every((quirk) => STREAMED.includes(quirk) || WHOLE.includes(quirk))).toBe(true)
})
