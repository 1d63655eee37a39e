/** A secret in text that arrives in pieces. */
import { expect, test } from 'bun:test'
import { Redactor } from '../../src/processes/child.ts'

function hide(...pieces: string[]): string {
  const hider = new Redactor('sesame-opens')
  return pieces.map((piece) => hider.take(piece)).join('') + hider.end()
}

test('is hidden wherever the text is split', () => {
  const text = 'key sesame-opens, sesame-open, ses, sesame-sesame-opens\n'
  for (let cut = 0; cut <= text.length; cut++)
    for (let other = cut; other <= text.length; other += 3)
      expect(hide(text.slice(0, cut), text.slice(cut, other), text.slice(other))).toBe(
        'key …, sesame-open, ses, sesame-…\n',
      )
  expect(hide(...text)).toBe('key …, sesame-open, ses, sesame-…\n')
})

test('is not partly shown if the rest never arrives, and ordinary ends are shown', () => {
  expect(hide('key sesame-o')).toBe('key …')
  expect([hide('yes'), hide('no\n')]).toEqual(['yes', 'no\n'])
})

test('holds back no more than a possible beginning of it', () => {
  const hider = new Redactor('sesame-opens')
  expect([hider.take('a line\n'), hider.take('a ses'), hider.take('t\n')]).toEqual(['a line\n', 'a ', 'sest\n'])
})
