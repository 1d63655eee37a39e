/** Pieces and excerpts: hostile texts are processed quickly, and ordinary ones keep their exact count. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { array, assert, integer, property, string, tuple } from 'fast-check'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { extrapolate, LONGEST_WORD, toExcerpt, toPieces, toPromptExcerpt } from '../../src/tokens/excerpt.ts'

// Counting takes a while on a busy machine.
setDefaultTimeout(60_000)

const ROOT = join(import.meta.dir, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const sum = (texts: string[]) =>
  texts.reduce((tokens, text) => tokens + countTokens(text, { disallowedSpecial: new Set() }), 0)

describe('pieces', () => {
  test.each([
    ['prose', read('README.md')],
    ['code', read('src/domain/request.ts')],
    ['JSON in one line', JSON.stringify(JSON.parse(read('package.json'))).repeat(20)],
    ['a licence', read('LICENSE').repeat(10)],
  ])("don't change the count of %s", (_, text) => {
    expect(sum(toPieces(text))).toBe(countTokens(text))
  })

  test.each([
    ['one letter', 'a'.repeat(20_000)],
    ['blanks', ' '.repeat(20_000)],
    ['line breaks', '\r\n'.repeat(10_000)],
    ['marks', '!?'.repeat(10_000)],
    ['Chinese', '文字'.repeat(10_000)],
    ['emoji', '🦊🐻'.repeat(5_000)],
    ['half characters', '\ud800'.repeat(20_000)],
    ['a long word among others', `It ends in ${'z'.repeat(1_000)}, and goes on.`],
  ])('of %s are short, and join to the text', (_, text) => {
    const pieces = toPieces(text)
    expect(pieces.join('')).toBe(text)
    for (const piece of pieces) expect(piece.length).toBeLessThanOrEqual(LONGEST_WORD)
  })

  test('never end within a character', () => {
    for (const text of ['🦊'.repeat(1_000), `.${'🦊'.repeat(1_000)}`]) {
      for (const piece of toPieces(text)) expect(piece.isWellFormed()).toBe(true)
    }
  })

  test('of any text join to the text, with nearly the same count', () => {
    const runs = array(tuple(string({ unit: 'binary', maxLength: 4 }), integer({ min: 1, max: 300 })), { maxLength: 5 })
    assert(
      property(runs, (each) => {
        const text = each.map(([part, times]) => part.repeat(times)).join('')
        const pieces = toPieces(text)
        expect(pieces.join('')).toBe(text)
        expect(Math.abs(sum(pieces) - sum([text]))).toBeLessThanOrEqual(pieces.length)
      }),
    )
  })
})

describe('an excerpt', () => {
  test.each([
    ['all that fits', ['four', 'five!'], 9, ['four', 'five!'], 9, 9],
    ['the head of what does not', ['four', 'five!', 'six'], 6, ['four', 'fi'], 6, 12],
    ['whole characters only', ['a🦊', 'b'], 3, ['a', 'b'], 2, 6],
    ['nothing of nothing', [], 3, [], 0, 0],
  ] as [string, string[], number, string[], number, number][])('takes %s', (_, texts, limit, taken, bytes, ofBytes) => {
    expect(toExcerpt(texts, limit)).toEqual({ texts: taken, bytes, ofBytes })
  })

  test('decodes only the needed part of text files', () => {
    const files = ['fünf', 'sechs'].map((text) => Buffer.from(text).toString('base64'))
    const prompt = {
      texts: ['vier'],
      files,
      messages: 1,
      inputs: 0,
      names: 0,
      audio: 0,
      images: 0,
      others: 0,
      pictures: 0,
      otherBytes: 0,
    }
    expect(toPromptExcerpt(prompt, 12)).toEqual({ texts: ['vier', 'fünf', 'sec'], bytes: 12, ofBytes: 14 })
  })

  test.each([
    ['the same for all of it', 7, { texts: [], bytes: 20, ofBytes: 20 }, 7],
    ['in proportion for a part', 7, { texts: [], bytes: 20, ofBytes: 50 }, 18],
    ['nothing where there is nothing', 0, { texts: [], bytes: 0, ofBytes: 0 }, 0],
    ['no figure where nothing was counted', 0, { texts: [], bytes: 0, ofBytes: 50 }, null],
  ])('the extrapolated count is %s', (_, tokens, excerpt, whole) => {
    expect(extrapolate(tokens, excerpt)).toBe(whole)
  })
})
