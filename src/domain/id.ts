/** Ids: the times that they can hold, how they are minted, how clients see one, and how they sort. */

/** The latest time that an id can hold: 48 bits of ms, in the year 10889. */
export const LATEST_MS = 2 ** 48 - 1

/**
 * Takes the time that a clock shows, whatever that is: one before 1970 or beyond what an id can hold counts as the nearest
 * that is neither, so that a request at such a time is answered and on record like any other.
 */
const toWallMs = (clockMs: number): number => Math.min(Math.max(Math.trunc(clockMs) || 0, 0), LATEST_MS)

/** A clock that shows such times alone. */
export const toWallClock = (now: () => number) => () => toWallMs(now())

/** Mints an id; that of a request is shared by ledger, completion and `x-request-id`: a UUIDv7 as 32 lower-case hex digits. */
export const mintId = (nowMs: number) => Bun.randomUUIDv7('buffer', toWallMs(nowMs)).toString('hex')

/**
 * Mints the id of what is few, and named in every row of the ledger: a run of the server, a price. 48 random bits as 12 hex digits,
 * which take 20 bytes less of each row.
 */
export const mintTag = () => crypto.getRandomValues(Buffer.alloc(6)).toString('hex')

/** What people read of an id, and commands take for it: its last digits, which are random. */
export const toShortId = (id: string) => id.slice(-8)

/** The `x-request-id` of a request. */
export const toRequestId = (id: string) => `req_${id}`

/** No id that was minted at this time or later sorts before it: ids begin with their time, or run a little ahead of it. */
export const toFirstId = (ms: number) => toWallMs(ms).toString(16).padStart(12, '0')

/** The time that an id begins with, ms; NaN where it is none of these. */
export const timeOfId = (id: string) => Number.parseInt(id.slice(0, 12), 16)
