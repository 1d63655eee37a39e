/** One circuit of a breaker: closed, open until a time, or half-open with at most one request as its probe. */
import type { Log, LogFields } from '../log.ts'

/** How long it stays open; and a half-open probe that has said nothing for so long makes room for another: it may only be slow. */
const WAIT_MS = 10_000

/** A request. The object itself tells one from another, the one that is a half-open probe in particular. */
export interface CallingRequest {
  readonly keyId: string
  /** Keys of one team may be of one person. */
  readonly teamId: string | null
}

export class Circuit {
  failures = 0
  /** What failed last, in words that clients may read. */
  reason = ''
  lastFailureMs = 0
  /** Until when no other request passes; null while it is closed. */
  private untilMs: number | null = null
  /** The half-open probe that is under way. */
  probe: CallingRequest | null = null

  constructor(
    private readonly about: LogFields,
    private readonly log?: Pick<Log, 'info' | 'warn'>,
  ) {}

  isOpen(): boolean {
    return this.untilMs !== null
  }

  /** How long until a request may pass, ms; 0 where it may now. */
  waitMs(nowMs: number): number {
    return Math.max(0, (this.untilMs ?? nowMs) - nowMs)
  }

  /** Keeps requests out, but for the probe where there is one. */
  open(nowMs: number, probe: CallingRequest | null = null): void {
    const { about, log, reason } = this
    if (!this.isOpen()) log?.warn('breaker_opened', 'a breaker opened', { ...about, reason })
    this.untilMs = nowMs + WAIT_MS
    this.probe = probe
  }

  /** Has room for a probe now. */
  halfOpen(): void {
    this.untilMs = Number.NEGATIVE_INFINITY
    this.probe = null
  }

  close(): void {
    if (this.isOpen()) this.log?.info('breaker_closed', 'a breaker closed', this.about)
    this.untilMs = null
    this.probe = null
  }
}
