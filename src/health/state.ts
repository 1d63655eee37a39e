/** State of one upstream and its targets: penalty, reachability, credentials, and breakers. Each change is logged. */
import type { CatalogModel, Upstream } from '../domain/snapshot.ts'
import type { Log } from '../log.ts'
import type { CredentialFailure } from '../upstreams/failure.ts'
import { Breaker, MarkedKeys } from './breaker.ts'

interface Suspension extends CredentialFailure {
  untilMs: number
}

interface SuspendedCredential extends Pick<Suspension, 'state' | 'reason'> {
  number: number
  retryInMs: number
}

/** While one request tries a suspended credential again, others use the rest. */
const TRIAL_MS = 15_000
const NONE: ReadonlySet<number> = new Set()

/**
 * Which of an upstream's several credentials are suspended (rejected, or quota used up), and which one a conversation
 * uses.
 */
class Credentials {
  readonly #out = new Map<number, Suspension>()
  /** Used successfully, and not rejected since. */
  readonly #proven = new Set<number>()

  /**
   * A conversation keeps its credential, and changes to others move no other conversation (rendezvous hashing). If all
   * are suspended, the one that expires first.
   * @param tried credentials already rejected for this request. Null if none is left.
   */
  choose(each: readonly Upstream[], conversation: string, tried: ReadonlySet<number>, nowMs: number): Upstream | null {
    const chosen = this.#find(each, conversation, tried, nowMs)
    const trial = chosen && this.#out.get(chosen.credentialNumber)
    if (trial) trial.untilMs = Math.max(trial.untilMs, nowMs + TRIAL_MS)
    return chosen
  }

  /** For a free health check, which doesn't count as trying a suspended one. */
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

