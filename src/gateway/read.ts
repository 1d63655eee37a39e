/**
 * What a request asks: its body, read once, counted as it arrives, parsed only where that does not hold up everybody else, and the task that
 * a format makes of it. Each body must have arrived by a deadline, and none outlasts the beginning of a drain. A step of `handle.ts`.
 */
import { type Decision, GatewayError } from '../domain/error.ts'
import { asObject } from '../domain/json.ts'
import { type JsonLimits, JsonScan, type Layout, noteText } from '../domain/json-text.ts'
import type { Task } from '../domain/task.ts'
import type { Pace } from '../threads/pace.ts'
import type { AdmissionSlot } from './admission.ts'
import type { Entered, Parsed } from './exchange.ts'

export const MAX_BODY_BYTES = 32 * 1024 * 1024

/**
 * A body up to this is read in one go, and takes its memory at once. A longer one takes it as it arrives: what a client
 * only says that it will send takes nothing from others.
 */
const QUICK_BYTES = 256 * 1024

/**
 * What can be parsed, checked and written again in some 50 ms each, however it is made. 64,000 values are a conversation of
 * over 4,000 turns with tools; escapes and bare characters are few in what is large: images, sound and files.
 */
const BODY_LIMITS: JsonLimits = { depth: 256, values: 64_000, escapes: 1_000_000, bare: 4 * 1024 * 1024 }

/**
 * A body may arrive in so many pieces, and one more for so many of its bytes. Each piece costs more than hundreds of bytes
 * do, and while a client sends chunks of one byte as fast as it can, Bun comes to nothing else.
 */
const FREE_PIECES = 4_096
const PIECE_BYTES = 512

/** A text up to this holds nothing that would take long, but for its depth. */
const SHORT_CHARS = 16 * 1024
/** A body of more values may take some ms. */
const LONG_VALUES = 4_000

/** A request's headers by lower-case name. */
export type RequestHeaders = Readonly<Record<string, string | undefined>>

/** JSON that was read and not parsed. */
interface BodyText {
  text: string
  /** Whether parsing it may take more than a few ms: then it waits for its turn. */
  isLong: boolean
  /** Where what stands in it, if it is worth knowing. */
  layout: Layout | null
}

/** Refuses a body that need not be read: one that says that it is too large, packed, or no JSON. */
function checkHeaders(headers: RequestHeaders): GatewayError | null {
  const stated = statedBytes(headers)
  if (stated > MAX_BODY_BYTES) return tooLarge(`${stated} bytes`)
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding !== 'identity') return unsupportedEncoding(encoding)
  const type = headers['content-type'] ?? ''
  return isJson(type) ? null : unsupportedContentType(type)
}

/**
 * Reads a body. Refuses one that is too large, that would take too long to parse, that is too long on its way, or for which
 * no memory is free.
 */
export async function readBody(
  request: Request,
  headers: RequestHeaders,
  slot: Pick<AdmissionSlot, 'take'>,
  uploads: Uploads,
): Promise<Decision<BodyText>> {
  const stated = statedBytes(headers)
  const isQuick = stated <= QUICK_BYTES
  const full = isQuick ? slot.take(stated) : null
  if (full) return full
  const upload = uploads.begin()
  try {
    if (!isQuick) return await upload.race(readPieces(request, slot, upload))
    const text = await upload.race(request.text())
    return typeof text === 'string' ? check(text) : text
  } catch {
    return clientGone()
  } finally {
    upload.leave()
  }
}

/** NaN where the client does not say it. */
const statedBytes = (headers: RequestHeaders) => Number(headers['content-length'] ?? Number.NaN)

const clientGone = () => new GatewayError('client_closed', 'The client left before its request was read.')

/** Parses what was read, and keeps the text of a long conversation beside it. */
function parseBody({ text, layout }: Pick<BodyText, 'text' | 'layout'>): unknown {
  try {
    const json: unknown = JSON.parse(text)
    const body = layout ? asObject(json) : null
    if (layout && body) noteText(body, 'messages', text, layout)
    return json
  } catch (cause) {
    return new GatewayError(
      'invalid_request',
      `We could not parse the JSON body of your request: ${cause instanceof Error ? cause.message : 'it is not JSON'}. The API expects one JSON object.`,
    )
  }
}

