/** Reads a form from a file, without its large contents in memory. */
import { createReadStream } from 'node:fs'
import { type Decision, GatewayError } from '../domain/error.ts'
import { boundaryOf, type Form, readForm } from '../domain/multipart.ts'

/** Larger contents are truncated to this. */
const KEPT_BYTES = 64 * 1024
const CHUNK_BYTES = 256 * 1024

export interface StoredForm {
  form: Form
  /** Converts an offset in the form to one in the file. */
  toOffset(at: number): number
}

/** Same checks as `readForm` in memory: truncated contents have no boundary. */
export async function readStoredForm(path: string, contentType: string): Promise<Decision<StoredForm>> {
  const boundary = boundaryOf(contentType)
  if (boundary instanceof GatewayError) return boundary
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  const kept: Buffer[] = []
  const cuts: { at: number; bytes: number }[] = []
  let keptBytes = 0
  let cutBytes = 0
  /** Length so far of the current content. */
  let contentBytes = 0
  const keep = (piece: Buffer) => {
    const left = Math.max(0, KEPT_BYTES - contentBytes)
    contentBytes += piece.length
    if (left > 0) kept.push(piece.subarray(0, left))
    keptBytes += Math.min(left, piece.length)
    cutBytes += Math.max(0, piece.length - left)
  }
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
    rest = Buffer.concat([rest, chunk])
    let from = 0
    for (let at = rest.indexOf(delimiter); at !== -1; at = rest.indexOf(delimiter, from)) {
      keep(rest.subarray(from, at))
      if (cutBytes > 0) cuts.push({ at: keptBytes, bytes: cutBytes })
      contentBytes = 0
      cutBytes = 0
      keep(rest.subarray(at, at + delimiter.length))
      from = at + delimiter.length
      if (keptBytes > MAX_KEPT_BYTES) return tooManyParts()
    }
    const end = Math.max(from, rest.length - delimiter.length)
    keep(rest.subarray(from, end))
    // Copied so that the chunk can be freed.
    rest = Buffer.from(rest.subarray(end))
  }
  keep(rest)
  const form = readForm(Buffer.concat(kept), contentType)
  if (form instanceof GatewayError) return form
  return {
    form,
    toOffset: (at) => cuts.reduce((offset, cut) => (cut.at <= at ? offset + cut.bytes : offset), at),
  }
}

const MAX_KEPT_BYTES = 2 * 1024 * 1024

const tooManyParts = () => new GatewayError('invalid_request', 'The multipart form of your request has too many parts.')
