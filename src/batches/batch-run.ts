/** One batch, from its checks to its end. After a stop or kill, the next server continues it. */
import { type BatchState, isFinal, type LineError, type StoredBatch, type StoredFile } from '../domain/batches.ts'
import type { Key } from '../domain/snapshot.ts'
import { type Log, traceOf } from '../log.ts'
import type { BatchStore } from '../store/batch-store.ts'
import type { Contents } from './contents.ts'
import { endLines } from './gateway-lines.ts'
import { type Input, readInput, toLine } from './input.ts'
import { Progress, toLogName } from './progress.ts'
import type { BatchWork, ChooseRunner, EndingReason, LineRunner } from './runner.ts'

export interface RunDeps {
  store: BatchStore
  contents: Contents
  choose: ChooseRunner
  gatewayLines: LineRunner
  keyOf(id: string): Key | null
  inTurn<T>(owner: string, work: () => T): Promise<T>
  log: Log
  now(): number
  sleep(ms: number): Promise<unknown>
}

const AGAIN_MS = 5_000

const LEFT: Readonly<Record<Exclude<EndingReason, 'stopped'>, LineError>> = {
  cancelled: { code: 'batch_cancelled', message: 'This request was not sent, since the batch was canceled.' },
  expired: {
    code: 'batch_expired',
    message: 'This request could not be executed before the completion window expired.',
  },
}

export class BatchRun {
  runner: LineRunner | null = null
  #progress: Progress | null = null
  readonly #ending = new AbortController()
  readonly #stopping = new AbortController()
  #changing: Promise<void> = Promise.resolve()

  constructor(
    private readonly deps: RunDeps,
    private batch: StoredBatch,
  ) {
    if (batch.state === 'cancelling') this.end('cancelled')
  }

  /** With up-to-date counts. */
  get current(): StoredBatch {
    const { batch } = this
    const progress = this.#progress
    if (progress === null) return batch
    return { ...batch, detail: { ...batch.detail, counts: { ...progress.counts }, usage: progress.usage } }
  }

