/** JSON values as they are written in a language, over as many lines as they need, and texts for a shell. Pure. */

export interface Language {
  text(text: string): string
  /** With what stands between it and its value. */
  key(name: string): string
  words: { true: string; false: string; null: string }
  /** What stands within `{ }` where an object has room on one line. */
  gap: '' | ' '
  /** Whether a comma may stand behind the last line. */
  hasLastComma: boolean
  indent: string
}

const json = (text: string) => JSON.stringify(text.toWellFormed())
const PLAIN_WORDS = { true: 'true', false: 'false', null: 'null' }

export const JSON_TEXT: Language = {
  text: json,
  key: (name) => `${json(name)}: `,
  words: PLAIN_WORDS,
  gap: '',
  hasLastComma: false,
  indent: '  ',
}

/** In single quotes. */
const toScriptText = (text: string) => `'${json(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`

export const SCRIPT: Language = {
  text: toScriptText,
  key(name) {
    // The one name that does not name a field.
    if (name === '__proto__') return `['__proto__']: `
    return `${/^[A-Za-z_$][\w$]*$/.test(name) ? name : toScriptText(name)}: `
  },
  words: PLAIN_WORDS,
  gap: ' ',
  hasLastComma: true,
  indent: '  ',
}

export const PYTHON: Language = {
  text: json,
  key: (name) => `${json(name)}: `,
  words: { true: 'True', false: 'False', null: 'None' },
  gap: '',
  hasLastComma: true,
  indent: '    ',
}

/** A text as one word of a shell. */
export const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

const WIDEST = 90

/** @param indent what its lines behind the first begin with. */
export function toLiteral(value: unknown, language: Language, indent = ''): string {
  const { text, key, words, gap, hasLastComma } = language
  if (typeof value === 'string') return text(value)
  if (typeof value !== 'object' || value === null) return words[String(value) as keyof typeof words] ?? String(value)
  const [open, close, pad] = Array.isArray(value) ? ['[', ']', ''] : ['{', '}', gap]
  const inner = indent + language.indent
  const names = Object.keys(value)
  if (names.length === 0) return open + close
  const parts = Object.values(value).map((part, at) => {
    const name = Array.isArray(value) ? '' : key(names[at] ?? '')
    return name + toLiteral(part, language, inner)
  })
  const line = `${open}${pad}${parts.join(', ')}${pad}${close}`
  if (!line.includes('\n') && indent.length + line.length <= WIDEST) return line
  return `${open}\n${parts.map((part) => inner + part).join(',\n')}${hasLastComma ? ',' : ''}\n${indent}${close}`
}
