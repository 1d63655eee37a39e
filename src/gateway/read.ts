/** Reads a request body, bounded in size, time, and memory, and turns it into a task. A step of `handle.ts`. */
import { type Decision, GatewayError } from '../domain/error.ts'
import { asObject } from '../domain/json.ts'
import { BODY_LIMITS, type JsonLimits, JsonScan, type Layout, noteText } from '../domain/json-text.ts'
import type { Task } from '../domain/task.ts'
import type { FormBody, InTurn } from '../formats/format.ts'
import type { Pace } from '../threads/pace.ts'
import { Pieces } from '../upstreams/pieces.ts'
import type { AdmissionSlot } from './admission.ts'
import type { Entered, Parsed } from './exchange.ts'

export const MAX_BODY_BYTES = 32 * 1024 * 1024

/** Longer bodies reserve memory as they arrive, so that a mere `content-length` takes nothing from others. */
const QUICK_BYTES = 256 * 1024

/**
 * Each piece costs more than hundreds of bytes: a client that sends 1-byte chunks as fast as it can starves everything
 * else in Bun.
 */
const FREE_PIECES = 4_096
const PIECE_BYTES = 512
const WRITTEN_BYTES = 256 * 1024

/** Shorter texts can only be slow to parse through nesting. */
const SHORT_CHARS = 16 * 1024
/** Parsing more values may take several ms. */
const LONG_VALUES = 4_000

/** By lower-case name. */
export type RequestHeaders = Readonly<Record<string, string | undefined>>

interface BodyText {
  text: string
  /** Parsing may take more than a few ms, and must wait for its turn. */
  isLong: boolean
  layout: Layout | null
}

function checkHeaders(headers: RequestHeaders, form: FormBody | undefined): GatewayError | null {
  const stated = statedBytes(headers)
  const type = headers['content-type'] ?? ''
  const isForm = form?.accepts(type) === true
  const most = isForm ? toMostBytes(form) : MAX_BODY_BYTES
  if (stated > most) return tooLarge(`${stated} bytes`, most)
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding !== 'identity') return unsupportedEncoding(encoding)
  if (isJson(type) || isForm) return null
  return unsupportedContentType(type, form)
}

const toMostBytes = ({ maxBytes = MAX_BODY_BYTES }: Pick<FormBody, 'maxBytes'>) => maxBytes

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

/** NaN if missing. */
const statedBytes = (headers: RequestHeaders) => Number(headers['content-length'] ?? Number.NaN)

const clientGone = () => new GatewayError('client_closed', 'Client disconnected before the request was read.')

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
    // The upload was rejected in between, and its memory is no longer counted.
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

function toRead(text: string, scan: JsonScan): BodyText {
  const isLong = scan.values > LONG_VALUES
  return { text, isLong, layout: isLong ? null : scan }
}

/** A cheap upper bound of the nesting depth. */
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
  new GatewayError('invalid_request', `The JSON body of your request ${TOO_MUCH[of]}, which is the limit.`)

const tooLarge = (size: string, most = MAX_BODY_BYTES) =>
  new GatewayError('request_too_large', `The request body is too large: ${size} (limit: ${most} bytes).`)

const tooManyPieces = (pieces: number) =>
  new GatewayError(
    'invalid_request',
    `The request body arrived in ${pieces} chunks, which are too small. Send it at once, or in chunks of several kilobytes.`,
  )

const unsupportedEncoding = (encoding: string) =>
  new GatewayError(
    'unsupported_content_type',
    `Unsupported content encoding: '${encoding.slice(0, 100)}'. Send the body uncompressed, without a 'Content-Encoding' header.`,
  )

function unsupportedContentType(type: string, form: FormBody | undefined): GatewayError {
  const able = [...(form ? ["'multipart/form-data'"] : []), ...(form?.isOnly ? [] : ["'application/json'"])]
  return new GatewayError(
    'unsupported_content_type',
    `Unsupported content type: '${type.slice(0, 100)}'. This API method only accepts ${able.join(' and ')} requests, but you specified the header 'Content-Type: ${type.slice(0, 100)}'. Please try again with a supported content type.`,
  )
}

interface UploadsOptions {
  uploadMs: number
  /** Monotonic clock, ms. */
  nowMs?(): number
  after?(ms: number, then: () => void): void
}

/**
 * Each upload has a deadline, and none outlasts the start of a drain. One timer serves all, since they expire in order
 * of arrival.
 */
