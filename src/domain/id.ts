/** The one id of a request, and its shapes: ledger id, completion id and `x-request-id` all hold it. */

/** Mints a UUIDv7 as 32 lower-case hex digits; its time is `nowMs`. */
export const mintId = (nowMs: number) => Bun.randomUUIDv7('hex', nowMs).replaceAll('-', '')

/** No id that was minted at this time or later sorts before it: ids begin with their time, or run a little ahead of it. */
export const toFirstId = (ms: number) => Math.max(0, ms).toString(16).padStart(12, '0')

/** The `x-request-id` of a request. */
export const toRequestId = (id: string) => `req_${id}`
