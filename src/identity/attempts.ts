/**
 * How often somebody may be wrong within a quarter of an hour. A password is guessed at: failures are counted by address and account
 * together, by address and by account, so that an account closes to one address soon and to all of them late. Where it was opened
 * from before, what others do closes it to nobody. Codes have 128 bits, passkeys more, and a provider has doors of its own: their
 * failures are counted by address alone, and nobody is kept out by what somebody elsewhere has tried. Pure; in memory.
 */
import { toIp } from '../domain/ip.ts'
import { ServiceError } from '../domain/service-error.ts'

/** Who tries to come in, from where, and by what; each of these is counted by itself. */
export interface Attempt {
  address: string
  nowMs: number
  by: { password: string } | 'code' | 'passkey' | 'provider'
}

const WINDOW_MS = 15 * 60_000
const MOST = { both: 5, address: 20, account: 50, code: 20, passkey: 20, provider: 5 }
/** More are never remembered; the oldest are forgotten first. */
const MOST_REMEMBERED = 10_000

export class Attempts {
  /** The times of failures, by what they are counted for; what failed last is last. */
  readonly #failures = new Map<string, number[]>()
  /** Accounts with the addresses that they were opened from. */
  readonly #opened = new Set<string>()

  /** How much is remembered. */
  get size(): number {
    return this.#failures.size + this.#opened.size
  }

  /**
   * Does what may fail because somebody is wrong. That is counted before it is known, so that of many at once no more are tried than
   * one after the other, and taken back where nobody was.
   *
   * @param isWrong which failures are theirs; by default those of codes, passkeys and passwords. Throws `too_many_attempts`, and what the work
   * throws.
   */
  async try<T>(attempt: Attempt, work: () => Promise<T>, isWrong = isGuess): Promise<T> {
    const subjects = this.#subjectsOf(attempt)
    this.#requireOpen(subjects, attempt.nowMs)
    for (const [subject] of subjects) this.#count(subject, attempt.nowMs)
    try {
      const done = await work()
      this.#takeBack(subjects, attempt.nowMs)
      if (typeof attempt.by === 'object') this.opened(attempt.address, attempt.by.password)
      return done
    } catch (error) {
      if (!isWrong(error)) this.#takeBack(subjects, attempt.nowMs)
      throw error
    }
  }

  /** Notes that an account was opened from there: who has proved themselves begins anew. */
  opened(address: string, account: string): void {
    const both = toBoth(address, account)
    this.#failures.delete(both)
    this.#opened.delete(both)
    this.#opened.add(both)
    forget(this.#opened, MOST_REMEMBERED)
  }

  /** What an attempt is counted for, and how often that may fail. */
  #subjectsOf({ address, by }: Attempt): Subject[] {
    const place = toNetwork(address)
    if (typeof by === 'string') return [[`${by} ${place}`, MOST[by]]]
    const both = toBoth(address, by.password)
    const own: Subject = [both, MOST.both]
    if (this.#opened.has(both)) return [own]
    return [own, [`address ${place}`, MOST.address], [`account ${by.password}`, MOST.account]]
  }

  #requireOpen(subjects: readonly Subject[], nowMs: number): void {
    const retryAfterMs = Math.max(...subjects.map(([subject, most]) => this.#waitMs(subject, most, nowMs)))
    if (retryAfterMs === 0) return
    const minutes = Math.ceil(retryAfterMs / 60_000)
    const message = `Too many wrong attempts. Wait ${minutes} ${minutes === 1 ? 'minute' : 'minutes'} and try again.`
    throw new ServiceError({ kind: 'too_many_attempts', retryAfterMs }, message)
  }

  #count(subject: string, nowMs: number): void {
    const times = this.#recent(subject, nowMs)
    this.#failures.delete(subject)
    this.#failures.set(subject, [...times, nowMs])
    forget(this.#failures, MOST_REMEMBERED)
  }

  #takeBack(subjects: readonly Subject[], atMs: number): void {
    for (const [subject] of subjects) {
      const times = this.#failures.get(subject) ?? []
      const at = times.lastIndexOf(atMs)
      if (at < 0) continue
      if (times.length === 1) this.#failures.delete(subject)
      else this.#failures.set(subject, times.toSpliced(at, 1))
    }
  }

  #waitMs(subject: string, most: number, nowMs: number): number {
    const times = this.#recent(subject, nowMs)
    const decides = times.at(-most)
    return times.length < most || decides === undefined ? 0 : decides + WINDOW_MS - nowMs
  }

  #recent(subject: string, nowMs: number): number[] {
    return (this.#failures.get(subject) ?? []).filter((ms) => ms > nowMs - WINDOW_MS)
  }
}

type Subject = [subject: string, most: number]

const toBoth = (address: string, account: string) => JSON.stringify([toNetwork(address), account])

function forget(kept: Map<string, unknown> | Set<string>, most: number): void {
  for (const oldest of kept.keys()) {
    if (kept.size <= most) break
    kept.delete(oldest)
  }
}

const isGuess = (error: unknown) =>
  error instanceof ServiceError && (error.failure.kind === 'sign_in_failed' || error.failure.kind === 'code_wrong')

/** Of IPv6, whoever has one address mostly has the 2^64 beside it. */
export function toNetwork(address: string): string {
  const ip = toIp(address)
  return ip?.length === 8 ? ip.slice(0, 4).join(':') : address
}
