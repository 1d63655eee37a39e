/** The one id of a request, and its shapes (design 6). */

/** Mints a UUIDv7 as 32 lower-case hex digits; its time is `nowMs`. */
export const mintId = (nowMs: number) => Bun.randomUUIDv7('hex', nowMs).replaceAll('-', '')

/** The `x-request-id` of a request. */
export const toRequestId = (id: string) => `req_${id}`
