/** Counts of failed sign-ins within 15 minutes, on one server or all nodes of a cluster. */
export const FAILURE_WINDOW_MS = 15 * 60_000

export interface FailureSubject {
  /** Such as an address, or an address with an account. */
  name: string
  most: number
  /** There are only as many such subjects as accounts. */
  isAccount: boolean
}

/** In a cluster, all methods throw `cluster_unreachable`. */
export interface SignInFailures {
  /** Counts one for each subject, unless one is at its maximum. Returns ms until it is below; 0 = counted. */
  begin(subjects: readonly FailureSubject[], nowMs: number): Promise<number>
  /** As `begin`, without counting. */
  waitMs(subjects: readonly FailureSubject[], nowMs: number): Promise<number>
  /** Removes one from each subject, counted at that time. */
  takeBack(subjects: readonly FailureSubject[], atMs: number): Promise<void>
  /** Removes all with this name. */
  reset(name: string): Promise<void>
}
