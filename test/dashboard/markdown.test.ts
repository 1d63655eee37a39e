/** Markdown of answers: its nodes, and that nothing in it can run or take long. */
import { describe, expect, test } from 'bun:test'
import { type Block, findSettled, type Inline, readMarkdown } from '../../src/dashboard/playground/markdown.ts'
import { createRandom } from '../support/random.ts'

const listLinks = (nodes: readonly (Block | Inline)[]): string[] =>
  JSON.stringify(nodes)
    .matchAll(/"href":"([^"]*)"/g)
    .map(([, href = '']) => href)
    .toArray()

describe('readMarkdown', () => {
  test('reads code with its language and indentation, and tables by cell', () => {
    expect(readMarkdown('```ts title\nif (a) {\n  b()\n}\n```\n\n| a | b |\n|---|---|\n| 1 | **2** |')).toEqual([
      { kind: 'code', text: 'if (a) {\n  b()\n}', language: 'ts' },
      {
        kind: 'table',
        head: [[{ kind: 'text', text: 'a' }], [{ kind: 'text', text: 'b' }]],
        rows: [[[{ kind: 'text', text: '1' }], [{ kind: 'strong', children: [{ kind: 'text', text: '2' }] }]]],
      },
    ])
  })

  test('leaves HTML as text, and makes links of images', () => {
    const read = readMarkdown('<script>x</script>\n\na <b onclick=x>b</b> ![cat](https://example.com/cat.png)')
    expect(read?.[0]).toEqual({ kind: 'paragraph', children: [{ kind: 'text', text: '<script>x</script>' }] })
    expect(listLinks(read ?? [])).toEqual(['https://example.com/cat.png'])
    expect(JSON.stringify(read)).toContain('<b onclick=x>')
  })

  test('links only http and https URLs', () => {
    const random = createRandom(3)
    const parts = ['[a](', '![b](', ')', '<', '>', 'javascript:', 'JaVaScript&#58;', 'data:text/html,', '//evil', ' ']
    const more = ['https://x.y', '\t', '[r]: ', '\n', '[r]', '&#x6A;', '`', '**', '- ', '> ', 'vbscript:', 'file:///']
    const all = [...parts, ...more]
    for (let round = 0; round < 3_000; round++) {
      const text = Array.from({ length: 12 }, () => all[Math.floor(random() * all.length)]).join('')
      for (const href of listLinks(readMarkdown(text) ?? [])) expect(href).toMatch(/^https?:\/\//)
    }
  })

  test.each([
    ['long text', 'word '.repeat(200_000)],
    ['deep quotes', `${'>'.repeat(5_000)} a`],
    ['deep lists', `${'- '.repeat(5_000)}a`],
    ['lists in lists', Array.from({ length: 300 }, (_, at) => `${'  '.repeat(at)}- a`).join('\n')],
    ['many items', '- a\n'.repeat(10_000)],
    ['unclosed marks', '**a [b '.repeat(9_000)],
    ['brackets', '['.repeat(50_000)],
  ])('%s stays plain', (_, text) => expect(readMarkdown(text)).toBeNull())
})

test('the settled part of a stream ends before its last block, and never within code', () => {
  expect(findSettled('One.\n\nTwo.\n\nThr')).toBe('One.\n\nTwo.\n\n'.length)
  expect(findSettled('One.\n\n```\na\n\nb')).toBe('One.\n\n'.length)
  expect(findSettled('- a\n\n  more\n\n- b')).toBe(0)
})
