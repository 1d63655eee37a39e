/** Markdown as a bounded tree of safe nodes. HTML stays text, links are http(s), and images are links. */
import { lexer, type Token, type Tokens } from 'marked'

export type Inline =
  | { kind: 'text' | 'code'; text: string }
  | { kind: 'strong' | 'em' | 'del'; children: Inline[] }
  | { kind: 'link'; href: string; children: Inline[] }
  | { kind: 'break' }

export type Block =
  | { kind: 'paragraph'; children: Inline[] }
  | { kind: 'heading'; children: Inline[] }
  | { kind: 'code'; text: string; language: string }
  | { kind: 'quote'; children: Block[] }
  | { kind: 'list'; start: number | null; items: Block[][] }
  | { kind: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { kind: 'rule' }

/** Longer answers and blocks take too long to read or lay out, so they stay plain text. */
const MAX_CHARS = 100_000
const MAX_NODES = 5_000
const MAX_ITEMS = 1_000
/** The lexer recurses for each quote and list item. */
const MAX_DEPTH = 12
/** The lexer is quadratic over runs of unclosed marks. */
const MAX_MARKS = 4_000

/** Null if the text is better shown as it is. */
export function readMarkdown(text: string): Block[] | null {
  if (text.length > MAX_CHARS || isHard(text)) return null
  try {
    const budget = { left: MAX_NODES }
    return toBlocks(lexer(text), budget, 0)
  } catch {
    return null
  }
}

const DEEP = new RegExp(
  `^(?:[ \\t]*(?:>|[-*+]|\\d{1,9}[.)])){${MAX_DEPTH},}[ \\t]|^[ \\t]{${MAX_DEPTH * 4},}[-*+>]`,
  'm',
)

const MARKS = /[*_\x60[\]~<]/g
const ITEMS = /^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]/gm

const isHard = (text: string): boolean =>
  DEEP.test(text) || (text.match(MARKS)?.length ?? 0) > MAX_MARKS || (text.match(ITEMS)?.length ?? 0) > MAX_ITEMS

interface Budget {
  left: number
}

class TooMuch extends Error {}

function take(budget: Budget, depth: number): void {
  budget.left -= 1
  if (budget.left < 0 || depth > MAX_DEPTH) throw new TooMuch()
}

const toBlocks = (tokens: readonly Token[], budget: Budget, depth: number): Block[] =>
  tokens.flatMap((token) => toBlock(token, budget, depth))

function toBlock(token: Token, budget: Budget, depth: number): Block[] {
  take(budget, depth)
  const inline = (tokens: readonly Token[] | undefined) => toInlines(tokens ?? [], budget, depth + 1)
  switch (token.type) {
    case 'space':
    case 'def':
      return []
    case 'heading':
      return [{ kind: 'heading', children: inline(token.tokens) }]
    case 'code':
      return [{ kind: 'code', text: token.text, language: toLanguage(token.lang ?? '') }]
    case 'blockquote':
      return [{ kind: 'quote', children: toBlocks(token.tokens ?? [], budget, depth + 1) }]
    case 'list': {
      const { ordered, start, items } = token as Tokens.List
      const read = items.map((item) => toBlocks(withBox(item), budget, depth + 1))
      return [{ kind: 'list', start: ordered ? Number(start) || 1 : null, items: read }]
    }
    case 'table': {
      const { header, rows } = token as Tokens.Table
      return [
        {
          kind: 'table',
          head: header.map((cell) => inline(cell.tokens)),
          rows: rows.map((row) => row.map((cell) => inline(cell.tokens))),
        },
      ]
    }
    case 'hr':
      return [{ kind: 'rule' }]
    case 'html':
      return [{ kind: 'paragraph', children: [{ kind: 'text', text: token.raw.trimEnd() }] }]
    default:
      return [{ kind: 'paragraph', children: toInlines([token], budget, depth + 1) }]
  }
}

/** A task's checkbox is text, since it can't be ticked here. */
function withBox({ task, checked, tokens }: Tokens.ListItem): Token[] {
  const others = tokens.filter(({ type }) => type !== 'checkbox')
  if (!task) return others
  const text = checked ? '☑ ' : '☐ '
  const box = { type: 'text', raw: text, text }
  const [first, ...rest] = others
  return first && 'tokens' in first && first.tokens
    ? [{ ...first, tokens: [box, ...first.tokens] }, ...rest]
    : [box, ...others]
}

const toInlines = (tokens: readonly Token[], budget: Budget, depth: number): Inline[] =>
  tokens.flatMap((token) => toInline(token, budget, depth))

function toInline(token: Token, budget: Budget, depth: number): Inline[] {
  take(budget, depth)
  const children = () => toInlines('tokens' in token ? (token.tokens ?? []) : [], budget, depth + 1)
  switch (token.type) {
    case 'strong':
    case 'em':
    case 'del':
      return [{ kind: token.type, children: children() }]
    case 'codespan':
      return [{ kind: 'code', text: token.text }]
    case 'br':
      return [{ kind: 'break' }]
    case 'link':
      return toLink(token.href, children())
    case 'image':
      return toLink(token.href, [{ kind: 'text', text: token.text || token.href }])
    case 'text':
    case 'paragraph':
      return token.tokens ? children() : [{ kind: 'text', text: token.text }]
    case 'escape':
      return [{ kind: 'text', text: token.text }]
    default:
      return [{ kind: 'text', text: token.raw }]
  }
}

function toLink(href: string, children: Inline[]): Inline[] {
  const url = URL.parse(href)
  return url?.protocol === 'https:' || url?.protocol === 'http:'
    ? [{ kind: 'link', href: url.href, children }]
    : children
}

const toLanguage = (info: string) => /^[\w+#.-]{1,24}/.exec(info.trim())?.[0] ?? ''

/** Possible start of the last block: arriving text doesn't change anything before it. */
export function findSettled(text: string): number {
  if (text.length > MAX_CHARS) return 0
  let settled = 0
  let fence = ''
  let at = 0
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(\x60{3,}|~{3,})/.exec(line)?.[1] ?? ''
    if (fence === '') fence = mark
    else if (mark.startsWith(fence) && line.trim() === mark) fence = ''
    // A list or quote may continue after an empty line, but not before unindented text.
    if (fence === mark && /^[^\s>*+\-\d|]/.test(line) && text.slice(Math.max(0, at - 2), at) === '\n\n') settled = at
    at += line.length + 1
  }
  return settled
}
