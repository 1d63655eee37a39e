/** IDs: minting, valid times, display, and sort order. */

/** The latest time that an ID can hold: 48 bits of ms, in the year 10889. */
export const LATEST_MS = 2 ** 48 - 1

/** Clamps a clock time to what an ID can hold, so that requests are recorded even if the clock is wrong. */
const toWallMs = (clockMs: number): number => Math.min(Math.max(Math.trunc(clockMs) || 0, 0), LATEST_MS)

export const toWallClock = (now: () => number) => () => toWallMs(now())

/** Mints a UUIDv7 as 32 lowercase hex digits; a request's ID is shared by ledger, completion, and `x-request-id`. */
export const mintId = (nowMs: number) => Bun.randomUUIDv7('buffer', toWallMs(nowMs)).toString('hex')

/** Mints a short ID (48 random bits as 12 hex digits) for runs of the server and prices: saves 20 bytes in each ledger row. */
export const mintTag = () => crypto.getRandomValues(Buffer.alloc(6)).toString('hex')

/** Display form, also accepted by commands: the last digits, which are random. */
export const toShortId = (id: string) => id.slice(-8)

export const toRequestId = (id: string) => `req_${id}`

/** Sorts before every ID minted at this time or later: IDs begin with their time, or run slightly ahead of it. */
export const toFirstId = (ms: number) => toWallMs(ms).toString(16).padStart(12, '0')

/** Time encoded in the ID, ms; NaN for other texts. */
export const timeOfId = (id: string) => Number.parseInt(id.slice(0, 12), 16)
