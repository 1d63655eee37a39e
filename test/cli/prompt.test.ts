/** Input lines at a terminal in raw mode. */
import { expect, test } from 'bun:test'
import { createLine } from '../../src/cli/prompt.ts'

function type(...pieces: string[]) {
  let echoed = ''
  const line = createLine((text) => {
    echoed += text
  })
  for (const piece of pieces) line.take(piece)
  return { text: line.text(), state: line.state(), echoed }
}

test('a line ends with Enter, and later input is not part of it', () => {
  expect(type('sk-', 'abc\rmore')).toEqual({ text: 'sk-abc', state: 'done', echoed: 'sk-abc' })
  expect(type('abc')).toMatchObject({ state: 'open' })
})

test('Backspace deletes a character, Ctrl-U all of them', () => {
  expect(type('abx\u007fc\n').text).toBe('abc')
  expect(type('\u007fa\b\n')).toMatchObject({ text: '', echoed: 'a\b \b' })
  expect(type('wrong\u0015right\n').text).toBe('right')
  expect(type('a😀\u007f\n').text).toBe('a')
})

test('Ctrl-C cancels at any time, and Ctrl-D on an empty line', () => {
  expect(type('half\u0003').state).toBe('canceled')
  expect(type('\u0004').state).toBe('canceled')
  expect(type('a\u0004\n')).toMatchObject({ state: 'done', text: 'a' })
})

test('arrows, other keys, and paste markers are not input', () => {
  expect(type('\u001b[200~sk-\u001b[201~\u001b[D\u001bOPabc\t\u0000\r').text).toBe('sk-abc')
})
