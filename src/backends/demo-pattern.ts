/**
 * Writes a text that a simple regular expression accepts, for `demo-json.ts`. Knows literals, escapes, classes, groups,
 * alternatives and quantifiers; for anything else (look-around, back-references, properties) it returns null. Never
 * runs the expression: it may be hostile.
 */

const MAX_CHARS = 10_000
const NO_MORE = new Error('not a simple pattern')

const ESCAPES: Record<string, string> = { d: '0', w: 'a', s: ' ', D: 'a', W: '-', S: 'a', n: '\n', t: '\t', r: '\r' }

/** Returns a text of at least `minLength` characters where the pattern has room for them, or null. */
export function toMatching(pattern: string, minLength = 0): string | null {
  try {
    const shortest = sample(pattern, 0)
    return shortest.length >= minLength ? shortest : sample(pattern, minLength - shortest.length)
  } catch (reason) {
    if (reason === NO_MORE) return null
    throw reason
  }
}

/** `extra` further repetitions are given to the first quantifier that takes them. */
function sample(pattern: string, extra: number): string {
  let at = 0
  let spare = extra
  let made = 0

  const alternatives = (): string => {
    const first = sequence()
    while (pattern[at] === '|') {
      at += 1
      sequence()
    }
    return first
  }

  const sequence = (): string => {
    let out = ''
    while (at < pattern.length && pattern[at] !== '|' && pattern[at] !== ')') {
      const piece = atom()
      out += piece.repeat(repetitions(piece.length))
      made += piece.length
      if (out.length > MAX_CHARS || made > MAX_CHARS) throw NO_MORE
    }
    return out
  }

  const atom = (): string => {
    const char = pattern[at] ?? ''
    at += 1
    if (char === '^' || char === '$') return ''
    if (char === '.') return 'a'
    if (char === '\\') return escaped()
    if (char === '[') return oneOfClass()
    if (char === '(') return group()
    if ('*+?{'.includes(char)) throw NO_MORE
    return char
  }

  const escaped = (): string => {
    const char = pattern[at] ?? ''
    at += 1
    const known = ESCAPES[char]
    if (known !== undefined) return known
    if (char === '' || /[A-Za-z0-9]/.test(char)) throw NO_MORE
    return char
  }

  const group = (): string => {
    if (pattern[at] === '?') {
      const name = /^\?(?::|<[A-Za-z_]\w*>)/.exec(pattern.slice(at, at + 80))
      if (!name) throw NO_MORE
      at += name[0].length
    }
    const inside = alternatives()
    if (pattern[at] !== ')') throw NO_MORE
    at += 1
    return inside
  }

  const oneOfClass = (): string => {
    if (pattern[at] === '^') throw NO_MORE
    const char = pattern[at] ?? ''
    at += 1
    const first = char === '\\' ? escaped() : char
    if (first === '' || first === ']') throw NO_MORE
    while (at < pattern.length && pattern[at] !== ']') at += pattern[at] === '\\' ? 2 : 1
    at += 1
    return first
  }

  const repetitions = (length: number): number => {
    const quantifier = /^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/.exec(pattern.slice(at, at + 24))
    if (!quantifier) return 1
    at += quantifier[0].length
    const kind = quantifier[0][0]
    const least = kind === '{' ? Number(quantifier[1]) : kind === '+' ? 1 : 0
    const open = kind === '*' || kind === '+' || (quantifier[2] === ',' && quantifier[3] === '')
    const most = kind === '?' ? 1 : open ? MAX_CHARS : Number(quantifier[3] || least)
    const added = length === 0 ? 0 : Math.min(most - least, Math.ceil(spare / length))
    spare -= added * length
    if ((least + added) * length > MAX_CHARS) throw NO_MORE
    return least + added
  }

  const out = alternatives()
  if (at < pattern.length) throw NO_MORE
  return out
}
