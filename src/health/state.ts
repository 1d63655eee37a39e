/**
 * What is known of one upstream, and of each target (a model there): the one thing that is held against it, whether it can
 * be reached, and the breakers. `health.ts` tells it of calls that go well, `findings.ts` of what fails and of free probes;
 * the log has a line a change.
 */

import type { CatalogModel, Upstream } from '../domain/snapshot.ts'
import type { Log } from '../log.ts'
import type { CredentialFailure } from '../upstreams/failure.ts'
import type { Breaker } from './breaker.ts'
import { Credentials } from './credentials.ts'
import { MarkedKeys } from './marked-keys.ts'

export interface HealthDeps {
  /** A clock that never steps. */
  nowMs(): number
  /** Wall clock: for what people read. */
  wallMs(): number
  log?: Pick<Log, 'info' | 'warn'>
  /** An upstream could not be reached just now: the prober wants to know. */
  onUnreached?(upstream: Upstream): void
}

/**
 * Something held against an upstream or a target, until it passes by itself: `down` = it cannot be reached, and is not
 * called; the others have it come after those that are healthy. `paused` = its provider asked for that.
 */
interface Penalty {
  kind: 'down' | 'refused' | 'degraded' | 'paused'
  reason: string
  untilMs: number
  /** A call was refused: that `/models` answers does not disprove it. */
  isOfCall: boolean
}

/** Longer than the prober takes to come back to an upstream that is down: if it never does, calls find out. */
const DOWN_MS = 20_000
/** What was refused is tried again after this long: it may be repaired, and nobody would tell. No pause is longer either. */
export const PENALTY_MS = 60_000

/** What an upstream and a target have in common. */
abstract class Penalised {
  penalty: Penalty | null = null

  constructor(
    readonly deps: HealthDeps,
    /** What the log calls it. */
    readonly about: { upstream: string; model?: string },
  ) {}

  /** What is held against it now. */
  present(): Penalty | null {
    return this.penalty !== null && this.deps.nowMs() < this.penalty.untilMs ? this.penalty : null
  }

  hold(kind: Penalty['kind'], reason: string, forMs: number, isOfCall = false): void {
    this.penalty = { kind, reason, untilMs: this.deps.nowMs() + forMs, isOfCall }
  }

  /** Puts it behind others for a while. */
  penalise(kind: 'refused' | 'degraded', reason: string, isOfCall = false): void {
    if (this.penalty === null || this.penalty.kind === 'paused')
      this.deps.log?.warn('upstream_penalised', 'an upstream has a penalty', { ...this.about, reason })
    this.hold(kind, reason, PENALTY_MS, isOfCall)
  }

  clear(): void {
    if (this.penalty === null) return
    this.penalty = null
    this.deps.log?.info('upstream_cleared', 'an upstream has no penalty any more', this.about)
  }
}

export class UpstreamState extends Penalised {
  /** It could not be connected to, or kept silent, when it was last called or probed. */
  unreached = false
  /** Probes in a row without an answer in time. */
  timeouts = 0
  /** The last probe failed, whether or not that counts against it. */
  probeFailed = false
  /** The last probe was refused, whether or not that counts against it. */
  probeRefused = false
  /** Whether it has ever answered. */
  answers = false
  /** When a call went well last, on the clock that never steps. */
  workedMs = Number.NEGATIVE_INFINITY
  lastError: { message: string; at_ms: number } | null = null
  readonly credentials = new Credentials()
  /** Which of our models lead to it, and where. */
  routes: { model: string; target: TargetState }[] = []
  /** By the upstream's own name of the model. */
  targets = new Map<string, TargetState>()

  constructor(
    public upstream: Upstream,
    deps: HealthDeps,
  ) {
    super(deps, { upstream: upstream.id })
  }

  target(upstreamModel: string): TargetState {
    return this.targets.getOrInsertComputed(upstreamModel, () => new TargetState(this, upstreamModel))
  }

