/** Finds rows of the ledger by time: ids begin with it, so the primary key does. Pure. */
import { LATEST_MS, toFirstId } from '../../domain/id.ts'

/**
 * The time in an id is `created_ms`. An id minted among thousands in one millisecond runs a little ahead: a range of ids is made
 * wider by this than the span of time that is meant, and `created_ms` decides.
 */
export const SLACK_MS = 60_000

/** Sorts after every id. */
export const AFTER_ALL = 'g'

/** An id that sorts after all of before this time. */
export const toIdAfter = (ms: number) => (ms > LATEST_MS ? AFTER_ALL : toFirstId(ms))
