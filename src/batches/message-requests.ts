/** The requests of a batch in Anthropic's format, as lines of a file. Read item by item, since the whole would block the event loop. */
import { type Decision, GatewayError } from '../domain/error.ts'
import { asObject } from '../domain/json.ts'
import { BACKSLASH, BODY_LIMITS, COMMA, JsonScan, QUOTE, sourceOf } from '../domain/json-text.ts'
import { asBuffer } from '../domain/multipart.ts'
import { ENDPOINT_PATHS } from '../domain/task.ts'
import { MAX_LINE_BYTES, MAX_LINES, toObject, toOneLine } from './input.ts'

export interface RequestLines {
  bytes: Uint8Array
  lines: number
}

const HEAD = /^\s*\{\s*"requests"\s*:\s*\[/
const TAIL = /^\s*\}\s*$/
const MAX_HEAD_BYTES = 1_024
const CUSTOM_ID = /^[\w-]{1,64}$/
const SLICE_BYTES = 256 * 1024
const [OPEN, CLOSE, END] = [0x7b, 0x7d, 0x5d]

/** @param inTurn runs work that blocks the event loop for some ms. */
export async function toRequestLines(
  bytes: Uint8Array,
  inTurn: <T>(work: () => T) => Promise<T>,
): Promise<Decision<RequestLines>> {
  const reader = new RequestReader(bytes)
  for (;;) {
    const done = await inTurn(() => reader.next())
    if (done !== null) return done
  }
}

class RequestReader {
  readonly #bytes: Uint8Array
  readonly #lines: Buffer[] = []
  readonly #ids = new Set<string>()
  #at: number

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#at = HEAD.exec(textOf(bytes, 0, MAX_HEAD_BYTES))?.[0].length ?? -1
  }

  /** Null: not finished yet. */
  next(): Decision<RequestLines> | null {
    if (this.#at === -1) return notRequests()
    for (const end = this.#at + SLICE_BYTES; this.#at < end; ) {
      const from = this.#skipBlanks(this.#at)
      const isFirst = this.#lines.length === 0
      const first = this.#bytes[from]
      if (first === END) return this.#end(from + 1)
      const start = isFirst ? from : first === COMMA ? this.#skipBlanks(from + 1) : -1
      const to = this.#bytes[start] === OPEN ? this.#findEnd(start) : -1
      if (to === -1) return isFirst || first === COMMA ? this.#wrong('', 'Input should be an object') : notJson()
      const problem = this.#add(start, to)
      if (problem) return problem
      this.#at = to
    }
    return null
  }

  #end(after: number): Decision<RequestLines> {
    if (!TAIL.test(textOf(this.#bytes, after, after + MAX_HEAD_BYTES)) || this.#bytes.length > after + MAX_HEAD_BYTES)
      return notRequests()
    if (this.#lines.length === 0) return refuse('requests: List should have at least 1 item')
    return { bytes: Buffer.concat(this.#lines), lines: this.#lines.length }
  }

  #add(from: number, to: number): GatewayError | null {
    const number = this.#lines.length
    if (number === MAX_LINES) return refuse(`requests: List should have at most ${MAX_LINES} items`)
    if (to - from > MAX_LINE_BYTES) return this.#wrong('', `larger than ${MAX_LINE_BYTES} bytes`)
    const text = textOf(this.#bytes, from, to)
    const json = new JsonScan(BODY_LIMITS).take(text) === null ? toObject(text) : null
    if (json === null) return notJson()
    const { custom_id: customId, params, ...rest } = json
    const [extra] = Object.keys(rest)
    if (extra !== undefined) return this.#wrong(`.${extra.slice(0, 100)}`, 'Extra inputs are not permitted')
    if (typeof customId !== 'string' || !CUSTOM_ID.test(customId))
      return this.#wrong('.custom_id', "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
    if (this.#ids.has(customId)) return this.#wrong('.custom_id', `Duplicate custom_id \`${customId}\``)
    if (asObject(params) === null) return this.#wrong('.params', 'Input should be an object')
    this.#ids.add(customId)
    const head = JSON.stringify({ custom_id: customId, method: 'POST', url: ENDPOINT_PATHS.messages })
    const body = toOneLine(sourceOf(text, 'params') ?? '')
    this.#lines.push(Buffer.from(`${head.slice(0, -1)},"body":${body}}\n`))
    return null
  }

  #wrong(field: string, message: string): GatewayError {
    return refuse(`requests.${this.#lines.length}${field}: ${message}`)
  }

  #skipBlanks(from: number): number {
    let at = from
    while (BLANKS.has(this.#bytes[at] ?? 0)) at++
    return at
  }

  /** Index after the object that begins at `from`; -1 if the object has no end. */
  #findEnd(from: number): number {
    const bytes = this.#bytes
    let depth = 0
    for (let at = from; at < bytes.length; at++) {
      const byte = bytes[at]
      if (byte === QUOTE) {
        at++
        while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
      } else if (byte === OPEN) depth++
      else if (byte === CLOSE && --depth === 0) return at + 1
    }
    return -1
  }
}

const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d])

const textOf = (bytes: Uint8Array, from: number, to: number) =>
  asBuffer(bytes).toString('utf8', from, Math.min(to, bytes.length))

const refuse = (message: string) =>
  new GatewayError('invalid_request', message, { param: message.split(':', 1)[0] ?? null })

const notJson = () => new GatewayError('invalid_request', 'The request body is not valid JSON.')
const notRequests = () =>
  new GatewayError('invalid_request', 'The body must be an object with a list `requests`, and nothing else.', {
    param: 'requests',
  })
