/**
 * Which lines of a batch were sent, and which have a result. Results are appended to the output and error files, then noted in a log.
 * A kill therefore neither loses nor repeats a result:
 *
 *     b <line> <request ID>                  about to be sent
 *     d <line> o|e <size of its file> <usage>  has a result
 */
import { readFile } from 'node:fs/promises'
import {
  addBatchUsage,
  type BatchCounts,
  type BatchDetail,
  type BatchLine,
  type BatchUsage,
  CUT_CODES,
  type LineError,
  type LineResult,
  NO_BATCH_USAGE,
} from '../domain/batches.ts'
import { messageOf } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import { asObject, tryJson } from '../domain/json.ts'
import type { Log } from '../log.ts'
import type { Contents } from './contents.ts'
import { toOneLine } from './input.ts'
import type { BegunLine } from './runner.ts'

type Which = 'o' | 'e'
type Names = Record<Which, string>

interface Waiting {
  line: Pick<BatchLine, 'number' | 'customId'>
  result: LineResult | LineError
  resolve(isFirst: boolean): void
  reject(error: unknown): void
}

interface ProgressDeps {
  contents: Contents
  log: Log
  now(): number
  sleep(ms: number): Promise<unknown>
}

/** Retry interval while the disk is full. */
const AGAIN_MS = 2_000
/** Results per write. */
const MAX_BATCH = 500

const isResult = (result: LineResult | LineError): result is LineResult => 'status' in result
const isGood = (result: LineResult | LineError) => isResult(result) && result.status >= 200 && result.status < 300

export const toLogName = (batchId: string) => `${batchId}.log`

export class Progress {
  counts: BatchCounts
  usage: BatchUsage = NO_BATCH_USAGE
  readonly #done: Uint8Array
  /** Request IDs of lines without a result. */
  readonly #begun = new Map<number, string>()
  readonly #sizes: Record<Which, number> = { o: 0, e: 0 }
  #logSize = 0
  #writing: Promise<unknown> = Promise.resolve()
  #waiting: Waiting[] = []
  #isClosed = false

  private constructor(
    private readonly deps: ProgressDeps,
    private readonly names: Names,
    private readonly logName: string,
    total: number,
  ) {
    this.counts = { total, completed: 0, failed: 0, cut: 0 }
    this.#done = new Uint8Array(total)
  }

  static async open(
    deps: ProgressDeps,
    batch: { id: string; detail: Pick<BatchDetail, 'outputFileId' | 'errorFileId'> },
    total: number,
  ): Promise<Progress> {
    const { outputFileId, errorFileId } = batch.detail
    const progress = new Progress(deps, { o: outputFileId, e: errorFileId }, toLogName(batch.id), total)
    await progress.#recover()
    return progress
  }

  /** Size of both files. */
  get bytes(): number {
    return this.#sizes.o + this.#sizes.e
  }

  hasAny(which: 'output' | 'errors'): boolean {
    return this.#sizes[which === 'output' ? 'o' : 'e'] > 0
  }

