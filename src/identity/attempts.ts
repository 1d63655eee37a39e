/**
 * Limits failed sign-ins within 15 minutes. Password failures count by address and account together, by address, and by account: an account is soon blocked for
 * one address, and much later for all, except addresses that signed in before. Codes (128 bits), passkeys, and provider sign-ins count by address only. In
 * memory; failures are reported.
 */
import { toIp } from '../domain/ip.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import { type Log, traceOf } from '../log.ts'
import type { IdentityStore } from '../store/identity-store.ts'

/** A sign-in attempt; each kind of proof is counted separately. */
export interface Attempt {
  address: string
  nowMs: number
  /** `isKnown`: true if an account has the name. */
  by: { password: string; isKnown: boolean } | 'code' | 'passkey' | 'provider'
}

const WINDOW_MS = 15 * 60_000
const MAX = { both: 5, address: 20, account: 50, code: 20, passkey: 20, provider: 5 }
/** Oldest entries are dropped first, except those of accounts. */
const MAX_REMEMBERED = 10_000

export interface AttemptWatch {
  /** @param code kind of the error. */
  failed(attempt: Attempt, code: string): void
  /** An account is blocked for this address or for all; at most once per account and window. */
  closed(account: string, address: string, nowMs: number): void
}

export class Attempts {
  /** Times of failures by what they count for; the latest last. */
  readonly #failures: Failures = new Map()
  /** Separate, so that no flood displaces them; there are only as many as accounts. */
  readonly #ofAccounts: Failures = new Map()
  readonly #closedMs = new Map<string, number>()
  readonly #watch: AttemptWatch

  constructor(watch: AttemptWatch = { failed() {}, closed() {} }) {
    this.#watch = watch
  }

  /** Pairs of address and account that have signed in. */
  readonly #opened = new Set<string>()

  get size(): number {
    return this.#failures.size + this.#ofAccounts.size + this.#opened.size
  }

  /**
   * Runs an attempt. It counts as failed while running, so that parallel attempts are limited too, and is uncounted unless `isWrong`.
   *
   * @param isWrong which errors count; default: wrong codes, passkeys, and passwords. Throws `too_many_attempts`, and what `work` throws.
   */
  async try<T>(attempt: Attempt, work: () => Promise<T>, isWrong = isGuess): Promise<T> {
    const subjects = this.#subjectsOf(attempt)
    this.#requireOpen(subjects, attempt)
    for (const subject of subjects) this.#count(subject, attempt.nowMs)
    try {
      const done = await work()
      this.#takeBack(subjects, attempt.nowMs)
      if (typeof attempt.by === 'object') this.opened(attempt.address, attempt.by.password)
      return done
    } catch (error) {
      if (!isWrong(error)) this.#takeBack(subjects, attempt.nowMs)
      else if (error instanceof ServiceError) {
        this.#watch.failed(attempt, error.failure.kind)
        this.#noteClosed(subjects, attempt)
      }
      throw error
    }
  }

  /** A successful sign-in resets the failures of this address and account. */
  opened(address: string, account: string): void {
    const both = toBoth(address, account)
    this.#failures.delete(both)
    this.#opened.delete(both)
    this.#opened.add(both)
    forget(this.#opened, MAX_REMEMBERED)
  }

  #subjectsOf({ address, by }: Attempt): Subject[] {
    const place = toNetwork(address)
    const failures = this.#failures
    if (typeof by === 'string') return [{ failures, name: `${by} ${place}`, most: MAX[by] }]
    const both = toBoth(address, by.password)
    const own = { failures, name: both, most: MAX.both }
    if (this.#opened.has(both)) return [own]
    const ofAccount = by.isKnown ? this.#ofAccounts : failures
    return [
      own,
      { failures, name: `address ${place}`, most: MAX.address },
      { failures: ofAccount, name: `account ${by.password}`, most: MAX.account },
    ]
  }

  #requireOpen(subjects: readonly Subject[], attempt: Attempt): void {
    const retryAfterMs = Math.max(...subjects.map((subject) => toWaitMs(subject, attempt.nowMs)))
    if (retryAfterMs === 0) return
    this.#watch.failed(attempt, 'too_many_attempts')
    const minutes = Math.ceil(retryAfterMs / 60_000)
    const message = `Too many failed attempts. Wait ${count(minutes, 'minute')} and try again.`
    throw new ServiceError({ kind: 'too_many_attempts', retryAfterMs }, message)
  }