async function readPieces(
  request: Request,
  slot: Pick<AdmissionSlot, 'take'>,
  upload: Upload,
): Promise<Decision<BodyText>> {
  const utf8 = new TextDecoder()
  const scan = new JsonScan(BODY_LIMITS)
  let text = ''
  let bytes = 0
  let pieces = 0
  for await (const piece of request.body ?? []) {
    // Nobody waits for it any more, and its memory is counted no longer.
    if (upload.isEnded) return clientGone()
    bytes += piece.length
    if (++pieces > FREE_PIECES + bytes / PIECE_BYTES) return tooManyPieces(pieces)
    if (bytes > MAX_BODY_BYTES) return tooLarge(`more than ${MAX_BODY_BYTES} bytes`)
    const full = slot.take(piece.length)
    if (full) return full
    const more = utf8.decode(piece, { stream: true })
    const excess = scan.take(more)
    if (excess) return tooMuch(excess)
    text += more
  }
  return { ...toRead(text + utf8.decode(), scan), isLong: bytes > QUICK_BYTES || scan.values > LONG_VALUES }
}

function check(text: string): Decision<BodyText> {
  if (text.length <= SHORT_CHARS && !hasMoreOpened(text, BODY_LIMITS.depth))
    return { text, isLong: false, layout: null }
  const scan = new JsonScan(BODY_LIMITS)
  const excess = scan.take(text)
  return excess ? tooMuch(excess) : toRead(text, scan)
}

/** Of many values nobody counts the names. */
function toRead(text: string, scan: JsonScan): BodyText {
  const isLong = scan.values > LONG_VALUES
  return { text, isLong, layout: isLong ? null : scan }
}

/** Whether so many lists and objects begin in a text that they might be nested deeper than `most`. */
function hasMoreOpened(text: string, most: number): boolean {
  let opened = 0
  for (const opening of ['{', '[']) {
    for (let at = text.indexOf(opening); at !== -1; at = text.indexOf(opening, at + 1)) {
      if (++opened > most) return true
    }
  }
  return false
}

const isJson = (type: string) => /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type)

const TOO_MUCH: Record<keyof JsonLimits, string> = {
  depth: `is nested more than ${BODY_LIMITS.depth} levels deep`,
  values: `holds more than ${BODY_LIMITS.values} values`,
  escapes: `holds more than ${BODY_LIMITS.escapes} escaped characters`,
  bare: `holds more than ${BODY_LIMITS.bare} characters outside of its strings`,
}

const tooMuch = (of: keyof JsonLimits) =>
  new GatewayError('invalid_request', `The JSON body of your request ${TOO_MUCH[of]}, the most that this API takes.`)

const tooLarge = (size: string) =>
  new GatewayError(
    'request_too_large',
    `The request body is too large: this API takes at most ${MAX_BODY_BYTES} bytes, and yours has ${size}.`,
  )

const tooManyPieces = (pieces: number) =>
  new GatewayError(
    'invalid_request',
    `The request body came in ${pieces} pieces, which are too small. Send it at once, or in chunks of some kilobytes.`,
  )

const unsupportedEncoding = (encoding: string) =>
  new GatewayError(
    'unsupported_content_type',
    `Unsupported content encoding: '${encoding.slice(0, 100)}'. This API takes bodies as they are: send yours without the header 'Content-Encoding'.`,
  )

const unsupportedContentType = (type: string) =>
  new GatewayError(
    'unsupported_content_type',
    `Unsupported content type: '${type.slice(0, 100)}'. This API method only accepts 'application/json' requests, but you specified the header 'Content-Type: ${type.slice(0, 100)}'. Please try again with a supported content type.`,
  )

interface UploadsOptions {
  /** How long a whole body may take, ms. */
  uploadMs: number
  /** A clock that never steps, ms. */
  nowMs?(): number
  after?(ms: number, then: () => void): void
}

/**
 * Bodies that are on their way: each must have arrived by a deadline, however steadily it drips, and none outlasts the
 * beginning of a drain. One timer serves them all, since the first to come is the first whose time is up.
 */
