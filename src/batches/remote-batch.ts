/** One batch at an upstream: submitted once, polled, and read to its end. */
import { type BatchLine, NO_BATCH_USAGE } from '../domain/batches.ts'
import { GatewayError, UpstreamError } from '../domain/error.ts'
import { timeOfId } from '../domain/id.ts'
import { NO_LIMITS } from '../domain/limits.ts'
import type { Snapshot, Target } from '../domain/snapshot.ts'
import type { Format } from '../formats/format.ts'
import { readLine, settleBatchLine, type UpstreamLine } from '../gateway/batch-line.ts'
import { toGatewayError } from '../gateway/delivery.ts'
import { BatchApi, broken } from '../upstreams/batches/api.ts'
import { type BatchProtocol, type BatchState, batchesOf, type LineResult } from '../upstreams/batches/protocol.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import type { BatchWork } from './runner.ts'
import type { UpstreamLinesDeps } from './upstream-lines.ts'

/** Shortest interval between polls of a batch. */
const LOOK_MS = 15_000
/** Polling interval after `OFTEN_FOR_MS`. */
const RARELY_MS = 60_000
const OFTEN_FOR_MS = 10 * 60_000
const AGAIN_MS = 5_000
const MAX_AGAIN_MS = 5 * 60_000
/** How long an upstream may take to end a canceled batch. */
const GIVE_UP_MS = 2 * 60 * 60_000
/** How long a submission without a response may take to arrive. */
const ARRIVAL_MS = 10_000
/** How often the clock is checked. */
const TICK_MS = 250
/** Results settled at once. */
const GROUP = 32

const LOST = {
  code: 'lost',
  message:
    "The provider's result of this line can't be read. It may have been charged, so it wasn't sent again, and counts as what it reserved.",
}

/** Whether the status says that the upstream rejected the request for good. */
const isFinal = (error: unknown): error is UpstreamError =>
  error instanceof UpstreamError && error.kind === 'status' && !error.retryable && (error.status ?? 500) < 500

/** What is stored of a submission before it is sent. */
export interface Remote {
  tag: string
  /** The upstream's ID; null until the upstream has confirmed the batch. */
  id: string | null
  model: string
  upstream: string
  upstreamModel: string
  /** Number of the credential whose account has the batch. */
  credential: number
  path: string
  sinceMs: number
  lines: number
  /** Maximum cost of the lines, if there is a budget. */
  nanoUsd: number
  teamId: string | null
  quotaId: string
  /** Numbers of the lines that the gateway runs. */
  left: number[]
}

type EndedState = Extract<BatchState, { phase: 'ended' }>

interface Connected {
  protocol: BatchProtocol
  api: BatchApi
  target: Target
}

export class RemoteBatch {
  spentNanoUsd = 0
  #isAsked = false
  #isWarned = false
  #lookedMs = Number.NEGATIVE_INFINITY

  /**
   * @param taken IDs of batches in progress, at any upstream.
   * @param isNew whether this run planned the batch, so that it can't have been sent.
   */
  constructor(
    private readonly deps: UpstreamLinesDeps,
    private readonly taken: Set<string>,
    private readonly work: BatchWork,
    private remote: Remote,
    private readonly isOwn: (number: number) => boolean,
    private readonly isNew: boolean,
  ) {
    if (remote.id !== null) taken.add(remote.id)
  }

  /** Polls the upstream soon, but at most once per `LOOK_MS`. */
  look(): void {
    this.#isAsked = true
  }

