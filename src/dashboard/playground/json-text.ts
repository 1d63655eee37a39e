/** JSON that somebody types: what it says, or where it is wrong, in words. Pure. */

/** `problem` is a sentence without its end, such as `line 3, column 7: a comma or ] is missing`. */
export type ReadJson = { value: unknown } | { problem: string }

export function readJson(text: string): ReadJson {
  try {
    return { value: JSON.parse(text) }
  } catch {
    const { at, what } = findMistake(text)
    const before = text.slice(0, at)
    const line = before.split('\n').length
    return { problem: `line ${line}, column ${at - before.lastIndexOf('\n')}: ${what}` }
  }
}

interface Mistake {
  at: number
  what: string
}

const WORD = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w)/y

/** What may come next: an item or name that may be left out is `first`. */
type Wanted = 'value' | 'first value' | 'name' | 'first name' | 'colon' | 'comma'

const WANTED: Readonly<Record<Wanted, string>> = {
  value: 'a value is missing here',
  'first value': 'a value or ] is missing here',
  name: 'a name in double quotes is missing here',
  'first name': 'a name in double quotes or } is missing here',
  colon: 'a colon is missing here',
  comma: 'a comma is missing here',
}

/** Where a text that is no JSON ceases to be some: every browser says that otherwise, or not at all. */
function findMistake(text: string): Mistake {
  const open: ('{' | '[')[] = []
  let wanted: Wanted = 'value'
  let at = 0
  for (;;) {
    while (' \t\n\r'.includes(text[at] ?? '?')) at++
    const char = text[at]
    const inside = open.at(-1)
    if (char === undefined) return { at, what: toEnd(inside, text) }
    if (wanted === 'comma' && inside === undefined) return { at, what: 'it is over, and something follows' }
    if (char === (inside === '{' ? '}' : ']') && (wanted === 'comma' || wanted.startsWith('first'))) {
      open.pop()
      wanted = 'comma'
      at++
    } else if (wanted === 'comma') {
      if (char !== ',') return { at, what: `a comma or ${inside === '{' ? '}' : ']'} is missing here` }
      wanted = inside === '{' ? 'name' : 'value'
      at++
    } else if (wanted === 'colon') {
      if (char !== ':') return { at, what: WANTED.colon }
      wanted = 'value'
      at++
    } else if (char === '"') {
      const end = readText(text, at)
      if (typeof end !== 'number') return end
      at = end
      wanted = wanted.endsWith('name') ? 'colon' : 'comma'
    } else if (wanted.endsWith('name')) return { at, what: toWanted(wanted, char) }
    else if (char === '{' || char === '[') {
      open.push(char)
      wanted = char === '{' ? 'first name' : 'first value'
      at++
    } else {
      WORD.lastIndex = at
      const word = WORD.exec(text)
      if (!word) return { at, what: toWanted(wanted, char) }
      at += word[0].length
      wanted = 'comma'
    }
  }
}

function toWanted(wanted: Wanted, char: string): string {
  if (char === '}' || char === ']') return `a comma before ${char} is one too many, or ${WANTED[wanted]}`
  if ("'‘’“”`".includes(char)) return 'texts stand in straight double quotes: "'
  if (char === '/' || char === '#') return 'JSON has no comments'
  return WANTED[wanted]
}

function toEnd(inside: string | undefined, text: string): string {
  if (inside === undefined) return text.trim() === '' ? 'there is nothing' : 'it ends too early'
  return `it ends before its ${inside === '{' ? '}' : ']'}`
}

const ESCAPED = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y

/** Returns where a text ends, or its mistake. */
function readText(text: string, from: number): number | Mistake {
  for (let at = from + 1; ; ) {
    const char = text[at]
    if (char === '"') return at + 1
    if (char === undefined || char === '\n') return { at: from, what: 'this text has no end: " is missing' }
    if (char < ' ') return { at, what: 'a text has no bare tabs or other control characters: write \\t' }
    if (char !== '\\') {
      at++
      continue
    }
    ESCAPED.lastIndex = at
    if (!ESCAPED.test(text)) return { at, what: 'a backslash stands before one of "\\/bfnrtu alone: write \\\\' }
    at = ESCAPED.lastIndex
  }
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
