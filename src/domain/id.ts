/** Ids: how they are minted, how clients see one, and how they sort. */
import { toWallMs } from './time.ts'

/** Mints an id; that of a request is shared by ledger, completion and `x-request-id`: a UUIDv7 as 32 lower-case hex digits. */
export const mintId = (nowMs: number) => Bun.randomUUIDv7('buffer', toWallMs(nowMs)).toString('hex')

/** What people read of an id, and commands take for it: its last digits, which are random. */
export const toShortId = (id: string) => id.slice(-8)

/** The `x-request-id` of a request. */
export const toRequestId = (id: string) => `req_${id}`

/** No id that was minted at this time or later sorts before it: ids begin with their time, or run a little ahead of it. */
export const toFirstId = (ms: number) => toWallMs(ms).toString(16).padStart(12, '0')

/** The time that an id begins with, ms; NaN where it is none of these. */
export const timeOfId = (id: string) => Number.parseInt(id.slice(0, 12), 16)