  get #isStopped(): boolean {
    return this.work.stopping.aborted
  }

  async run(): Promise<void> {
    try {
      const id = this.remote.id ?? (await this.#submit())
      if (id !== null && !this.#isStopped) await this.#follow(id)
    } finally {
      if (this.remote.id !== null) this.taken.delete(this.remote.id)
    }
  }

  #pending(): number[] {
    return this.work.pending().filter(this.isOwn)
  }

  /** Null while the upstream is not in the catalog or not ready. */
  async #connect(): Promise<Connected | null> {
    const { gateway } = this.deps
    const target = targetOf(gateway.live.snapshot, this.remote)
    if (target === null || target.upstream.notReady !== null) return null
    const protocol = await batchesOf(target.upstream.dialect)
    const format = await dialectOf(target.upstream).load?.()
    if (!protocol || !format) return null
    const used = target.upstream.each?.find(({ credentialNumber }) => credentialNumber === this.remote.credential)
    const own = used ? { ...target, upstream: used } : target
    const api = new BatchApi({ format, target: own, hops: gateway.instance, signal: this.work.stopping })
    return { protocol, api, target: own }
  }

  /** Returns the upstream's ID; null if the batch was rejected or may not be sent anymore. */
  async #submit(): Promise<string | null> {
    // An earlier server may have sent it.
    const { now } = this.deps.gateway
    let isSent = !this.isNew
    let sendAtMs = isSent ? now() + ARRIVAL_MS : Number.NEGATIVE_INFINITY
    for (let waitMs = AGAIN_MS; !this.#isStopped; waitMs = Math.min(MAX_AGAIN_MS, waitMs * 2)) {
      const isEnding = this.work.ending.aborted
      try {
        const at = await this.#connect()
        const found = at && isSent ? await this.#find(at) : null
        const isOver = this.work.ending.aborted
        const id = found ?? (at && !isOver && now() >= sendAtMs ? await this.#send(at) : null)
        if (id !== null) return await this.#confirm(id)
        if (isOver) return null
      } catch (error) {
        if (isFinal(error)) {
          await this.#refuse(error)
          return null
        }
        if (!(error instanceof UpstreamError)) throw error
        isSent ||= error.status !== 429
        if (isSent) sendAtMs = now() + ARRIVAL_MS
        this.#warn('submit', error)
      }
      await this.#wait(waitMs, isEnding)
    }
    return null
  }

  #find({ protocol, api }: Connected): Promise<string | null> {
    const { tag, lines, sinceMs } = this.remote
    return protocol.find(api, { tag, lines, sinceMs, isTaken: (id) => this.taken.has(id) })
  }

  async #send({ protocol, api, target }: Connected): Promise<string | null> {
    const { tag, path } = this.remote
    const lines: { number: number; body: string }[] = []
    for (const number of this.#pending()) {
      const line = await this.#read(await this.work.read(number), target)
      if (line) lines.push({ number, body: line.wire.body })
    }
    return lines.length === 0 ? null : protocol.submit(api, { tag, path, lines })
  }

  async #confirm(id: string): Promise<string> {
    this.taken.add(id)
    this.remote = { ...this.remote, id }
    await this.work.setRemote({ ...this.remote })
    const { batch } = this.work
    const { upstream, lines } = this.remote
    this.deps.log.info('batch_submitted', 'batch submitted to its upstream', { batch: batch.id, upstream, lines })
    return id
  }

  /** For a rejected batch, whose lines cost nothing. */
  async #refuse(cause: UpstreamError): Promise<void> {
    cause.upstream ??= this.remote.upstream
    const refused = toRefused(await this.deps.formatOf(this.work.batch.endpoint), toGatewayError(cause))
    for (const number of this.#pending()) await this.work.done(await this.work.read(number), refused)
  }

  async #follow(id: string): Promise<void> {
    const { now } = this.deps.gateway
    let isCancelled = false
    let endMs = Number.POSITIVE_INFINITY
    for (let failures = 0; !this.#isStopped; ) {
      const isEnding = this.work.ending.aborted
      if (isEnding) endMs = Math.min(endMs, now() + GIVE_UP_MS)
      try {
        const at = await this.#connect()
        if (at) {
          if (isEnding && !isCancelled) isCancelled = await this.#cancel(at, id)
          this.#lookedMs = now()
          const state = await at.protocol.look(at.api, id)
          if (state.phase === 'ended') return await this.#collect(at, state, failures < MAX_MISSING)
        }
        failures = 0
        this.#isWarned = false
      } catch (error) {
        if (this.#isStopped) return
        if (!(error instanceof UpstreamError)) throw error
        this.#warn('read', error)
        failures++
        // Someone removed the batch at the upstream.
        if (isFinal(error) && error.status === 404 && failures >= MAX_MISSING) return this.#lose()
      }
      if (now() >= endMs) return this.#lose()
      await this.#wait(now() - this.remote.sinceMs < OFTEN_FOR_MS ? LOOK_MS : RARELY_MS, isEnding)
    }
  }

  /** True if no further attempt is needed: the batch is canceled or may have ended. */
  async #cancel({ protocol, api }: Connected, id: string): Promise<boolean> {
    try {
      await protocol.cancel(api, id)
      return true
    } catch (error) {
      return isFinal(error)
    }
  }

  /** @param mayWait whether missing results may still arrive, although the upstream has counted them. */
  async #collect({ protocol, api, target }: Connected, state: EndedState, mayWait: boolean): Promise<void> {
    const { tag, lines } = this.remote
    const before = this.#pending()
    const open = new Set(before)
    let results = 0
    for (const source of state.sources) {
      let group: LineResult[] = []
      for await (const result of protocol.results(api, source, tag)) {
        results++
        if (!open.delete(result.number)) continue
        if (group.push(result) < GROUP) continue
        await this.#takeAll(group, target)
        group = []
        if (this.#isStopped) return
      }
      await this.#takeAll(group, target)
    }
    // The file has none of our results: it belongs to another batch.
    if (state.sources.length > 0 && open.size === before.length && before.length === lines) return this.#lose()
    if (results < state.results && mayWait) throw broken('returned fewer results than it counted')
    for (const number of open) await this.work.done(await this.work.read(number), state.missing)
  }

  async #takeAll(group: readonly LineResult[], target: Target): Promise<void> {
    await Promise.all(group.map((result) => this.#take(result, target)))
  }

  async #take({ number, outcome }: LineResult, target: Target): Promise<void> {
    const line = await this.work.read(number)
    if (outcome.kind === 'unanswered') {
      const { code, message } = outcome
      await this.work.done(line, { code, message })
    } else await this.#settle(line, target, outcome)
  }

  async #lose(): Promise<void> {
    const target = (await this.#connect())?.target ?? null
    for (const number of this.#pending()) {
      const line = await this.work.read(number)
      if (target) await this.#settle(line, target, { kind: 'lost' })
      else await this.work.done(line, LOST)
    }
  }

  async #settle(
    line: BatchLine,
    target: Target,
    outcome: Parameters<typeof settleBatchLine>[1]['outcome'],
  ): Promise<void> {
    const { gateway, formatOf, isSettled } = this.deps
    const { batch } = this.work
    const requestId = this.work.requestIdOf(line.number)
    const read = await this.#read(line, target)
    if (requestId === null || read === null) return void (await this.work.done(line, LOST))
    const { model, teamId, quotaId } = this.remote
    const settlement = {
      ...{ format: await formatOf(batch.endpoint), line: read, outcome, model, isSettled: isSettled(requestId) },
      key: { quotaId, limits: NO_LIMITS },
      row: { id: requestId, instance: gateway.instance, keyId: batch.keyId, teamId, createdMs: timeOfId(requestId) },
      credential: target.upstream.credentials.length > 1 ? target.upstream.credentialNumber : null,
    }
    for (;;) {
      try {
        const settled = await settleBatchLine(gateway, settlement)
        if (!settlement.isSettled) this.spentNanoUsd += settled.receipt.costNanoUsd
        const { status, body, receipt } = settled
        const { prompt, cacheRead, completion, reasoning } = receipt.usage
        const usage = { input: prompt, cached: cacheRead, output: completion, reasoning }
        return void (await this.work.done(line, body === null ? LOST : { status, body, requestId, usage }))
      } catch (error) {
        if (!(error instanceof GatewayError) || error.kind !== 'ledger_unavailable') throw error
        if (this.#isStopped) throw error
        await this.#wait(AGAIN_MS)
      }
    }
  }

  async #read({ body }: BatchLine, target: Target): Promise<UpstreamLine | null> {
    const { gateway, formatOf } = this.deps
    const facts = gateway.live.snapshot.models.get(this.remote.model)?.facts
    if (facts === undefined) return null
    const format = await formatOf(this.work.batch.endpoint)
    const line = await readLine({ format, body, facts, target })
    return line instanceof GatewayError ? null : line
  }

  /** Ends after `ms`, or earlier if a client asks (at most once per `LOOK_MS`), the batch begins to end, or the server stops. */
  async #wait(ms: number, wasEnding = this.work.ending.aborted): Promise<void> {
    const { now } = this.deps.gateway
    const untilMs = now() + ms
    this.#isAsked = false
    while (!this.#isStopped && this.work.ending.aborted === wasEnding) {
      if (now() >= untilMs || (this.#isAsked && now() >= this.#lookedMs + LOOK_MS)) return
      await this.deps.sleep(TICK_MS)
    }
  }

  #warn(what: 'submit' | 'read', error: UpstreamError): void {
    if (this.#isWarned) return
    this.#isWarned = true
    const { batch } = this.work
    this.deps.log.warn('batch_waiting', `can't ${what} a batch at its upstream; trying again`, {
      ...{ batch: batch.id, upstream: this.remote.upstream, reason: error.status ?? error.kind },
    })
  }
}

const MAX_MISSING = 5

export const toRefused = (format: Format, error: GatewayError) => ({
  ...{ status: format.status?.(error) ?? error.status, body: JSON.stringify(format.error(error)), requestId: null },
  usage: NO_BATCH_USAGE,
})

const targetOf = ({ models }: Snapshot, remote: Remote): Target | null =>
  models
    .get(remote.model)
    ?.targets.find(
      ({ upstream: { id }, upstreamModel }) => id === remote.upstream && upstreamModel === remote.upstreamModel,
    ) ?? null
