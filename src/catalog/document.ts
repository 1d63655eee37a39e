/**
 * Reads the text of a catalogue, YAML or JSON, into plain values, and finds the line of a field for the sentences about
 * it; writes plain values as such a text. The only file that knows the YAML library; it knows nothing of catalogues.
 */

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
  /** The document as plain values; null where it is empty or cannot be read at all. */
  raw: unknown
  /** Errors of the text itself. */
  errors: { line: number; message: string }[]
  /** Whether the values are worth looking at in spite of the errors. */
  readable: boolean
  /** The line, from 1, of the field at a path, or of the nearest thing around it that exists. */
  lineOf(segments: readonly (string | number)[]): number
}

/**
 * `{ api_key: ${NAME} }` is how one writes a reference, and it is no YAML: a brace ends a plain text inside a flow
 * map. So braces of references become two noncharacters while the library reads, of the same length to keep positions.
 */
const REFERENCE = /\$\{([^{}\n]*)\}/g
const hide = (text: string) => text.replace(REFERENCE, '$\uFDD0$1\uFDD1')
const reveal = (text: string) => text.replaceAll('\uFDD0', '{').replaceAll('\uFDD1', '}')

/** Parses the text, with pauses in which others have the event loop; never throws for what is in it. */
export async function parseText(text: string): Promise<CatalogDocument> {
  const lines = new LineCounter()
  const document = await compose(hide(text), lines)
  const lineAt = (offset: number | undefined) => Math.max(1, lines.linePos(offset ?? 0).line)
  const errors = document.errors.map(({ code, message, pos: [offset] }) => {
    // The library may quote the source, and that may be a secret.
    const reason = reveal(message).replace(/: ".*"$/s, '')
    if (code !== 'DUPLICATE_KEY')
      return { line: lineAt(offset), message: `not valid YAML: ${reason}.${adviceFor(reason)}` }
    const [name = 'this name'] = /^(?:"[^"\n]*"|'[^'\n]*'|[^:,{}\n]+)/.exec(text.slice(offset, offset + 200)) ?? []
    return { line: lineAt(offset), message: `${name.trim()} is there twice in the same place.` }
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

/** Most of the work on a large text is to take it apart, which a running server does while it answers. */
const SLICE_MS = 5

/** What the library's `parseDocument` does, a slice at a time. */
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
  if (!document) throw new Error('a text has a document, be it an empty one')
  if (another) document.errors.push(new YAMLParseError([another.range[0], another.range[1]], 'MULTIPLE_DOCS', SEVERAL))
  return document
}

const SEVERAL = 'there are several documents in it, and a catalogue is one'

/** The `*` of a wildcard's route means something else to YAML. */
const adviceFor = (reason: string) => (/alias/i.test(reason) ? ' Put a value that begins with * in quotes: "*".' : '')

function revealAll(value: unknown): unknown {
  if (typeof value === 'string') return reveal(value)
  if (Array.isArray(value)) return value.map(revealAll)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, held]) => [reveal(name), revealAll(held)]))
}

export interface Comments {
  /** Above everything. Each line begins with a space. */
  head: string
  /** Each above the field at its path. */
  at: readonly [path: readonly string[], comment: string][]
}

/** Writes values as YAML, so that `parseText` reads the same. A list of plain values is written in one line. */
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
