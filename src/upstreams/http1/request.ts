/**
 * A request, and its bytes in the moment in which its connection takes them: whoever waits for an answer holds the text alone,
 * which is there anyway.
 */
export interface Request {
  /** Its first line and its headers but for the length, each with its end. */
  lines: string
  body: string
}

/**
 * Requests are written into one place, one after another: memory of its own for each large one would be garbage a moment later,
 * and the collector would come three times as often. A larger one gets its own.
 */
const SHARED_BYTES = 1024 * 1024
let shared: Buffer | null = null

/** A character takes no more bytes than this. */
const MAX_CHAR_BYTES = 3
/** For the header with the length, and the end of the head. */
const LENGTH_ROOM = 'content-length: 9007199254740991\r\n\r\n'.length

/** The bytes of a request, good until the next one is written. */
export function toBytes({ lines, body }: Request): Uint8Array {
  const room = lines.length + LENGTH_ROOM
  const bytes = place(room, body)
  const length = bytes.write(body, room)
  const head = `${lines}content-length: ${length}\r\n\r\n`
  const from = room - head.length
  // A header holds bytes: a credential beyond ASCII leaves as it was given.
  bytes.write(head, from, 'latin1')
  return bytes.subarray(from, room + length)
}

/** What of these bytes is left from there on, for as long as somebody needs it. */
export const keepFrom = (bytes: Uint8Array, from: number): Uint8Array =>
  bytes.buffer === shared?.buffer ? new Uint8Array(bytes.subarray(from)) : bytes.subarray(from)

function place(room: number, body: string): Buffer {
  if (room + body.length * MAX_CHAR_BYTES > SHARED_BYTES) return Buffer.allocUnsafeSlow(room + Buffer.byteLength(body))
  shared ??= Buffer.allocUnsafeSlow(SHARED_BYTES)
  return shared
}
