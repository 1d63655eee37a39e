/**
 * Lines of a batch that an upstream runs in its own batch, at its batch price. The maximum cost of all of them is reserved from submission
 * to the end, also across restarts. Each line is settled once, when its result is read.
 */
import type { BatchEndpoint, StoredBatch } from '../domain/batches.ts'
import { type Decision, GatewayError } from '../domain/error.ts'
import { mintId, mintTag } from '../domain/id.ts'
import { asObject, type JsonObject } from '../domain/json.ts'
import { NO_LIMITS } from '../domain/limits.ts'
import type { Key, Target } from '../domain/snapshot.ts'
import type { Format } from '../formats/format.ts'
import { findBatchTarget, prepareLine } from '../gateway/batch-line.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import type { Reservation } from '../limits/limiter.ts'
import type { Log } from '../log.ts'
import { teamOf } from '../routing/access.ts'
import { type BatchProtocol, batchesOf } from '../upstreams/batches/protocol.ts'
import { type Remote, RemoteBatch, toRefused } from './remote-batch.ts'
import type { BatchWork, ChooseRunner, LineRunner } from './runner.ts'

export interface UpstreamLinesDeps {
  gateway: Pick<
    HandleDeps,
    'live' | 'limiter' | 'ledger' | 'counter' | 'health' | 'onFinished' | 'instance' | 'now' | 'monotonicMs'
  >
  gatewayLines: LineRunner
  formatOf(endpoint: BatchEndpoint): Promise<Format>
  /** Whether the ledger has a row for the request. */
  isSettled(requestId: string): boolean
  log: Log
  sleep(ms: number): Promise<unknown>
}

interface Planned {
  remote: Remote
  /** Null without a key; an error if the budgets are already spent. */
  held: Decision<Reservation> | null
  isNew: boolean
}

/** Memory for one batch, in bytes. */
const MAX_BYTES = 128 * 1024 * 1024

export function createUpstreamLines(deps: UpstreamLinesDeps): ChooseRunner {
  /** IDs at upstreams of batches in progress. */
  const taken = new Set<string>()
  const find = ({ detail }: StoredBatch, key: Key | null) =>
    detail.model === null || key === null ? null : findBatchTarget(deps.gateway.live.snapshot, key, detail.model)
  return (batch, key) => {
    const remote = toRemote(batch.detail.remote)
    const target = remote ? null : find(batch, key)
    return remote || target ? new UpstreamLines(deps, taken) : null
  }
}

class UpstreamLines implements LineRunner {
  #remote: RemoteBatch | null = null

  constructor(
    private readonly deps: UpstreamLinesDeps,
    private readonly taken: Set<string>,
  ) {}

  look(): void {
    this.#remote?.look()
  }

  async run(work: BatchWork): Promise<void> {
    const submitted = toRemote(work.batch.detail.remote)
    const planned = submitted
      ? { remote: submitted, held: await this.#hold(work, submitted, false), isNew: false }
      : await this.#plan(work)
    if (planned === null) return this.deps.gatewayLines.run(work)
    const left = new Set(planned.remote.left)
    const own = this.#runRemote(work, planned, (number) => !left.has(number))
    if (left.size === 0) return own
    // Waits for both, even if one fails: the next try begins with what both recorded.
    const both = await Promise.allSettled([own, this.deps.gatewayLines.run(onlyThese(work, left))])
    for (const one of both) if (one.status === 'rejected') throw one.reason
  }

  async #runRemote(
    work: BatchWork,
    { remote, held, isNew }: Planned,
    isOwn: (number: number) => boolean,
  ): Promise<void> {
    const batch = new RemoteBatch(this.deps, this.taken, work, remote, isOwn, isNew)
    this.#remote = batch
    try {
      await batch.run()
    } finally {
      this.#remote = null
      if (!(held instanceof GatewayError)) held?.settle({ tokens: 0, nanoUsd: batch.spentNanoUsd })
    }
  }