  /** Returns whether only the credential failed and others are left, so that it says nothing about the upstream. */
  failed(upstream: Upstream, found: CredentialFailure | null, nowMs: number): boolean {
    if (found === null || upstream.each === null) return false
    if (found.state === 'refused' && found.forMs > 0) this.#proven.delete(upstream.credentialNumber)
    if (found.forMs > 0) this.#out.set(upstream.credentialNumber, { ...found, untilMs: nowMs + found.forMs })
    return upstream.each.some(({ credentialNumber: number }) => !this.#isOut(number, nowMs))
  }

  /** Returns whether it was suspended. */
  worked(number: number): boolean {
    this.#proven.add(number)
    return this.#out.delete(number)
  }

  /** Whether calls with it succeed, whatever health checks say. */
  isProven(number: number): boolean {
    return this.#proven.has(number)
  }

  suspended(nowMs: number): SuspendedCredential[] {
    return [...this.#out]
      .map(([number, { state, reason, untilMs }]) => ({
        number,
        state,
        reason,
        retryInMs: Math.max(0, untilMs - nowMs),
      }))
      .sort((a, b) => a.number - b.number)
  }

  isSuspended(number: number): boolean {
    return this.#out.has(number)
  }

  restore({ number, state, reason, retryInMs }: SuspendedCredential, nowMs: number): void {
    this.#out.set(number, { state, reason, forMs: retryInMs, untilMs: nowMs + retryInMs })
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
  /** Monotonic clock. */
  nowMs(): number
  /** Wall clock, for timestamps that people read. */
  wallMs(): number
  log?: Pick<Log, 'info' | 'warn'>
  /** An upstream just became unreachable; triggers the prober. */
  onUnreached?(upstream: Upstream): void
}

/**
 * A temporary mark: `down` = unreachable and not called; others are deprioritized. `paused` = its provider asked for a
 * pause.
 */
interface Penalty {
  kind: 'down' | 'refused' | 'degraded' | 'paused'
  reason: string
  untilMs: number
  /** From a call: a successful `/models` doesn't clear it. */
  isOfCall: boolean
}

/** Longer than the prober's interval for an unreachable upstream; if the prober never comes, calls find out. */
const DOWN_MS = 20_000
/** After this time a rejected upstream is tried again, since repairs aren't announced. Also the longest pause. */
export const PENALTY_MS = 60_000

abstract class Penalizable {
  penalty: Penalty | null = null

  constructor(
    readonly deps: HealthDeps,
    readonly about: { upstream: string; model?: string },
  ) {}

  present(): Penalty | null {
    return this.penalty !== null && this.deps.nowMs() < this.penalty.untilMs ? this.penalty : null
  }

  hold(kind: Penalty['kind'], reason: string, forMs: number, isOfCall = false): void {
    this.penalty = { kind, reason, untilMs: this.deps.nowMs() + forMs, isOfCall }
  }

  deprioritize(kind: 'refused' | 'degraded', reason: string, isOfCall = false): void {
    if (this.penalty === null || this.penalty.kind === 'paused')
      this.deps.log?.warn('upstream_deprioritized', 'upstream deprioritized', { ...this.about, reason })
    this.hold(kind, reason, PENALTY_MS, isOfCall)
  }

  clear(): void {
    if (this.penalty === null) return
    this.penalty = null
    this.deps.log?.info('upstream_cleared', 'upstream no longer deprioritized', this.about)
  }
}

/** JSON. Times are relative to now, in ms, since each process has its own clock. */
export interface KeptState {
  penalty: (Pick<Penalty, 'kind' | 'reason' | 'isOfCall'> & { forMs: number }) | null
  flags: Pick<UpstreamState, 'unreached' | 'timeouts' | 'probeFailed' | 'probeRefused' | 'answers' | 'lastError'>
  /** Null if no call has succeeded. */
  workedAgoMs: number | null
  suspended: SuspendedCredential[]
  /** Targets whose breaker is open for everyone. */
  open: { model: string; reason: string }[]
}

export class UpstreamState extends Penalizable {
  /** The last call or check could not connect, or got no response. */
  unreached = false
  /** Health checks in a row without a timely response. */
  timeouts = 0
  /** The last health check failed, whether or not that counts. */
  probeFailed = false
  /** The last health check was rejected, whether or not that counts. */
  probeRefused = false
  /** Whether it has ever responded. */
  answers = false
  workedMs = Number.NEGATIVE_INFINITY
  lastError: { message: string; at_ms: number } | null = null
  /** When a success was last reported to other processes. */
  toldMs = Number.NEGATIVE_INFINITY
  readonly credentials = new Credentials()
  routes: { model: string; target: TargetState }[] = []
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

  /** Applies a new configuration; drops targets without a route. */
  renew(upstream: Upstream, models: Iterable<CatalogModel>): void {
    this.upstream = upstream
    this.routes = []
    for (const { facts, targets } of models) {
      for (const { upstream, upstreamModel } of targets)
        if (upstream.id === this.upstream.id) this.routes.push({ model: facts.id, target: this.target(upstreamModel) })
    }
    this.targets = new Map(this.routes.map(({ target }) => [target.upstreamModel, target]))
  }

  toProbe(): Upstream {
    const { each } = this.upstream
    return (each && this.credentials.toProbe(each, this.upstream.id, this.deps.nowMs())) ?? this.upstream
  }

  toKept(): KeptState {
    const { penalty, unreached, timeouts, probeFailed, probeRefused, answers, lastError, workedMs } = this
    const nowMs = this.deps.nowMs()
    return {
      penalty: penalty && {
        kind: penalty.kind,
        reason: penalty.reason,
        isOfCall: penalty.isOfCall,
        forMs: penalty.untilMs - nowMs,
      },
      flags: { unreached, timeouts, probeFailed, probeRefused, answers, lastError },
      workedAgoMs: Number.isFinite(workedMs) ? nowMs - workedMs : null,
      suspended: this.credentials.suspended(nowMs),
      open: [...this.targets.values()].flatMap(({ upstreamModel, breaker }) =>
        breaker?.everyone.isOpen() ? { model: upstreamModel, reason: breaker.everyone.reason } : [],
      ),
    }
  }

  restore({ penalty, flags, workedAgoMs, suspended, open }: KeptState): void {
    const nowMs = this.deps.nowMs()
    if (penalty !== null) this.hold(penalty.kind, penalty.reason, penalty.forMs, penalty.isOfCall)
    Object.assign(this, flags)
    if (workedAgoMs !== null) this.workedMs = nowMs - workedAgoMs
    for (const one of suspended) this.credentials.restore(one, nowMs)
    for (const { model, reason } of open) {
      const target = this.targets.get(model)
      if (target) target.toBreaker().restore(reason, nowMs)
    }
  }

  /** Returns whether other credentials are left. */
  credentialFailed(used: Upstream, failure: CredentialFailure | null): boolean {
    const { credentials, deps } = this
    const before = credentials.suspended(deps.nowMs()).length
    const areLeft = credentials.failed(used, failure, deps.nowMs())
    const now = credentials.suspended(deps.nowMs())
    const found = now.find(({ number }) => number === used.credentialNumber)
    if (found && now.length > before)
      deps.log?.warn('credential_suspended', 'credential suspended', {
        ...this.about,
        ...{ credential: found.number, reason: found.reason, retry_in_ms: Math.round(found.retryInMs) },
      })
    if (areLeft)
      this.lastError = { message: `credential ${used.credentialNumber}: ${failure?.reason}`, at_ms: deps.wallMs() }
    return areLeft
  }

  /** Keeps a health check's rejection as the last error, unless a call reported another. */
  noteRefusal({ each, credentialNumber }: Upstream, reason: string): void {
    const message = each ? `credential ${credentialNumber}: ${reason}` : reason
    if (this.lastError === null || this.lastError.message === message)
      this.lastError = { message, at_ms: this.deps.wallMs() }
  }

  credentialWorked({ credentialNumber: credential }: Upstream): void {
    if (!this.credentials.worked(credential)) return
    this.deps.log?.info('credential_restored', 'credential restored', { ...this.about, credential })
  }

  isInDoubt(): boolean {
    return this.unreached || this.timeouts === 1
  }

  isDown(): boolean {
    return this.penalty?.kind === 'down' && this.present() !== null
  }

  /** It responds, whatever it says. */
  reached(): void {
    this.unreached = false
    this.timeouts = 0
    this.answers = true
    if (this.penalty?.kind !== 'down') return
    this.penalty = null
    this.deps.log?.info('upstream_up', 'upstream is up again', this.about)
    // The cause of its open breakers is gone.
    for (const { breaker } of this.targets.values()) breaker?.allowProbe()
  }

  worked(): void {
    this.workedMs = this.deps.nowMs()
    this.probeFailed = false
    this.reached()
    this.clear()
  }

  markDown(reason: string): void {
    if (this.penalty?.kind !== 'down') {
      const host = URL.parse(this.upstream.baseUrl ?? '')?.host
      this.deps.log?.warn('upstream_down', 'upstream is down', { ...this.about, host, reason })
    }
    this.hold('down', reason, DOWN_MS)
    this.lastError = { message: reason, at_ms: this.deps.wallMs() }
    this.unreached = true
  }
}

export class TargetState extends Penalizable {
  breaker: Breaker | null = null
  /** Keys whose requests it rejected, and the last reason: deprioritized only for these keys. */
  readonly refusedKeys = new MarkedKeys(PENALTY_MS)
  refusedReason = ''

  constructor(
    readonly owner: UpstreamState,
    readonly upstreamModel: string,
  ) {
    super(owner.deps, { ...owner.about, model: upstreamModel })
  }

  toBreaker(): Breaker {
    this.breaker ??= new Breaker(this.about, this.deps.log)
    return this.breaker
  }

  refuse(keyId: string, reason: string): void {
    const nowMs = this.deps.nowMs()
    if (!this.refusedKeys.has(keyId, nowMs))
      this.deps.log?.warn('upstream_deprioritized', 'upstream deprioritized', { ...this.about, key: keyId, reason })
    this.refusedKeys.note(keyId, nowMs)
    this.refusedReason = reason
  }
}