  pending(): number[] {
    const pending: number[] = []
    for (let number = 0; number < this.#done.length; number++) if (this.#done[number] === 0) pending.push(number)
    return pending
  }

  requestIdOf(number: number): string | null {
    return this.#begun.get(number) ?? null
  }

  begin(lines: readonly BegunLine[]): Promise<void> {
    return this.#inTurn(async () => {
      await this.#note(lines.map(({ number, requestId }) => `b ${number} ${requestId}\n`).join(''), true)
      for (const { number, requestId } of lines) this.#begun.set(number, requestId)
    })
  }

  done(line: Pick<BatchLine, 'number' | 'customId'>, result: LineResult | LineError): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    this.#waiting.push({ line, result, resolve, reject })
    if (this.#waiting.length === 1) void this.#inTurn(() => this.#writeWaiting())
    return promise
  }

  /** Resolves after the current write. Failed writes are no longer retried. */
  close(): Promise<unknown> {
    this.#isClosed = true
    return this.#writing
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#writing.then(work)
    this.#writing = done.catch(() => {})
    return done
  }

  async #writeWaiting(): Promise<void> {
    while (this.#waiting.length > 0) {
      const some = this.#waiting.splice(0, MAX_BATCH)
      // Further results may arrive during a write.
      try {
        const isFirst = await this.#write(some)
        for (const [at, { resolve }] of some.entries()) resolve(isFirst[at] ?? false)
      } catch (error) {
        for (const { reject } of some) reject(error)
      }
    }
  }

  async #write(some: readonly Waiting[]): Promise<boolean[]> {
    const texts: Record<Which, string[]> = { o: [], e: [] }
    const ends = { ...this.#sizes }
    let notes = ''
    const isFirst = some.map(({ line: { number, customId }, result }) => {
      if (this.#done[number] !== 0) return false
      this.#done[number] = 1
      const which = isGood(result) ? 'o' : 'e'
      const text = toOutputLine(customId, result, mintId(this.deps.now()))
      texts[which].push(text)
      ends[which] += Buffer.byteLength(text)
      const usage = isResult(result) ? result.usage : NO_BATCH_USAGE
      const isCut = !isResult(result) && CUT_CODES.has(result.code)
      this.#count(which, usage, isCut)
      this.#begun.delete(number)
      const { input, cached, output, reasoning } = usage
      const end = isCut ? ' c' : ''
      notes += `d ${number} ${which} ${ends[which]} ${input} ${cached} ${output} ${reasoning}${end}\n`
      return true
    })
    for (const which of ['o', 'e'] as const) {
      if (texts[which].length === 0) continue
      const text = texts[which].join('')
      this.#sizes[which] = await this.#untilWritten(() =>
        this.deps.contents.append(this.names[which], text, this.#sizes[which]),
      )
    }
    await this.#note(notes)
    return isFirst
  }

  #count(which: Which, usage: BatchUsage, isCut: boolean): void {
    if (which === 'o') this.counts.completed++
    else this.counts.failed++
    if (isCut) this.counts.cut++
    this.usage = addBatchUsage(this.usage, usage)
  }

  async #note(text: string, isSynced = false): Promise<void> {
    if (text === '') return
    const { contents } = this.deps
    this.#logSize = await this.#untilWritten(() => contents.append(this.logName, text, this.#logSize, isSynced))
  }

  /** Retries until there is disk space or the server stops, so that charged results aren't lost. */
  async #untilWritten<T>(write: () => Promise<T>): Promise<T> {
    for (let failures = 0; ; failures++) {
      try {
        return await write()
      } catch (error) {
        if (failures === 0)
          this.deps.log.error('batch_unwritable', "can't write results of a batch; trying again", {
            error: messageOf(error),
          })
        if (this.#isClosed) throw error
      }
      await this.deps.sleep(AGAIN_MS)
    }
  }

  async #recover(): Promise<void> {
    const { contents } = this.deps
    if (contents.exists(this.logName)) {
      const text = await readFile(contents.path(this.logName), 'latin1')
      this.#logSize = text.lastIndexOf('\n') + 1
      await contents.cut(this.logName, this.#logSize)
      const found = { o: contents.size(this.names.o), e: contents.size(this.names.e) }
      const notes = text.slice(0, this.#logSize).split(/(?<=\n)/)
      const kept = notes.filter((note) => this.#apply(note.trim().split(' '), found))
      if (kept.length < notes.length) {
        const rest = Buffer.from(kept.join(''))
        await contents.put(this.logName, rest)
        this.#logSize = rest.length
      }
    }
    for (const which of ['o', 'e'] as const) await this.#recoverTail(which)
  }

  /** False if a power cut kept the note but lost the result. */
  #apply([kind, number, ...rest]: string[], found: Record<Which, number>): boolean {
    const line = Number(number)
    if (kind === 'b') this.#begun.set(line, rest[0] ?? '')
    if (kind !== 'd' || this.#done[line] !== 0) return true
    const [which, size, input, cached, output, reasoning, cut] = rest
    if (which !== 'o' && which !== 'e') return true
    if (Number(size) > found[which]) return false
    this.#done[line] = 1
    this.#begun.delete(line)
    this.#sizes[which] = Number(size)
    const usage = { input: Number(input), cached: Number(cached), output: Number(output), reasoning: Number(reasoning) }
    this.#count(which, usage, cut === 'c')
    return true
  }

  /** Recovers results that were written but not noted. */
  async #recoverTail(which: Which): Promise<void> {
    const { contents } = this.deps
    const name = this.names[which]
    const size = contents.size(name)
    const tail = size > this.#sizes[which] ? await contents.read(name, this.#sizes[which], size) : ''
    const whole = tail.slice(0, tail.lastIndexOf('\n') + 1)
    const begun = new Map([...this.#begun].map(([number, requestId]) => [toRequestId(requestId), number]))
    let isKnown = true
    let notes = ''
    for (const text of whole.split('\n')) {
      if (text === '' || !isKnown) continue
      const requestId = asObject(asObject(tryJson(text))?.response)?.request_id
      const number = begun.get(String(requestId))
      // Errors without a request can be written again.
      isKnown = number !== undefined && this.#done[number] === 0
      if (number === undefined || !isKnown) continue
      this.#done[number] = 1
      this.#begun.delete(number)
      this.#sizes[which] += Buffer.byteLength(text) + 1
      this.#count(which, NO_BATCH_USAGE, false)
      notes += `d ${number} ${which} ${this.#sizes[which]} 0 0 0 0\n`
    }
    await contents.cut(name, this.#sizes[which])
    await this.#note(notes)
  }
}

function toOutputLine(customId: string, result: LineResult | LineError, id: string): string {
  const names = `"id":"batch_req_${id}","custom_id":${JSON.stringify(customId)}`
  if (!isResult(result)) return `{${names},"response":null,"error":${JSON.stringify(result)}}\n`
  const { status, requestId, body } = result
  const request = JSON.stringify(requestId && toRequestId(requestId))
  const response = `{"status_code":${status},"request_id":${request},"body":${toOneLine(body)}}`
  return `{${names},"response":${response},"error":null}\n`
}