export class Uploads {
  readonly #uploadMs: number
  readonly #nowMs: () => number
  readonly #after: (ms: number, then: () => void) => void
  readonly #underWay = new Set<Upload>()
  #isWaiting = false

  constructor({
    uploadMs,
    nowMs = () => performance.now(),
    after = (ms, then) => setTimeout(then, ms).unref(),
  }: UploadsOptions) {
    this.#uploadMs = uploadMs
    this.#nowMs = nowMs
    this.#after = after
  }

  begin(): Upload {
    const upload = new Upload(this.#underWay, this.#nowMs() + this.#uploadMs)
    this.#underWay.add(upload)
    if (!this.#isWaiting) this.#wait(this.#uploadMs)
    return upload
  }

  /** Refuses all that are under way. */
  end(refusal: () => GatewayError): void {
    for (const upload of this.#underWay) upload.end(refusal())
  }

  #wait(ms: number): void {
    this.#isWaiting = true
    this.#after(ms, () => this.#look())
  }

  #look(): void {
    this.#isWaiting = false
    const nowMs = this.#nowMs()
    for (const upload of this.#underWay) {
      if (upload.untilMs > nowMs) {
        this.#wait(upload.untilMs - nowMs)
        return
      }
      upload.end(tooSlow(this.#uploadMs))
    }
  }
}

class Upload {
  readonly untilMs: number
  #refuse: ((refusal: GatewayError) => void) | null = null
  #refusal: GatewayError | null = null

  constructor(
    private readonly among: Set<Upload>,
    untilMs: number,
  ) {
    this.untilMs = untilMs
  }

  get isEnded(): boolean {
    return this.#refusal !== null
  }

  /** Resolves with what is read, or with the refusal where that comes first. Rejects as the reading does. */
  race<T>(reading: Promise<T>): Promise<T | GatewayError> {
    if (this.#refusal) return Promise.resolve(this.#refusal)
    return new Promise((resolve, reject) => {
      this.#refuse = resolve
      reading.then(resolve, reject)
    })
  }

  /** Nothing is on its way any more. */
  leave(): void {
    this.among.delete(this)
  }

  end(refusal: GatewayError): void {
    this.among.delete(this)
    this.#refusal = refusal
    this.#refuse?.(refusal)
  }
}

const tooSlow = (ms: number) =>
  new GatewayError(
    'slow_upload',
    `The request body did not arrive within ${ms / 1_000} s. Send it again over a faster connection, or send less.`,
    // Whatever of it may still come is nobody's.
    { headers: { connection: 'close' } },
  )

export interface ReadDeps {
  uploads: Uploads
  /** Where requests that take long to read, and answers, wait for their turns. */
  pace: Pick<Pace, 'run'>
}

export async function read(deps: ReadDeps, entered: Entered): Promise<Decision<Parsed>> {
  const { request, headers, liftIdleLimit } = entered.incoming
  const wrong = checkHeaders(headers)
  if (wrong) {
    entered.entered.cancel()
    return wrong
  }
  const body = await readBody(request, headers, entered.slot, deps.uploads)
  if (body instanceof GatewayError) return body
  liftIdleLimit()
  const { isLong } = body
  const task = isLong ? await toTaskInTurn(deps.pace, entered, body) : toTask(entered, parseBody(body), body)
  return task instanceof GatewayError ? task : Object.assign(entered, { task, chars: body.text.length, isLong })
}

const toTask = ({ format, incoming: { headers } }: Entered, json: unknown, { text }: BodyText): Decision<Task> =>
  json instanceof GatewayError ? json : format.toTask(json, { text, headers })

/** The same, in two steps between which others come to theirs. */
async function toTaskInTurn(pace: ReadDeps['pace'], entered: Entered, body: BodyText): Promise<Decision<Task>> {
  const { key, incoming } = entered
  const { signal } = incoming.request
  const json = await pace.run(key.quotaId, () => (signal.aborted ? clientGone() : parseBody(body)))
  return json instanceof GatewayError ? json : pace.run(key.quotaId, () => toTask(entered, json, body))
}
