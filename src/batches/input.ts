/** The input of a batch: one line of JSON per request. Read in slices, so that other requests don't wait. */
import { createReadStream } from 'node:fs'
import type { BatchLine, BatchProblem, LineError, StoredBatch } from '../domain/batches.ts'
import { asObject, type JsonObject } from '../domain/json.ts'
import { BODY_LIMITS, JsonScan, sourceOf } from '../domain/json-text.ts'
import { ENDPOINT_PATHS } from '../domain/task.ts'

export const MAX_LINES = 50_000
export const MAX_LINE_BYTES = 8 * 1024 * 1024
const MAX_ID_CHARS = 256
const MAX_PROBLEMS = 100
const CHUNK_BYTES = 64 * 1024
const NEWLINE = 10

export interface Input {
  /** Byte offset of each line. */
  starts: number[]
  ends: number[]
  /** The model that all lines name. */
  model: string | null
  /** Lines that can't be sent, with their errors. */
  wrong: { number: number; customId: string; error: LineError }[]
  /** Why the batch can't run. */
  problems: BatchProblem[]
}

type Checked = Pick<StoredBatch, 'endpoint'>

/** @param inTurn runs work that blocks the event loop for some ms. Throws the system's error. */
export async function readInput(
  path: string,
  { endpoint }: Checked,
  inTurn: <T>(work: () => T) => Promise<T>,
): Promise<Input> {
  const input: Input = { starts: [], ends: [], model: null, wrong: [], problems: [] }
  const reader = new InputReader(input, ENDPOINT_PATHS[endpoint])
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
    await inTurn(() => reader.take(chunk))
    if (reader.isOver) break
  }
  await inTurn(() => reader.end())
  return input
}

export function toLine(number: number, text: string): BatchLine {
  const line = toText(text)
  const customId = String(toObject(line)?.custom_id)
  return { number, customId, body: toOneLine(sourceOf(line, 'body') ?? '') }
}

/** Null for other values and invalid JSON, even if a lenient parser accepts it: bodies are sent unchanged. */
export function toObject(text: string): JsonObject | null {
  try {
    return asObject(JSON.parse(text))
  } catch {
    return null
  }
}

/** In JSON, line breaks occur only between values. */
export const toOneLine = (json: string) => json.trim().replace(/[\r\n]+/g, ' ')

/** Removes a byte order mark. */
const toText = (text: string) => (text.startsWith('\uFEFF') ? text.slice(1) : text)

class InputReader {
  isOver = false
  readonly #ids = new Set<string>()
  #kept: Buffer[] = []
  #keptBytes = 0
  #at = 0
  /** Line number in the file, from 1. */
  #line = 0
  #models: string | null | undefined

  constructor(
    private readonly input: Input,
    private readonly path: string,
  ) {}

  take(chunk: Buffer): void {
    let from = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1 && !this.isOver; end = chunk.indexOf(NEWLINE, from)) {
      this.#keep(chunk.subarray(from, end))
      this.#check()
      this.#at++
      from = end + 1
    }
    if (!this.isOver) this.#keep(chunk.subarray(from))
  }

  end(): void {
    if (!this.isOver) this.#check()
    const { input } = this
    input.model = this.#models ?? null
    if (input.starts.length === 0 && input.problems.length === 0)
      this.#fail('empty_file', 'The input file has no lines.', null, null)
  }

  #keep(piece: Buffer): void {
    this.#kept.push(piece)
    this.#keptBytes += piece.length
    if (this.#keptBytes <= MAX_LINE_BYTES) return
    this.#line++
    this.#fail('line_too_long', `The line is longer than ${MAX_LINE_BYTES} bytes.`, null)
    this.isOver = true
  }

  #check(): void {
    this.#line++
    const start = this.#at
    const end = start + this.#keptBytes
    const bytes = this.#kept.length === 1 ? this.#kept[0] : Buffer.concat(this.#kept)
    this.#kept = []
    this.#keptBytes = 0
    this.#at = end
    const text = bytes === undefined ? '' : toText(bytes.toString())
    if (text.trim() === '') return
    if (this.input.starts.length === MAX_LINES) {
      this.#fail('too_many_lines', `The input file has more than ${MAX_LINES} lines.`, null, null)
      this.isOver = true
      return
    }
    const number = this.input.starts.length
    this.input.starts.push(start)
    this.input.ends.push(end)
    this.#checkLine(number, text)
  }

  #checkLine(number: number, text: string): void {
    const excess = new JsonScan(BODY_LIMITS).take(text)
    const json = excess === null ? toObject(text) : null
    const customId = json?.custom_id
    if (json === null) this.#fail('invalid_json_line', toInvalid(excess), null)
    else if (typeof customId !== 'string' || customId === '' || customId.length > MAX_ID_CHARS) {
      const message = `'custom_id' must be a text of 1 to ${MAX_ID_CHARS} characters.`
      this.#fail('invalid_custom_id', message, 'custom_id')
    } else if (this.#ids.has(customId)) {
      this.#fail('duplicate_custom_id', `'custom_id' is that of an earlier line.`, 'custom_id')
    } else this.#take(number, customId, json)
  }

  #take(number: number, customId: string, json: JsonObject): void {
    this.#ids.add(customId)
    const model = asObject(json.body)?.model
    if (this.#models === undefined) this.#models = typeof model === 'string' ? model : null
    else if (this.#models !== model) this.#models = null
    const error = toLineError(json, this.path)
    if (error) this.input.wrong.push({ number, customId, error })
  }

  #fail(code: string, message: string, param: string | null, line: number | null = this.#line): void {
    this.input.problems.push({ code, message, param, line })
    if (this.input.problems.length >= MAX_PROBLEMS) this.isOver = true
  }
}

const toInvalid = (excess: string | null) =>
  excess === null ? 'The line is not a JSON object.' : `The line has too much JSON: more ${excess} than allowed.`

function toLineError({ method, url, body }: JsonObject, path: string): LineError | null {
  const invalid = (message: string): LineError => ({ code: 'invalid_request', message })
  if (method !== 'POST') return invalid(`'method' must be "POST".`)
  if (url !== path) return invalid(`'url' must be the batch's endpoint, "${path}".`)
  const json = asObject(body)
  if (json === null) return invalid(`'body' must be an object.`)
  if (json.stream === true) return invalid(`'body.stream' is not supported in a batch.`)
  return null
}
