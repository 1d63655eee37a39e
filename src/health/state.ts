/**
 * What is known of one upstream, and of each target (a model there): the one thing that is held against it, whether it can
 * be reached, and the breakers. `health.ts` tells it of calls and of free probes;
 * the log has a line a change.
 */
import type { CatalogModel, Upstream } from '../domain/snapshot.ts'
import type { Log } from '../log.ts'
import type { CredentialFailure } from '../upstreams/failure.ts'
import { type Breaker, MarkedKeys } from './breaker.ts'

interface LeftOut extends CredentialFailure {
  untilMs: number
}

/** A credential that nobody is sent with now. */
interface LeftOutCredential extends Pick<LeftOut, 'state' | 'reason'> {
  /** Of its upstream's, from 1 on. */
  number: number
  /** Until it is tried again. */
  retryInMs: number
}

/** While one request finds out whether it is good again, the others go by the rest. */
const TRIAL_MS = 15_000
const NONE: ReadonlySet<number> = new Set()

/**
 * Of an upstream with several credentials: which of them are left out for a time, since it has refused them or their quota is used
 * up, and which one a conversation goes with. Time comes in, from a clock that never steps.
 */
class Credentials {
  readonly #out = new Map<number, LeftOut>()
  /** Those that a call has gone well with, and none was refused since. */
  readonly #proven = new Set<number>()

  /**
   * The upstream with the credential of a conversation: the same one for as long as it is not left out, and another one that comes
   * or goes moves no other conversation (rendezvous hashing). Where all are left out, the one whose time is up first.
   *
   * @param tried those that the request has been refused with. Null where none is left.
   */
  choose(each: readonly Upstream[], conversation: string, tried: ReadonlySet<number>, nowMs: number): Upstream | null {
    const chosen = this.#find(each, conversation, tried, nowMs)
    const trial = chosen && this.#out.get(chosen.credentialNumber)
    if (trial) trial.untilMs = Math.max(trial.untilMs, nowMs + TRIAL_MS)
    return chosen
  }

  /** The same for a free probe, which tries none: that is left to a request. */
  toProbe(each: readonly Upstream[], conversation: string, nowMs: number): Upstream | null {
    return this.#find(each, conversation, NONE, nowMs)
  }

  #find(each: readonly Upstream[], conversation: string, tried: ReadonlySet<number>, nowMs: number): Upstream | null {
    const left = each.filter(({ credentialNumber: number }) => !tried.has(number) && !this.#isOut(number, nowMs))
    const [best] = left
      .map((upstream) => ({ upstream, score: Bun.hash.xxHash32(`${conversation}\n${upstream.credentialNumber}`) }))
      .sort((a, b) => b.score - a.score)
    return best?.upstream ?? (tried.size > 0 ? null : this.#soonest(each))
  }

  /**
   * Takes a failure: null for one that is of none of them. Returns whether it was of the credential alone, and others are left: then
   * it says nothing of the upstream.
   */
  failed(upstream: Upstream, found: CredentialFailure | null, nowMs: number): boolean {
    if (found === null || upstream.each === null) return false
    if (found.state === 'refused' && found.forMs > 0) this.#proven.delete(upstream.credentialNumber)
    if (found.forMs > 0) this.#out.set(upstream.credentialNumber, { ...found, untilMs: nowMs + found.forMs })
    return upstream.each.some(({ credentialNumber: number }) => !this.#isOut(number, nowMs))
  }

  /** Returns whether it had been left out. */
  worked(number: number): boolean {
    this.#proven.add(number)
    return this.#out.delete(number)
  }

  /** Whether calls go well with it, whatever a free probe is told. */
  isProven(number: number): boolean {
    return this.#proven.has(number)
  }

  /** Those that are left out, in their order. */
  leftOut(nowMs: number): LeftOutCredential[] {
    return [...this.#out]
      .map(([number, { state, reason, untilMs }]) => ({
        number,
        state,
        reason,
        retryInMs: Math.max(0, untilMs - nowMs),
      }))
      .sort((a, b) => a.number - b.number)
  }

  #isOut(number: number, nowMs: number): boolean {
    return nowMs < (this.#out.get(number)?.untilMs ?? Number.NEGATIVE_INFINITY)
  }

  #soonest(each: readonly Upstream[]): Upstream | null {
    const untilOf = ({ credentialNumber: number }: Upstream) => this.#out.get(number)?.untilMs ?? 0
    return each.toSorted((a, b) => untilOf(a) - untilOf(b))[0] ?? null
  }
}

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
      this.deps.log?.warn('upstream_deprioritized', 'an upstream has a penalty', { ...this.about, reason })
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
      deps.log?.warn('credential_suspended', 'a credential of an upstream is left out for a time', {
        ...this.about,
        ...{ credential: found.number, reason: found.reason, retry_in_ms: Math.round(found.retryInMs) },
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
    this.deps.log?.info('credential_restored', 'a credential of an upstream works again', { ...this.about, credential })
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
      this.deps.log?.warn('upstream_deprioritized', 'an upstream has a penalty', { ...this.about, key: keyId, reason })
    this.refusedKeys.note(keyId, nowMs)
    this.refusedReason = reason
  }
}
