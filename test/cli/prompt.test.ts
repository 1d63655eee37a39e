/** What a line is made of that somebody types at a terminal whose keys come as they are. */
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

test('a line ends with Enter, and what comes behind that is not of it', () => {
  expect(type('sk-', 'abc\rmore')).toEqual({ text: 'sk-abc', state: 'done', echoed: 'sk-abc' })
  expect(type('abc')).toMatchObject({ state: 'open' })
})

test('slips are taken back by letters or all at once', () => {
  expect(type('abx\u007fc\n').text).toBe('abc')
  expect(type('\u007fa\b\n')).toMatchObject({ text: '', echoed: 'a\b \b' })
  expect(type('wrong\u0015right\n').text).toBe('right')
  expect(type('a😀\u007f\n').text).toBe('a')
})

test('Ctrl-C ends it whenever it comes, and Ctrl-D while it is empty', () => {
  expect(type('half\u0003').state).toBe('canceled')
  expect(type('\u0004').state).toBe('canceled')
  expect(type('a\u0004\n')).toMatchObject({ state: 'done', text: 'a' })
})

test('arrows, other keys and what a terminal puts around a paste are no letters', () => {
  expect(type('\u001b[200~sk-\u001b[201~\u001b[D\u001bOPabc\t\u0000\r').text).toBe('sk-abc')
})