  /** Takes over a new configuration, and forgets targets that no route leads to any more. */
  renew(upstream: Upstream, models: Iterable<CatalogModel>): void {
    this.upstream = upstream
    this.routes = []
    for (const { facts, targets } of models) {
      for (const { upstream, upstreamModel } of targets)
        if (upstream.id === this.upstream.id) this.routes.push({ model: facts.id, target: this.target(upstreamModel) })
    }
    this.targets = new Map(this.routes.map(({ target }) => [target.upstreamModel, target]))
  }

  /** The upstream with a credential that is not left out. */
  toProbe(): Upstream {
    const { each } = this.upstream
    return (each && this.credentials.toProbe(each, this.upstream.id, this.deps.nowMs())) ?? this.upstream
  }

  /** Takes what went wrong with one credential of several. Returns whether others are left. */
  credentialFailed(used: Upstream, failure: CredentialFailure | null): boolean {
    const { credentials, deps } = this
    const before = credentials.leftOut(deps.nowMs()).length
    const areLeft = credentials.failed(used, failure, deps.nowMs())
    const now = credentials.leftOut(deps.nowMs())
    const found = now.find(({ number }) => number === used.credentialNumber)
    if (found && now.length > before)
      deps.log?.warn('credential_left_out', 'a credential of an upstream is left out for a time', {
        ...this.about,
        ...{ credential: found.number, reason: found.reason, back_in_ms: Math.round(found.backInMs) },
      })
    if (areLeft)
      this.lastError = { message: `its credential ${used.credentialNumber}: ${failure?.reason}`, at_ms: deps.wallMs() }
    return areLeft
  }

  /** Remembers what a free probe was refused, for whoever looks, but for what a call has said. */
  noteRefusal({ each, credentialNumber }: Upstream, reason: string): void {
    const message = each ? `its credential ${credentialNumber}: ${reason}` : reason
    if (this.lastError === null || this.lastError.message === message)
      this.lastError = { message, at_ms: this.deps.wallMs() }
  }

  credentialWorked({ credentialNumber: credential }: Upstream): void {
    if (!this.credentials.worked(credential)) return
    this.deps.log?.info('credential_back', 'a credential of an upstream works again', { ...this.about, credential })
  }

  /** Whether a probe is to come back to it soon. */
  isInDoubt(): boolean {
    return this.unreached || this.timeouts === 1
  }

  isDown(): boolean {
    return this.penalty?.kind === 'down' && this.present() !== null
  }

  /** It answers, whatever it says. */
  reached(): void {
    this.unreached = false
    this.timeouts = 0
    this.answers = true
    if (this.penalty?.kind !== 'down') return
    this.penalty = null
    this.deps.log?.info('upstream_up', 'an upstream is up again', this.about)
    // What opened its breakers is over.
    for (const { breaker } of this.targets.values()) breaker?.allowProbe()
  }

  /** A call went well: there is nothing against it. */
  worked(): void {
    this.workedMs = this.deps.nowMs()
    this.probeFailed = false
    this.reached()
    this.clear()
  }

  /** It is not called for a while. */
  markDown(reason: string): void {
    if (this.penalty?.kind !== 'down') {
      const host = URL.parse(this.upstream.baseUrl ?? '')?.host
      this.deps.log?.warn('upstream_down', 'an upstream is down', { ...this.about, host, reason })
    }
    this.hold('down', reason, DOWN_MS)
    this.lastError = { message: reason, at_ms: this.deps.wallMs() }
    this.unreached = true
  }
}

/** One model of an upstream, whatever models of ours lead to it. */
export class TargetState extends Penalised {
  /** Null while nothing has failed yet. */
  breaker: Breaker | null = null
  /** Keys whose requests it has refused, and the reason it gave last: it comes after others for these keys alone. */
  readonly refusedKeys = new MarkedKeys(PENALTY_MS)
  refusedReason = ''

  constructor(
    readonly owner: UpstreamState,
    readonly upstreamModel: string,
  ) {
    super(owner.deps, { ...owner.about, model: upstreamModel })
  }

  refuse(keyId: string, reason: string): void {
    const nowMs = this.deps.nowMs()
    if (!this.refusedKeys.has(keyId, nowMs))
      this.deps.log?.warn('upstream_penalised', 'an upstream has a penalty', { ...this.about, key: keyId, reason })
    this.refusedKeys.note(keyId, nowMs)
    this.refusedReason = reason
  }
}
