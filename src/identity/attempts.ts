/**
 * Limits failed sign-ins within 15 minutes. Password failures count by address and account together, by address, and by account: an account is soon blocked for
 * one address, and much later for all, except addresses that signed in before. Codes (128 bits), passkeys, and provider sign-ins count by address only. In
 * memory, or shared by a cluster's nodes; failures are reported.
 */
import { toIp } from '../domain/ip.ts'
import { ServiceError } from '../domain/service-error.ts'
import { FAILURE_WINDOW_MS, type FailureSubject, type SignInFailures } from '../domain/sign-in-failures.ts'
import { count } from '../domain/text.ts'
import { type Log, traceOf } from '../log.ts'
import type { IdentityStore } from '../store/identity-store.ts'
import { forget, MAX_REMEMBERED, MemoryFailures } from './memory-failures.ts'

/** A sign-in attempt; each kind of proof is counted separately. */
export interface Attempt {
  address: string
  nowMs: number
  /** `isKnown`: true if an account has the name. */
  by: { password: string; isKnown: boolean } | 'code' | 'passkey' | 'provider'
}

const MAX = { both: 5, address: 20, account: 50, code: 20, passkey: 20, provider: 5 }

export interface AttemptWatch {
  /** @param code kind of the error. */
  failed(attempt: Attempt, code: string): void
  /** An account is blocked for this address or for all; at most once per account and window. */
  closed(account: string, address: string, nowMs: number): void
}

export class Attempts {
  readonly #failures: SignInFailures
  readonly #closedMs = new Map<string, number>()
  readonly #watch: AttemptWatch
  /** Pairs of address and account that have signed in here. */
  readonly #opened = new Set<string>()

  constructor(watch: AttemptWatch = { failed() {}, closed() {} }, failures: SignInFailures = new MemoryFailures()) {
    this.#watch = watch
    this.#failures = failures
  }

  get size(): number {
    return this.#opened.size
  }

  /**
   * Runs an attempt. It counts as failed while running, so that parallel attempts are limited too, and is uncounted unless `isWrong`.
   *
   * @param isWrong which errors count; default: wrong codes, passkeys, and passwords. Throws `too_many_attempts`, and what `work` throws.
   */
  async try<T>(attempt: Attempt, work: () => Promise<T>, isWrong = isGuess): Promise<T> {
    const subjects = this.#subjectsOf(attempt)
    const { nowMs } = attempt
    const waitMs = await this.#failures.begin(subjects, nowMs)
    if (waitMs > 0) throw this.#refuse(attempt, waitMs)
    try {
      const done = await work()
      await this.#failures.takeBack(subjects, nowMs)
      if (typeof attempt.by === 'object') await this.opened(attempt.address, attempt.by.password)
      return done
    } catch (error) {
      if (!isWrong(error)) await this.#failures.takeBack(subjects, nowMs)
      else if (error instanceof ServiceError) {
        this.#watch.failed(attempt, error.failure.kind)
        await this.#noteClosed(subjects, attempt)
      }
      throw error
    }
  }

  /** A successful sign-in resets the failures of this address and account. */
  async opened(address: string, account: string): Promise<void> {
    const both = toBoth(address, account)
    this.#opened.delete(both)
    this.#opened.add(both)
    forget(this.#opened, MAX_REMEMBERED)
    await this.#failures.reset(both)
  }

  #subjectsOf({ address, by }: Attempt): FailureSubject[] {
    const place = toNetwork(address)
    if (typeof by === 'string') return [{ name: `${by} ${place}`, most: MAX[by], isAccount: false }]
    const both = toBoth(address, by.password)
    const own = { name: both, most: MAX.both, isAccount: false }
    if (this.#opened.has(both)) return [own]
    return [
      own,
      { name: `address ${place}`, most: MAX.address, isAccount: false },
      { name: `account ${by.password}`, most: MAX.account, isAccount: by.isKnown },
    ]
  }

  #refuse(attempt: Attempt, retryAfterMs: number): ServiceError {
    this.#watch.failed(attempt, 'too_many_attempts')
    const minutes = Math.ceil(retryAfterMs / 60_000)
    const message = `Too many failed attempts. Wait ${count(minutes, 'minute')} and try again.`
    return new ServiceError({ kind: 'too_many_attempts', retryAfterMs }, message)
  }

  async #noteClosed(subjects: readonly FailureSubject[], { address, by, nowMs }: Attempt): Promise<void> {
    if (typeof by === 'string' || !by.isKnown) return
    const ofAccount = subjects.filter(({ name }) => !name.startsWith('address '))
    if ((await this.#failures.waitMs(ofAccount, nowMs)) === 0) return
    const { password: account } = by
    if (nowMs - (this.#closedMs.get(account) ?? Number.NEGATIVE_INFINITY) < FAILURE_WINDOW_MS) return
    this.#closedMs.set(account, nowMs)
    this.#watch.closed(account, address, nowMs)
  }
}

const toBoth = (address: string, account: string) => JSON.stringify([toNetwork(address), account])

const isGuess = (error: unknown) =>
  error instanceof ServiceError && (error.failure.kind === 'sign_in_failed' || error.failure.kind === 'code_wrong')

/** For IPv6 the /64, since one client usually has all of it. */
export function toNetwork(address: string): string {
  const ip = toIp(address)
  return ip?.length === 8 ? ip.slice(0, 4).join(':') : address
}

export const createAttempts = (
  store: Pick<IdentityStore, 'changeIdentity'>,
  log: Pick<Log, 'warn' | 'error'>,
  failures?: SignInFailures,
) =>
  new Attempts(
    {
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
    },
    failures,
  )
