/**
 * Writes a text that a simple regular expression matches, for the demo's schemas and grammars: literals, escapes,
 * classes, groups, alternatives, quantifiers, anchors at the ends. The expression itself, which may be hostile, is never
 * run; only single classes of it are, on single characters.
 */

const MAX_CHARS = 10_000
const MAX_PATTERN = 1_000
const NOT_SIMPLE = new Error('not a simple pattern')

const ATOM =
  /\[\^?(?:\\.|[^\]\\])*\]|\\(?:x[\da-f]{2}|u[\da-f]{4}|u\{[\da-f]{1,6}\}|p\{[^}]*\}|[^1-9bckpux])|[^\\()[\]{}*+?|^$]/iuy
const GROUP = /\((?:\?:|\?<[A-Za-z_]\w*>)?(?!\?)/y
const QUANTIFIER = /(?:([*+?])|\{(\d+)(,?)(\d*)\})\??/y
const CODE = /\\(?:x|u\{?)([\da-f]+)/gi

/** What is tried for a class, the plainest first. */
const USUAL = [...'aA0 -_.1b\n\t\r\f\vé日', ...Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i))]

/** Returns a text of at least `minLength` characters where the pattern has room for them; null for a pattern beyond it. */
export function toMatching(pattern: string, minLength = 0): string | null {
  if (pattern.length > MAX_PATTERN) return null
  try {
    const shortest = sample(pattern, 0)
    return shortest.length >= minLength ? shortest : sample(pattern, minLength - shortest.length)
  } catch (reason) {
    if (reason === NOT_SIMPLE) return null
    throw reason
  }
}

/** `spare` characters more than the least are given to the first quantifiers that take them. */
function sample(pattern: string, spare: number): string {
  let at = 0
  let left = spare

  const take = (sticky: RegExp) => {
    sticky.lastIndex = at
    const found = sticky.exec(pattern)
    at += found?.[0].length ?? 0
    return found
  }
  const alternatives = (): string => {
    const first = sequence()
    while (take(/\|/y)) sequence()
    return first
  }
  const sequence = (): string => {
    let out = ''
    take(/\^*/y)
    for (let piece = next(); piece !== null; piece = next()) {
      const times = repetitions(piece.length)
      if (out.length + piece.length * times > MAX_CHARS) throw NOT_SIMPLE
      out += piece.repeat(times)
    }
    take(/\$*/y)
    return out
  }
  const next = (): string | null => {
    if (take(GROUP)) {
      const inside = alternatives()
      if (!take(/\)/y)) throw NOT_SIMPLE
      return inside
    }
    const atom = take(ATOM)
    return atom && toChar(atom[0])
  }
  const repetitions = (length: number): number => {
    const [found, sign, count, comma, end] = take(QUANTIFIER) ?? []
    if (found === undefined) return 1
    const least = sign ? Number(sign === '+') : Number(count)
    const most = sign === '?' ? 1 : end ? Number(end) : sign || comma ? MAX_CHARS : least
    const added = length === 0 ? 0 : Math.max(0, Math.min(most - least, Math.ceil(left / length)))
    left -= added * length
    return Math.min(least + added, MAX_CHARS + 1)
  }

  const out = alternatives()
  if (at < pattern.length) throw NOT_SIMPLE
  return out
}

/** Finds a character that one atom of a pattern means. */
function toChar(atom: string): string {
  if (/^[^.\\[]$/u.test(atom)) return atom
  if (/^\\[^A-Za-z0-9]$/u.test(atom)) return atom.slice(1)
  const codes = [...atom.matchAll(CODE)].map(([, hex = '']) => Number.parseInt(hex, 16))
  const coded = codes.filter((code) => code <= 0x10ffff).map((code) => String.fromCodePoint(code))
  const own = /^\[[^^]/u.test(atom) ? atom.slice(1).replaceAll('\\d', '0').replaceAll('\\w', 'a') : ''
  const test = toTest(atom)
  const found = [...coded, ...own.replaceAll(/\\./gu, ''), ...USUAL].find((char) => test.test(char))
  if (found === undefined) throw NOT_SIMPLE
  return found
}

/** Patterns are meant with the flag `u`; some are only written without it in mind. */
function toTest(atom: string): RegExp {
  for (const flags of ['u', '']) {
    try {
      return new RegExp(`^(?:${atom})$`, flags)
    } catch {}
  }
  throw NOT_SIMPLE
}