  /** The first reason counts. A server stop is noted in any case. */
  end(reason: EndingReason): void {
    if (reason === 'stopped') this.#stopping.abort()
    if (!this.#ending.signal.aborted) this.#ending.abort(reason)
  }

  async cancel(): Promise<void> {
    await this.#change((batch) =>
      batch.state === 'validating' || batch.state === 'in_progress'
        ? { ...this.#stamped(batch, 'cancelling'), state: 'cancelling' }
        : batch,
    )
    if (this.batch.state === 'cancelling') this.end('cancelled')
  }

  /** Called every second: checks the completion window and the key. */
  look(): void {
    const { now, keyOf } = this.deps
    if (this.batch.expiresMs <= now()) this.end('expired')
    else if (keyOf(this.batch.keyId) === null) this.end('cancelled')
  }

  /** Resolves once the batch has ended or the server stops. */
  async run(): Promise<void> {
    while (!isFinal(this.batch.state) && !this.#isStopped()) {
      try {
        await this.#runOnce()
      } catch (error) {
        if (this.#isStopped()) break
        this.deps.log.error('batch_failed', 'a batch is interrupted by an internal error; trying again', {
          ...{ batch: this.batch.id, error: traceOf(error) },
        })
        await this.deps.sleep(AGAIN_MS)
      }
      await this.#progress?.close()
    }
  }

  #isStopped(): boolean {
    return this.#stopping.signal.aborted
  }

  get #reason(): EndingReason | null {
    if (this.#isStopped()) return 'stopped'
    return this.#ending.signal.aborted ? this.#ending.signal.reason : null
  }

  async #runOnce(): Promise<void> {
    const { contents, store, inTurn } = this.deps
    const { inputFileId, keyId } = this.batch
    const owner = this.deps.keyOf(keyId)?.quotaId ?? keyId
    if (!store.hasFile(inputFileId) || !contents.exists(inputFileId)) return this.#fail(MISSING)
    const input = await readInput(contents.path(inputFileId), this.batch, (work) => inTurn(owner, work))
    if (input.problems.length > 0) return this.#fail(input.problems)
    const progress = await Progress.open(this.deps, this.batch, input.starts.length)
    this.#progress = progress
    await Promise.all(input.wrong.map(({ error, ...line }) => progress.done(line, error)))
    if (this.batch.state === 'validating') await this.#begin(input.model)
    const work = this.#toWork(input, progress)
    const key = work.key()
    // A batch at an upstream must be cancelled and settled, even if its key is gone.
    const isOpen = (key !== null && this.#reason === null) || this.batch.detail.remote !== null
    if (isOpen && progress.pending().length > 0) {
      this.runner = this.deps.choose(this.current, key) ?? this.deps.gatewayLines
      await this.runner.run(work)
    }
    this.look()
    const reason = this.#reason
    if (reason === 'stopped') return
    // The upstream has reported all lines of a batch that ended early.
    const isCut = reason !== null && this.batch.detail.remote !== null
    if (progress.pending().length > 0 || isCut) {
      if (reason === null) return void (await this.deps.sleep(AGAIN_MS))
      await this.#leave(work, progress, reason)
    }
    await this.#finish(progress)
  }

  /** Does nothing if the batch was canceled in between. */
  #begin(model: string | null): Promise<void> {
    return this.#change((batch) => {
      if (batch.state !== 'validating') return batch
      const { detail, ...stamped } = this.#stamped(batch, 'in_progress')
      return { ...stamped, state: 'in_progress', detail: { ...detail, model } }
    })
  }

  #toWork(input: Input, progress: Progress): BatchWork {
    const { contents, keyOf } = this.deps
    const toBatch = () => this.current
    return {
      get batch() {
        return toBatch()
      },
      key: () => keyOf(this.batch.keyId),
      pending: () => progress.pending(),
      read: async (number) => {
        const text = await contents.read(this.batch.inputFileId, input.starts[number] ?? 0, input.ends[number] ?? 0)
        return toLine(number, text)
      },
      bytes: () => progress.bytes,
      begin: (lines) => progress.begin(lines),
      requestIdOf: (number) => progress.requestIdOf(number),
      done: (line, result) => progress.done(line, result),
      setRemote: (remote) => this.#change((batch) => ({ ...batch, detail: { ...batch.detail, remote } })),
      ending: this.#ending.signal,
      stopping: this.#stopping.signal,
    }
  }

  async #leave(work: BatchWork, progress: Progress, reason: Exclude<EndingReason, 'stopped'>): Promise<void> {
    if (reason === 'cancelled') await this.cancel()
    // In case another server continues from here.
    if (reason === 'expired') await this.#change((batch) => this.#stamped(batch, 'expired'))
    await endLines(work, progress.pending(), LEFT[reason])
  }

  async #finish(progress: Progress): Promise<void> {
    const { store, contents, now } = this.deps
    const { at, keepOutputS, outputFileId, errorFileId } = this.batch.detail
    const final = at.cancelling ? 'cancelled' : at.expired ? 'expired' : 'completed'
    if (final === 'completed' && this.batch.state !== 'finalizing') await this.#enter('finalizing')
    const [hasOutput, hasErrors] = [progress.hasAny('output'), progress.hasAny('errors')]
    const add = async (id: string, filename: string) => {
      const { id: batchId, keyId, api } = this.batch
      const createdMs = now()
      const purpose = api === 'anthropic' ? 'hidden' : 'batch_output'
      const file: StoredFile = {
        ...{ id, keyId, purpose, filename: `${batchId}_${filename}.jsonl`, bytes: contents.size(id) },
        ...{ createdMs, expiresMs: createdMs + keepOutputS * 1_000 },
      }
      await store.addFile(file)
    }
    if (hasOutput) await add(outputFileId, 'output')
    if (hasErrors) await add(errorFileId, 'error')
    const { counts, usage } = progress
    await this.#enter(final, { hasOutput, hasErrors, counts, usage })
    contents.remove(toLogName(this.batch.id))
  }

  async #fail(problems: StoredBatch['detail']['problems']): Promise<void> {
    if (this.batch.state === 'cancelling') return this.#enter('cancelled')
    await this.#enter('failed', { problems })
  }

  async #enter(state: BatchState, more: Partial<StoredBatch['detail']> = {}): Promise<void> {
    await this.#change((batch) => {
      const { detail, ...stamped } = this.#stamped(batch, state)
      // The upstream's data may be long.
      const over = isFinal(state) ? { remote: null } : {}
      return { ...stamped, state, detail: { ...detail, ...over, ...more } }
    })
    if (!isFinal(state)) return
    const { id, keyId, endpoint } = this.batch
    const { total, completed, failed } = this.current.detail.counts
    this.deps.log.info('batch_ended', 'batch ended', {
      ...{ batch: id, key: keyId, endpoint, state, lines: total, completed, failed },
    })
  }

  #stamped(batch: StoredBatch, state: BatchState): StoredBatch {
    const { detail } = batch
    return { ...batch, detail: { ...detail, at: { [state]: this.deps.now(), ...detail.at } } }
  }

  /** One change at a time. */
  #change(toNext: (batch: StoredBatch) => StoredBatch): Promise<void> {
    const changed = this.#changing.then(async () => {
      const before = this.current
      const next = toNext(before)
      if (next === before) return
      await this.deps.store.putBatch(next)
      this.batch = next
    })
    this.#changing = changed.catch(() => {})
    return changed
  }
}

const MISSING = [
  {
    ...{ code: 'file_not_found', param: 'input_file_id', line: null },
    message: 'The input file is gone: it was deleted, has expired, or was not in a restored backup.',
  },
]
