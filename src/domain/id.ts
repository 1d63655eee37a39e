/** IDs and their times. */

/** 48 bits of ms: the year 10889. */
export const LATEST_MS = 2 ** 48 - 1

/** Clamped, so that requests are recorded even if the clock is wrong. */
const toWallMs = (clockMs: number): number => Math.min(Math.max(Math.trunc(clockMs) || 0, 0), LATEST_MS)

export const toWallClock = (now: () => number) => () => toWallMs(now())

/** UUIDv7 as 32 lowercase hex digits. */
export const mintId = (nowMs: number) => Bun.randomUUIDv7('buffer', toWallMs(nowMs)).toString('hex')

/** For runs and prices: 12 hex digits save 20 bytes in each ledger row. */
export const mintTag = () => crypto.getRandomValues(Buffer.alloc(6)).toString('hex')

/** The random end, which commands accept too. */
export const toShortId = (id: string) => id.slice(-8)

export const toRequestId = (id: string) => `req_${id}`

/** Sorts before every ID minted from then on; IDs may run slightly ahead of their time. */
export const toFirstId = (ms: number) => toWallMs(ms).toString(16).padStart(12, '0')

/** ms; NaN for other texts. */
export const timeOfId = (id: string) => Number.parseInt(id.slice(0, 12), 16)
