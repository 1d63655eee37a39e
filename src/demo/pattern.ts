/**
 * Writes a text that a simple regular expression accepts, for the demo model's schemas and grammars. Knows literals,
 * escapes, classes, groups, alternatives and quantifiers; for anything else (look-around, back-references) it returns
 * null. Never runs the expression: it may be hostile.
 */

const MAX_CHARS = 10_000
const MAX_PATTERN = 1_000
/** The longest thing that is read ahead, a name of a group. */
const MAX_AHEAD = 80
const NO_MORE = new Error('not a simple pattern')

const ESCAPES: Record<string, string> = {
  ...{ d: '0', w: 'a', s: ' ', D: 'a', W: '-', S: 'a' },
  ...{ n: '\n', t: '\t', r: '\r', f: '\f', v: '\v', '0': '\0' },
}

/** What stands for a property of Unicode, `\p{Lu}`. */
const PROPERTIES: Record<string, string> = {
  ...{ L: 'a', Letter: 'a', Alphabetic: 'a', Ll: 'a', Lowercase: 'a', Lu: 'A', Uppercase: 'A' },
  ...{ N: '0', Nd: '0', P: '-', Punctuation: '-', Z: ' ', Zs: ' ' },
}

/** What a class that says what it has not may still have. */
const OTHERS = ['a', '0', 'A', '-', ' ', '_', '.', '~', 'é', '日', '\n']

/** The characters that an escape inside a class means. */
const RANGES: Record<string, [string, string][]> = {
  d: [['0', '9']],
  w: [
    ['0', '9'],
    ['A', 'Z'],
    ['_', '_'],
    ['a', 'z'],
  ],
  s: [
    ['\t', '\r'],
    [' ', ' '],
    ['\u00a0', '\u00a0'],
  ],
}

/** Returns a text of at least `minLength` characters where the pattern has room for them, or null. */
export function toMatching(pattern: string, minLength = 0): string | null {
  if (pattern.length > MAX_PATTERN) return null
  try {
    const shortest = sample([...pattern], 0)
    return shortest.length >= minLength ? shortest : sample([...pattern], minLength - shortest.length)
  } catch (reason) {
    if (reason === NO_MORE || reason instanceof RangeError) return null
    throw reason
  }
}

/** `extra` further repetitions are given to the first quantifiers that take them. */
function sample(pattern: readonly string[], extra: number): string {
  let at = 0
  let spare = extra
  let made = 0

  /** Reads ahead with an expression that begins with `^`; whatever it finds is done with. */
  const take = (expression: RegExp): RegExpExecArray | null => {
    const found = expression.exec(pattern.slice(at, at + MAX_AHEAD).join(''))
    if (found) at += [...found[0]].length
    return found
  }

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
    const hex = take(/^(?:x([\da-f]{2})|u([\da-f]{4})|u\{([\da-f]{1,5})\})/i)
    if (hex) return String.fromCodePoint(Number.parseInt(hex[1] ?? hex[2] ?? hex[3] ?? '', 16))
    const property = take(/^p\{(?:General_Category=|gc=)?(\w+)\}/)
    const char = property ? '' : (pattern[at] ?? '')
    if (!property) at += 1
    const known = property ? PROPERTIES[property[1] ?? ''] : ESCAPES[char]
    if (known !== undefined) return known
    if (char === '' || /[A-Za-z0-9]/.test(char)) throw NO_MORE
    return char
  }

  const group = (): string => {
    if (pattern[at] === '?' && !take(/^\?(?::|<[A-Za-z_]\w*>)/)) throw NO_MORE
    const inside = alternatives()
    if (pattern[at] !== ')') throw NO_MORE
    at += 1
    return inside
  }

  const oneOfClass = (): string => {
    const negated = take(/^\^/) !== null
    const ranges: [string, string][] = []
    while (at < pattern.length && pattern[at] !== ']') ranges.push(...classItem())
    if (at >= pattern.length) throw NO_MORE
    at += 1
    const free = OTHERS.find((char) => !ranges.some(([from, to]) => from <= char && char <= to))
    const found = negated ? free : ranges[0]?.[0]
    if (found === undefined) throw NO_MORE
    return found
  }

  const classItem = (): [string, string][] => {
    const set = pattern[at] === '\\' ? pattern[at + 1] : undefined
    // What has no range of its own cannot be kept out of a class.
    if (set !== undefined && 'DWSpP'.includes(set)) throw NO_MORE
    const known = set === undefined ? undefined : RANGES[set]
    if (known) {
      at += 2
      return known
    }
    const from = classChar()
    const isRange = pattern[at] === '-' && at + 1 < pattern.length && pattern[at + 1] !== ']'
    if (!isRange) return [[from, from]]
    at += 1
    return [[from, classChar()]]
  }

  const classChar = (): string => {
    const char = pattern[at] ?? ''
    at += 1
    return char === '\\' ? escaped() : char
  }

  const repetitions = (length: number): number => {
    if (!'*+?{'.includes(pattern[at] ?? ' ')) return 1
    const quantifier = take(/^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/)
    if (!quantifier) return 1
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
