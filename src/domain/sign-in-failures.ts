/** Counts of failed sign-ins within 15 minutes, of one server or of all nodes of a cluster. */
export const FAILURE_WINDOW_MS = 15 * 60_000

export interface FailureSubject {
  /** Such as an address, or an address with an account. */
  name: string
  most: number
  /** There are only as many as accounts. */
  isAccount: boolean
}

/** Those of a cluster throw `cluster_unreachable`. */
export interface SignInFailures {
  /** Counts one of each, unless one has reached its maximum: how long until it is below, ms; 0 = counted. */
  begin(subjects: readonly FailureSubject[], nowMs: number): Promise<number>
  /** As `begin`, without counting. */
  waitMs(subjects: readonly FailureSubject[], nowMs: number): Promise<number>
  /** One of each, counted at that time. */
  takeBack(subjects: readonly FailureSubject[], atMs: number): Promise<void>
  /** All of that name. */
  reset(name: string): Promise<void>
}
