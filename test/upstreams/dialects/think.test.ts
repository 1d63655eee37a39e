/** Reasoning tags at the beginning of the content, separated from it wherever the text is split. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { ThinkSplitter, type Thought } from '../../../src/upstreams/dialects/openai/delta.ts'

function split(pieces: readonly string[]): Thought {
  const splitter = new ThinkSplitter()
  const parts = [...pieces.map((piece) => splitter.take(piece)), splitter.end()]
  return {
    reasoning: parts.map((part) => part.reasoning).join(''),
    content: parts.map((part) => part.content).join(''),
  }
}

const TABLE: [name: string, text: string, reasoning: string, content: string][] = [
  ['a block', '<think>a</think>b', 'a', 'b'],
  ['line ends around the tags', '\n <think>\n\na\nb\n\n</think>\r\n\n  c\n', 'a\nb', '  c\n'],
  ['no block', 'a</think>b', '', 'a</think>b'],
  ['blank space alone', ' \n', '', ' \n'],
  ['blank space before text', ' \na', '', ' \na'],
  ['a later block', 'a <think>b</think>', '', 'a <think>b</think>'],
  ['a second block', '<think>a</think>b<think>c</think>', 'a', 'b<think>c</think>'],
  ['an empty block', '<think>\n\n</think>\n\na', '', 'a'],
  ['a block that never ends', '<think>a</thin', 'a</thin', ''],
  ['another tag', '<thinking>a', '', '<thinking>a'],
  ['a block as Bedrock has it', '<reasoning>a</think>b</reasoning>c', 'a</think>b', 'c'],
  ["a block as Google's OpenAI API has it", '<thought>a</thought>b', 'a', 'b'],
  ['half a tag', '<thi', '', '<thi'],
  ['things like the closing tag', '<think></</think</thing</think>a', '</</think</thing', 'a'],
]

describe('a text with', () => {
  test.each(TABLE)('%s', (_, text, reasoning, content) => {
    expect(split([text])).toEqual({ reasoning, content })
    expect(split([...text])).toEqual({ reasoning, content })
  })
})

test('a text is the same however it is split, and loses no word', () => {
  const piece = fc.constantFrom('<think>', '</think>', '<', '</', 'think', '>', '\n', ' ', 'a')
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), fc.nat(3), (pieces, width) => {
      const text = pieces.join('')
      const whole = split([text])
      expect(split(pieces)).toEqual(whole)
      expect(split(text.match(new RegExp(`[^]{1,${width + 1}}`, 'g')) ?? [])).toEqual(whole)
      const words = (all: string) => all.replaceAll(/[^a]/g, '')
      expect(words(whole.reasoning + whole.content)).toBe(words(text))
    }),
  )
})
