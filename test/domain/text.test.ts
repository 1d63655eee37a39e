/** Names that look the same as others. */
import { expect, test } from 'bun:test'
import { isVisible } from '../../src/domain/text.ts'

test.each(['ann', 'Zoë', 'Ольга', '山田', 'علی', 'laptop of Ann', '👩\u200d💻 laptop', '❤\ufe0f', '🏴󠁧󠁢󠁳󠁣󠁴󠁿'])(
  '%s is visible',
  (name) => expect(isVisible(name)).toBe(true),
)

test.each([
  ['a zero-width space', 'an\u200bn'],
  ['a joiner between letters', 'an\u200dn'],
  ['a soft hyphen', 'an\u00adn'],
  ['a mark that turns the line', 'ann\u202etxt.exe'],
  ['an isolate', '\u2066ann\u2069'],
  ['a byte order mark', '\ufeffann'],
  ['a tag', 'ann\u{e0041}'],
  ['a filler', 'ann\u3164'],
  ['an empty braille cell', 'ann\u2800'],
  ['a line of its own', 'ann\u2028'],
  ['a control character', 'ann\u0007'],
  ['half of a character', 'ann\ud83d'],
])('%s is invisible', (_, name) => expect(isVisible(name)).toBe(false))
