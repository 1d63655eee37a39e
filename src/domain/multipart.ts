/**
 * `multipart/form-data` (RFC 7578) as offsets into the body, so that edits keep all other bytes. Rejects forms that receivers read in
 * different ways: otherwise a receiver could see a part that was never checked.
 */
import { type Decision, GatewayError } from './error.ts'

export interface Part {
  name: string
  /** Null for a field without a file. */
  filename: string | null
  /** Content type, as sent. */
  type: string | null
  /** Start of its first boundary. */
  from: number
  /** Position of the name in the headers, without quotes. */
  nameStart: number
  nameEnd: number
  /** Position of the content. */
  start: number
  end: number
}

export interface Form {
  /** A Buffer, since Bun can't search a plain Uint8Array. */
  bytes: Buffer
  /** With the boundary; also for the next receiver. */
  contentType: string
  parts: readonly Part[]
}

const MAX_PARTS = 1_000
const MAX_HEADER_BYTES = 8 * 1024
/** RFC 2046, section 5.1.1; the last one may not be a space. */
const BOUNDARY = /^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/

/** `key=value` or `key="value"`; in quotes, only `\"` and `\\` are escapes, since Windows paths have backslashes. */
const PARAMETER =
  /[ \t]*;[ \t]*([\w!#$%&'*+.^`|~-]+)=(?:"((?:[^"\\]|\\["\\]|\\(?!["\\]))*)"|([\w!#$%&'*+.^`|~/:=?@-]+))/y

const CR = 13
const LF = 10
const DASH = 45

/** A view of the same bytes. */
export const asBuffer = (bytes: Uint8Array): Buffer =>
  bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

export function readForm(bytes: Uint8Array, contentType: string): Decision<Form> {
  const boundary = boundaryOf(contentType)
  if (boundary instanceof GatewayError) return boundary
  const all = asBuffer(bytes)
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  const parts: Part[] = []
  let at = startOf(all, delimiter)
  if (at === -1) return invalidForm(`it doesn't begin with '--' and the boundary of the Content-Type header`)
  while (!(all[at] === DASH && all[at + 1] === DASH)) {
    if (all[at] !== CR || all[at + 1] !== LF) return invalidForm('a boundary is not followed by a line break (CRLF)')
    const headersEnd = all.subarray(at, at + MAX_HEADER_BYTES).indexOf('\r\n\r\n')
    if (headersEnd === -1) return invalidForm('the headers of a part have no end, or are longer than 8 KiB')
    const start = at + headersEnd + 4
    const end = all.indexOf(delimiter, start)
    if (end === -1) return invalidForm(`its last boundary is missing, so it is incomplete`)
    if (parts.length === MAX_PARTS) return invalidForm(`it has more than ${MAX_PARTS} parts`)
    const from = at - delimiter.length + 2
    const part = toPart(all, { from, at: at + 2, headersEnd: at + headersEnd, start, end })
    if (part instanceof GatewayError) return part
    parts.push(part)
    at = end + delimiter.length
  }
  const rest = all.length - at - 2
  const isOver = rest === 0 || (rest === 2 && all[at + 2] === CR && all[at + 3] === LF)
  return isOver ? { bytes: all, contentType, parts } : invalidForm('there is more after its last boundary')
}

/** Offset after the first delimiter, which only a line break may precede; -1 if there is none. */
function startOf(all: Buffer, delimiter: Buffer): number {
  if (all.subarray(0, delimiter.length).equals(delimiter)) return delimiter.length
  const first = delimiter.subarray(2)
  return all.subarray(0, first.length).equals(first) ? first.length : -1
}

export const isForm = (contentType: string) => /^multipart\/form-data\s*(?:;|$)/i.test(contentType)

export function boundaryOf(contentType: string): Decision<string> {
  const parameters = isForm(contentType) ? toParameters(contentType.slice('multipart/form-data'.length)) : null
  const boundary = parameters?.get('boundary')?.text
  return boundary !== undefined && BOUNDARY.test(boundary)
    ? boundary
    : invalidForm(`its Content-Type header must be 'multipart/form-data; boundary=…', with one boundary`)
}

interface Parameter {
  text: string
  /** Offset in the parsed text. */
  at: number
  length: number
}

/** By lowercase name; null if malformed or repeated. */
function toParameters(text: string): Map<string, Parameter> | null {
  const found = new Map<string, Parameter>()
  PARAMETER.lastIndex = 0
  for (let at = 0; at < text.trimEnd().length; at = PARAMETER.lastIndex) {
    const match = PARAMETER.exec(text)
    if (match === null) return null
    const [, name = '', quoted, plain = ''] = match
    if (found.has(name.toLowerCase())) return null
    const raw = quoted ?? plain
    const end = PARAMETER.lastIndex - (quoted === undefined ? 0 : 1)
    found.set(name.toLowerCase(), {
      text: quoted === undefined ? raw : raw.replace(/\\(["\\])/g, '$1'),
      at: end - raw.length,
      length: raw.length,
    })
  }
  return found
}

/** Offsets of a part; its headers are from `at` to `headersEnd`. */
type Place = Pick<Part, 'from' | 'start' | 'end'> & { at: number; headersEnd: number }

function toPart(all: Buffer, { at, headersEnd, ...place }: Place): Decision<Part> {
  // One character per byte, so that positions are offsets.
  const headers = all.toString('latin1', at, headersEnd)
  let part: Part | null = null
  let type: string | null = null
  const seen = new Set<string>()
  for (let line = 0; line <= headers.length; ) {
    const lineEnd = headers.indexOf('\r\n', line)
    const text = headers.slice(line, lineEnd === -1 ? undefined : lineEnd)
    const colon = text.indexOf(':')
    const name = text.slice(0, colon).toLowerCase()
    if (colon < 1 || !TOKEN.test(name) || CONTROL.test(text)) return invalidForm('a part has a malformed header')
    if (seen.has(name)) return invalidForm(`a part has more than one '${name}' header`)
    seen.add(name)
    const value = text.slice(colon + 1).trim()
    if (name === 'content-disposition') {
      const valueAt = at + line + colon + 1 + (text.slice(colon + 1).length - text.slice(colon + 1).trimStart().length)
      part = toNamed(value, valueAt, place)
      if (part === null) return invalidForm(`a part has no valid 'Content-Disposition: form-data; name="…"' header`)
    }
    if (name === 'content-type') type = value
    if (name === 'content-transfer-encoding' && !/^(?:binary|8bit|7bit)$/i.test(value))
      return invalidForm('a part has a Content-Transfer-Encoding, which is not supported')
    line = lineEnd === -1 ? headers.length + 1 : lineEnd + 2
  }
  if (part === null) return invalidForm(`a part has no 'Content-Disposition' header`)
  return { ...part, type }
}

/** Line breaks are always CRLF. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are rejected
const CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/

function toNamed(value: string, at: number, place: Pick<Part, 'from' | 'start' | 'end'>): Part | null {
  const kind = 'form-data'
  if (value.slice(0, kind.length).toLowerCase() !== kind) return null
  const parameters = toParameters(value.slice(kind.length))
  const name = parameters?.get('name')
  // Receivers differ in names with escapes, and RFC 7578 has no `name*`.
  if (!parameters || !name?.text || /["\\]/.test(name.text) || parameters.has('name*')) return null
  const extended = parameters.get('filename*')?.text
  const filename = extended === undefined ? parameters.get('filename')?.text : toExtended(extended)
  if (filename === null) return null
  const nameStart = at + kind.length + name.at
  return {
    name: toUtf8(name.text),
    filename: filename === undefined ? null : toUtf8(filename),
    type: null,
    nameStart,
    nameEnd: nameStart + name.length,
    ...place,
  }
}

const toUtf8 = (latin1: string) => Buffer.from(latin1, 'latin1').toString('utf8')

/** Decodes RFC 8187 values, such as `UTF-8''a%20b.wav`, one character per byte; null if malformed. */
function toExtended(text: string): string | null {
  const [, encoded] = /^utf-8'[\w-]*'((?:[\w!#$&+.^`|~-]|%[\da-f]{2})+)$/i.exec(text) ?? []
  return encoded?.replace(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))) ?? null
}

export const textOf = ({ bytes }: Form, { start, end }: Part): string => bytes.toString('utf8', start, end)

/** The only part with this name; null if there is none, an error if there are several. */
export function onlyPart({ parts }: Form, name: string): Decision<Part | null> {
  const found = parts.filter((part) => part.name === name)
  if (found.length < 2) return found[0] ?? null
  return invalidForm(`it has ${found.length} parts named '${name}'`, name)
}

/** Changes for another receiver. */
export interface FormEdits {
  /** New contents by part name. */
  values?: ReadonlyMap<string, string>
  /** New names by old name. */
  names?: ReadonlyMap<string, string>
  /** Names of parts to leave out. */
  dropped?: ReadonlySet<string>
}

/** The body in pieces. All unchanged bytes are the client's own. */
export function writeForm({ bytes, parts }: Form, { values, names, dropped }: FormEdits): Uint8Array[] {
  const pieces: Uint8Array[] = []
  let at = 0
  const replace = (start: number, end: number, text: string | undefined) => {
    if (text === undefined) return
    pieces.push(bytes.subarray(at, start))
    if (text !== '') pieces.push(Buffer.from(text))
    at = end
  }
  for (const { name, from, nameStart, nameEnd, start, end } of parts) {
    if (dropped?.has(name)) {
      // Includes the line break before the next boundary.
      replace(from, end + 2, '')
      continue
    }
    replace(nameStart, nameEnd, names?.get(name))
    replace(start, end, values?.get(name))
  }
  pieces.push(bytes.subarray(at))
  return pieces
}

/** A file to send. */
interface OwnFile {
  name: string
  filename: string
  type: string
  bytes: Uint8Array
}

/** Creates a form of our own. Names and types must be ours, or checked. */
export function createForm(fields: readonly (readonly string[])[], files: readonly OwnFile[]) {
  const boundary = `tollgate-${crypto.randomUUID()}`
  const head = (name: string, more: string) =>
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${toQuoted(name)}"${more}\r\n\r\n`)
  const pieces: Uint8Array[] = []
  for (const [name = '', value] of fields) pieces.push(head(name, ''), Buffer.from(`${value}\r\n`))
  for (const { name, filename, type, bytes } of files)
    pieces.push(head(name, `; filename="${filename}"\r\nContent-Type: ${type}`), bytes, Buffer.from('\r\n'))
  pieces.push(Buffer.from(`--${boundary}--\r\n`))
  return { contentType: `multipart/form-data; boundary=${boundary}`, pieces }
}

/** As browsers do (HTML, "multipart/form-data"). */
const toQuoted = (name: string) => name.replace(/["\r\n]/g, encodeURIComponent)

const invalidForm = (why: string, param: string | null = null) =>
  new GatewayError('invalid_request', `We could not parse the multipart form of your request: ${why}.`, { param })
