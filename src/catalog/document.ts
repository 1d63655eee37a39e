/** Reads YAML or JSON into plain values with line numbers, and writes it. The only user of the YAML library. */

import {
  Composer,
  type CST,
  Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  visit,
  YAMLParseError,
} from 'yaml'
import { messageOf } from '../domain/error.ts'

export interface CatalogDocument {
  /** Plain values; null if empty or unreadable. */
  raw: unknown
  errors: { line: number; message: string }[]
  /** True if the values can be checked anyway. */
  readable: boolean
  /** The line, from 1, of a field, or of its nearest existing parent. */
  lineOf(segments: readonly (string | number)[]): number
}

/**
 * `{ api_key: ${NAME} }` is invalid YAML, because a brace ends plain text in a flow map. While reading, noncharacters
 * of the same length replace the braces, which keeps positions.
 */
const REFERENCE = /\$\{([^{}\n]*)\}/g
const hide = (text: string) => text.replace(REFERENCE, '$\uFDD0$1\uFDD1')
const reveal = (text: string) => text.replaceAll('\uFDD0', '{').replaceAll('\uFDD1', '}')

/** Yields to the event loop while parsing. Never throws because of the text. */
export async function parseText(text: string): Promise<CatalogDocument> {
  const lines = new LineCounter()
  const document = await compose(hide(text), lines)
  const lineAt = (offset: number | undefined) => Math.max(1, lines.linePos(offset ?? 0).line)
  const errors = document.errors.map(({ code, message, pos: [offset] }) => {
    // The library may quote the source, which may be a secret.
    const reason = reveal(message).replace(/: ".*"$/s, '')
    if (code !== 'DUPLICATE_KEY')
      return { line: lineAt(offset), message: `not valid YAML: ${reason}.${adviceFor(reason)}` }
    const [name = 'this name'] = /^(?:"[^"\n]*"|'[^'\n]*'|[^:,{}\n]+)/.exec(text.slice(offset, offset + 200)) ?? []
    return { line: lineAt(offset), message: `duplicate key: ${name.trim()}.` }
  })
  const readable = document.errors.every((error) => error.code === 'DUPLICATE_KEY')
  const lineOf = (segments: readonly (string | number)[]) => lineAt(offsetOf(document.contents, segments))

  function offsetOf(root: Node | null, segments: readonly (string | number)[]): number | undefined {
    let node: unknown = root
    let offset = root?.range?.[0]
    for (const segment of segments) {
      if (isAlias(node)) node = node.resolve(document)
      if (isMap(node)) {
        const pair = node.items.find(({ key }) => reveal(String(isScalar(key) ? key.value : key)) === segment)
        if (!pair) return offset
        offset = (isScalar(pair.key) ? pair.key.range?.[0] : undefined) ?? offset
        node = pair.value
      } else if (isSeq(node) && typeof segment === 'number') {
        node = node.items[segment]
        offset = (isMap(node) || isScalar(node) || isSeq(node) ? node.range?.[0] : undefined) ?? offset
      } else return offset
    }
    return offset
  }

  if (!readable) return { raw: null, errors, readable, lineOf }
  try {
    return { raw: revealAll(document.toJS()), errors, readable, lineOf }
  } catch (cause) {
    const reason = reveal(messageOf(cause))
    const message = `not valid YAML: ${reason}.${adviceFor(reason)}`
    return { raw: null, errors: [...errors, { line: 1, message }], readable: false, lineOf }
  }
}

/** Tokenizing is most of the work, and the server must keep responding. */
const SLICE_MS = 5

/** The library's `parseDocument`, in slices. */
async function compose(text: string, lines: LineCounter): Promise<Document.Parsed> {
  const parser = new Parser(lines.addNewLine)
  lines.addNewLine(0)
  const tokens: CST.Token[] = []
  let beganMs = performance.now()
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) tokens.push(token)
    if (performance.now() - beganMs < SLICE_MS) continue
    await Bun.sleep(0)
    beganMs = performance.now()
  }
  for (const token of parser.end()) tokens.push(token)
  await Bun.sleep(0)
  const [document, another] = new Composer({ prettyErrors: false }).compose(tokens, true, text.length)
  if (!document) throw new Error('even an empty text has a document')
  if (another) document.errors.push(new YAMLParseError([another.range[0], another.range[1]], 'MULTIPLE_DOCS', SEVERAL))
  return document
}

const SEVERAL = 'the file has several YAML documents; a catalog is one'

/** In YAML, `*` starts an alias. */
const adviceFor = (reason: string) => (/alias/i.test(reason) ? ' Quote values that start with *: "*".' : '')

function revealAll(value: unknown): unknown {
  if (typeof value === 'string') return reveal(value)
  if (Array.isArray(value)) return value.map(revealAll)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, held]) => [reveal(name), revealAll(held)]))
}

export interface Comments {
  /** At the top; lines start with a space. */
  head: string
  /** Comments above a field. */
  at: readonly [path: readonly string[], comment: string][]
}

/** Writes lists of plain values on one line. */
export function writeDocument(value: unknown, { head, at }: Comments): string {
  const document = new Document(value)
  visit(document, {
    Seq(_, list) {
      list.flow = !list.items.some(isMap)
    },
  })
  for (const [path, comment] of at) {
    const around = document.getIn(path.slice(0, -1))
    const pair = isMap(around) ? around.items.find(({ key }) => isScalar(key) && key.value === path.at(-1)) : undefined
    if (isNode(pair?.key)) pair.key.commentBefore = comment
  }
  document.commentBefore = head
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}
