/**
 * Of an upstream with several credentials: which of them are left out for a time, since it has refused them or their quota is used
 * up, and which one a conversation goes with. Time comes in, from a clock that never steps.
 */
import type { Upstream } from '../domain/snapshot.ts'
import type { CredentialFailure } from '../upstreams/failure.ts'

interface LeftOut extends CredentialFailure {
  untilMs: number
}

/** A credential that nobody is sent with now. */
export interface LeftOutCredential extends Pick<LeftOut, 'state' | 'reason'> {
  /** Of its upstream's, from 1 on. */
  number: number
  /** Until it is tried again. */
  backInMs: number
}

/** While one request finds out whether it is good again, the others go by the rest. */
const TRIAL_MS = 15_000
const NONE: ReadonlySet<number> = new Set()

export class Credentials {
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
        backInMs: Math.max(0, untilMs - nowMs),
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