  #count(subject: Subject, nowMs: number): void {
    const { failures, name } = subject
    const times = toRecent(subject, nowMs)
    failures.delete(name)
    failures.set(name, [...times, nowMs])
    forget(this.#failures, MAX_REMEMBERED)
  }

  #noteClosed(subjects: readonly Subject[], { address, by, nowMs }: Attempt): void {
    if (typeof by === 'string' || !by.isKnown) return
    const isOfAccount = ({ name }: Subject) => !name.startsWith('address ')
    if (!subjects.some((subject) => isOfAccount(subject) && toWaitMs(subject, nowMs) > 0)) return
    const { password: account } = by
    if (nowMs - (this.#closedMs.get(account) ?? Number.NEGATIVE_INFINITY) < WINDOW_MS) return
    this.#closedMs.set(account, nowMs)
    this.#watch.closed(account, address, nowMs)
  }

  #takeBack(subjects: readonly Subject[], atMs: number): void {
    for (const { failures, name } of subjects) {
      const times = failures.get(name) ?? []
      const at = times.lastIndexOf(atMs)
      if (at < 0) continue
      if (times.length === 1) failures.delete(name)
      else failures.set(name, times.toSpliced(at, 1))
    }
  }
}

type Failures = Map<string, number[]>

interface Subject {
  failures: Failures
  name: string
  most: number
}

function toWaitMs(subject: Subject, nowMs: number): number {
  const times = toRecent(subject, nowMs)
  const decides = times.at(-subject.most)
  return decides === undefined ? 0 : decides + WINDOW_MS - nowMs
}

const toRecent = ({ failures, name }: Subject, nowMs: number): number[] =>
  (failures.get(name) ?? []).filter((ms) => ms > nowMs - WINDOW_MS)

const toBoth = (address: string, account: string) => JSON.stringify([toNetwork(address), account])

function forget(kept: Map<string, unknown> | Set<string>, most: number): void {
  for (const oldest of kept.keys()) {
    if (kept.size <= most) break
    kept.delete(oldest)
  }
}

const isGuess = (error: unknown) =>
  error instanceof ServiceError && (error.failure.kind === 'sign_in_failed' || error.failure.kind === 'code_wrong')

/** For IPv6 the /64, since one client usually has all of it. */
export function toNetwork(address: string): string {
  const ip = toIp(address)
  return ip?.length === 8 ? ip.slice(0, 4).join(':') : address
}

export const createAttempts = (store: Pick<IdentityStore, 'changeIdentity'>, log: Pick<Log, 'warn' | 'error'>) =>
  new Attempts({
    failed({ address, by }, code) {
      const isPassword = typeof by === 'object'
      log.warn('sign_in_failed', 'sign-in failed', {
        ip: address,
        method: isPassword ? 'password' : by,
        account: isPassword && by.isKnown ? by.password : null,
        code,
      })
    },
    closed(account, address, nowMs) {
      store
        .changeIdentity({ actor: 'server', nowMs }, ({ admins }) => {
          const subject = admins.find(({ name }) => name === account)?.id ?? ''
          return {
            value: null,
            change: { action: 'admins.close', subject, detail: { name: account, address }, write: {} },
          }
        })
        .catch((error) =>
          log.error('internal_error', 'could not record a blocked account in the audit log', {
            trace: traceOf(error),
          }),
        )
    },
  })