export class Uploads {
  readonly #uploadMs: number
  readonly #nowMs: () => number
  readonly #after: (ms: number, then: () => void) => void
  readonly #inFlight = new Set<Upload>()
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
    const upload = new Upload(this.#inFlight, this.#nowMs() + this.#uploadMs)
    this.#inFlight.add(upload)
    if (!this.#isWaiting) this.#wait(this.#uploadMs)
    return upload
  }

  end(refusal: () => GatewayError): void {
    for (const upload of this.#inFlight) upload.end(refusal())
  }

  #wait(ms: number): void {
    this.#isWaiting = true
    this.#after(ms, () => this.#look())
  }

  #look(): void {
    this.#isWaiting = false
    const nowMs = this.#nowMs()
    for (const upload of this.#inFlight) {
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

  /** Resolves to the rejection if that comes first. Rejects as `reading` does. */
  race<T>(reading: Promise<T>): Promise<T | GatewayError> {
    if (this.#refusal) return Promise.resolve(this.#refusal)
    return new Promise((resolve, reject) => {
      this.#refuse = resolve
      reading.then(resolve, reject)
    })
  }

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
    `Timed out reading the request body after ${ms / 1_000} s.`,
    // The rest of the body must not be read as another request.
    { headers: { connection: 'close' } },
  )

export interface ReadDeps {
  uploads: Uploads
  pace: Pick<Pace, 'run'>
  monotonicMs(): number
}

export async function read(deps: ReadDeps, entered: Entered): Promise<Decision<Parsed>> {
  const { request, headers, liftIdleLimit } = entered.incoming
  const { form } = entered.format
  const wrong = checkHeaders(headers, form)
  if (wrong) {
    entered.entered.cancel()
    return wrong
  }
  if (form?.accepts(headers['content-type'] ?? '')) return readForm(deps, entered, form)
  const body = await readBody(request, headers, entered.slot, deps.uploads)
  if (body instanceof GatewayError) return body
  liftIdleLimit()
  const readAtMs = deps.monotonicMs()
  const { isLong } = body
  const task = isLong ? await toTaskInTurn(deps.pace, entered, body) : toTask(entered, parseBody(body), body)
  return task instanceof GatewayError
    ? task
    : Object.assign(entered, { readAtMs, task, chars: body.text.length, isLong })
}

/** Its bytes stay as they are, in one buffer. */
async function readForm(deps: ReadDeps, entered: Entered, form: FormBody): Promise<Decision<Parsed>> {
  const { request, headers, liftIdleLimit } = entered.incoming
  const inTurn: InTurn = (work) => deps.pace.run(entered.key.quotaId, work)
  const bytes = await receive(request, entered.slot, deps.uploads, toMostBytes(form), inTurn)
  if (bytes instanceof GatewayError) return bytes
  liftIdleLimit()
  const readAtMs = deps.monotonicMs()
  const task = await form.toTask(bytes, headers, inTurn)
  if (task instanceof GatewayError) return task
  return Object.assign(entered, { readAtMs, task, chars: bytes.length, isLong: false })
}

/** A body of any type, in one buffer. */
export async function receive(
  request: Request,
  slot: Pick<AdmissionSlot, 'take'>,
  uploads: Uploads,
  maxBytes: number,
  inTurn: InTurn,
): Promise<Decision<Uint8Array>> {
  return receiveBy(uploads, (upload) => readBytes(request, slot, upload, maxBytes, inTurn))
}

/** Passes a body of any type to `write` piece by piece, reading on after each. Returns its length. */
export async function receivePieces(
  request: Request,
  uploads: Uploads,
  maxBytes: number,
  write: (piece: Uint8Array) => Promise<void>,
): Promise<Decision<number>> {
  return receiveBy(uploads, async (upload) => {
    const kept = new Pieces()
    let bytes = 0
    let pieces = 0
    for await (const piece of bodyOf(request)) {
      bytes += piece.length
      if (upload.isEnded) return clientGone()
      if (++pieces > FREE_PIECES + bytes / PIECE_BYTES) return tooManyPieces(pieces)
      if (bytes > maxBytes) return tooLarge(`more than ${maxBytes} bytes`, maxBytes)
      kept.push(piece)
      if (kept.bytes >= WRITTEN_BYTES) await write(kept.join())
    }
    if (kept.bytes > 0) await write(kept.join())
    return bytes
  })
}

async function receiveBy<T>(uploads: Uploads, read: (upload: Upload) => Promise<Decision<T>>): Promise<Decision<T>> {
  const upload = uploads.begin()
  try {
    return await upload.race(read(upload))
  } catch (error) {
    if (error instanceof BodyLost) return clientGone()
    throw error
  } finally {
    upload.leave()
  }
}

/** Throws BodyLost. */
async function* bodyOf(request: Request): AsyncIterable<Uint8Array> {
  try {
    for await (const piece of request.body ?? []) yield piece
  } catch {
    throw new BodyLost()
  }
}

class BodyLost extends Error {}

async function readBytes(
  request: Request,
  slot: Pick<AdmissionSlot, 'take'>,
  upload: Upload,
  most: number,
  inTurn: InTurn,
): Promise<Decision<Uint8Array>> {
  const kept = new Pieces()
  let isWhole = false
  let pieces = 0
  try {
    for await (const piece of request.body ?? []) {
      if (upload.isEnded) return clientGone()
      if (++pieces > FREE_PIECES + (kept.bytes + piece.length) / PIECE_BYTES) return tooManyPieces(pieces)
      if (kept.bytes + piece.length > most) return tooLarge(`more than ${most} bytes`, most)
      const full = slot.take(piece.length)
      if (full) return full
      kept.push(piece)
    }
    isWhole = true
  } catch {
    throw new BodyLost()
  } finally {
    if (!isWhole) kept.free()
  }
  return kept.joinOwn(inTurn)
}

const toTask = ({ format, incoming: { headers } }: Entered, json: unknown, { text }: BodyText): Decision<Task> =>
  json instanceof GatewayError ? json : format.toTask(json, { text, headers })

/** Gives other keys a turn between the two steps. */
async function toTaskInTurn(pace: ReadDeps['pace'], entered: Entered, body: BodyText): Promise<Decision<Task>> {
  const { key, incoming } = entered
  const { signal } = incoming.request
  const json = await pace.run(key.quotaId, () => (signal.aborted ? clientGone() : parseBody(body)))
  return json instanceof GatewayError ? json : pace.run(key.quotaId, () => toTask(entered, json, body))
}
