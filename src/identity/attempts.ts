/**
 * How often somebody may be wrong: failures are counted by address, by name, and by both, within a quarter of an hour. An account
 * closes to one address soon and to all of them late, so that nobody is locked out by a stranger's few tries. Pure; in memory.
 */
import { toIp } from '../domain/ip.ts'
import { ServiceError } from '../domain/service-error.ts'

const WINDOW_MS = 15 * 60_000
const MOST = { both: 5, address: 20, name: 50 }
/** More are never remembered; the oldest are forgotten first. */
const MOST_REMEMBERED = 10_000

export class Attempts {
  /** The times of failures, by whose they are; whoever failed last is last. */
  readonly #failures = new Map<string, number[]>()

  /** How many are remembered. */
  get size(): number {
    return this.#failures.size
  }

  /** Throws `too_many_attempts` where this address, this name, or both together have failed too often. */
  check(address: string, name: string, nowMs: number): void {
    const waits = toSubjects(address, name).map(([subject, most]) => this.#waitMs(subject, most, nowMs))
    const retryAfterMs = Math.max(...waits)
    if (retryAfterMs === 0) return
    const minutes = Math.ceil(retryAfterMs / 60_000)
    const message = `Too many wrong attempts. Wait ${minutes} ${minutes === 1 ? 'minute' : 'minutes'} and try again.`
    throw new ServiceError({ kind: 'too_many_attempts', retryAfterMs }, message)
  }

  failed(address: string, name: string, nowMs: number): void {
    for (const [subject] of toSubjects(address, name)) {
      const times = this.#recent(subject, nowMs)
      this.#failures.delete(subject)
      this.#failures.set(subject, [...times, nowMs])
    }
    for (const subject of this.#failures.keys()) {
      if (this.#failures.size <= MOST_REMEMBERED) break
      this.#failures.delete(subject)
    }
  }

  /** Takes back the failure that was counted at that time; who has proved themselves begins anew from there. */
  succeeded(address: string, name: string, atMs: number): void {
    const [[both], ...others] = toSubjects(address, name)
    this.#failures.delete(both)
    for (const [subject] of others) {
      const times = this.#failures.get(subject) ?? []
      const at = times.lastIndexOf(atMs)
      if (at >= 0) this.#failures.set(subject, times.toSpliced(at, 1))
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

function toSubjects(address: string, name: string): [Subject, Subject, Subject] {
  const place = toNetwork(address)
  return [
    [JSON.stringify([place, name]), MOST.both],
    [`address ${place}`, MOST.address],
    [`name ${name}`, MOST.name],
  ]
}

/** Of IPv6, whoever has one address mostly has the 2^64 beside it. */
export function toNetwork(address: string): string {
  const ip = toIp(address)
  return ip?.length === 8 ? ip.slice(0, 4).join(':') : address
}