  /** Checks all lines, and decides which of them go to the upstream. Null if none does. */
  async #plan(work: BatchWork): Promise<Planned | null> {
    const { gateway, formatOf } = this.deps
    const { snapshot } = gateway.live
    const { batch } = work
    const key = work.key()
    const target = key && batch.detail.model ? findBatchTarget(snapshot, key, batch.detail.model) : null
    const model = target && snapshot.models.get(target.model)
    const protocol = target && (await batchesOf(target.upstream.dialect))
    if (!key || !target || !model || !protocol) return null
    const format = await formatOf(batch.endpoint)
    const plan = new Plan(protocol)
    for (const number of work.pending()) {
      const begun = work.requestIdOf(number)
      // The gateway may have sent the line before a restart, when the model had no batch price.
      if (begun !== null && this.deps.isSettled(begun)) {
        plan.add(number, null)
        continue
      }
      const line = await work.read(number)
      const asked = { format, body: line.body, facts: model.facts, target, snapshot, key }
      const prepared = await prepareLine(gateway, asked)
      if (!(prepared instanceof GatewayError)) plan.add(number, prepared)
      // A retry may succeed, so the gateway runs the line.
      else if (prepared.status >= 500 || prepared.status === 429) plan.add(number, null)
      else await work.done(line, toRefused(format, prepared))
    }
    if (plan.numbers.length === 0 || plan.path === null) return null
    const credential = this.#credentialOf(target, key, batch.id)
    const remote: Remote = {
      ...{ tag: mintTag(), id: null, path: plan.path, sinceMs: gateway.now(), lines: plan.numbers.length },
      ...{ model: target.model, upstream: target.upstream.id, upstreamModel: target.upstreamModel, credential },
      ...{ nanoUsd: plan.nanoUsd, teamId: key.teamId, quotaId: key.quotaId, left: plan.left },
    }
    const held = await this.#hold(work, remote, true)
    if (held instanceof GatewayError) {
      const refused = toRefused(format, held)
      for (const number of plan.numbers) await work.done(await work.read(number), refused)
      return null
    }
    try {
      await work.begin(plan.numbers.map((number) => ({ number, requestId: mintId(remote.sinceMs) })))
      await work.setRemote({ ...remote })
    } catch (error) {
      held?.cancel()
      throw error
    }
    return { remote, held, isNew: true }
  }

  #credentialOf(target: Target, key: Key, batchId: string): number {
    const { each, credentialNumber } = target.upstream
    const chosen = each && this.deps.gateway.health.forRequest(key).withCredential(target, each, batchId, new Set())
    return chosen?.credentialNumber ?? credentialNumber
  }

  /** @param mayRefuse false: reserves for a submitted batch even beyond the budgets. */
  async #hold(work: BatchWork, { nanoUsd }: Remote, mayRefuse: boolean): Promise<Planned['held']> {
    const { limiter, now, monotonicMs, live } = this.deps.gateway
    const key = work.key()
    if (key === null) return null
    const team = teamOf(live.snapshot, key)
    const [ofKey, ofTeam] = [{ ...key, limits: NO_LIMITS }, team && { ...team, limits: NO_LIMITS }]
    const moment = { monotonicMs: monotonicMs(), wallMs: now() }
    const entered = await limiter.enter(work.batch.id, ofKey, ofTeam, moment.monotonicMs)
    if (entered instanceof GatewayError) return entered
    const counted = { likelyNanoUsd: 0, mostNanoUsd: nanoUsd, reservedNanoUsd: nanoUsd }
    const counting = { leastNanoUsd: () => 0, count: async () => counted }
    return entered.admit(mayRefuse ? { tokens: 0, nanoUsd } : { tokens: 0, nanoUsd, counting }, moment)
  }
}

/** Selects the lines that fit into one batch of the upstream: same path, within its limits. */
class Plan {
  readonly numbers: number[] = []
  readonly left: number[] = []
  path: string | null = null
  nanoUsd = 0
  #bytes = 0

  constructor(private readonly protocol: Pick<BatchProtocol, 'maxLines' | 'maxBytes'>) {}

  add(number: number, line: { wire: { path: string; body: string }; mostNanoUsd: number } | null): void {
    const { maxLines, maxBytes } = this.protocol
    const bytes = line ? Buffer.byteLength(line.wire.body) + LINE_BYTES : 0
    const isFull = this.numbers.length === maxLines || this.#bytes + bytes > Math.min(maxBytes, MAX_BYTES)
    if (line === null || isFull || (this.path !== null && this.path !== line.wire.path)) {
      this.left.push(number)
      return
    }
    this.path = line.wire.path
    this.#bytes += bytes
    this.nanoUsd += line.mostNanoUsd
    this.numbers.push(number)
  }
}

/** JSON around each request. */
const LINE_BYTES = 128

/** A view of the batch with only these lines. */
const onlyThese = (work: BatchWork, numbers: ReadonlySet<number>): BatchWork => ({
  get batch() {
    return work.batch
  },
  ending: work.ending,
  stopping: work.stopping,
  key: () => work.key(),
  pending: () => work.pending().filter((number) => numbers.has(number)),
  read: (number) => work.read(number),
  bytes: () => work.bytes(),
  begin: (lines) => work.begin(lines),
  requestIdOf: (number) => work.requestIdOf(number),
  done: (line, result) => work.done(line, result),
  setRemote: (remote) => work.setRemote(remote),
})

/** Reads what `setRemote` stored. */
const toRemote = (stored: JsonObject | null): Remote | null =>
  asObject(stored)?.tag ? (stored as unknown as Remote) : null
