/** Masks credentials in upstream error messages, also partial, in other case, or encoded. Never used for responses. */
import type { Upstream } from '../domain/snapshot.ts'
import { redact } from '../log.ts'

/** Matches of this length aren't a coincidence. For a short credential, nearly half of its length counts. */
const LONGEST_WINDOW = 16
const SHORTEST_WINDOW = 8

const MASK = '…'

/** Characters next to part of a credential that may belong to it. */
const RUN = /[A-Za-z0-9+/=_~.%-]/

interface Windows {
  length: number
  pieces: ReadonlySet<string>
}

export function maskCredential(text: string, credential: string): string {
  if (credential.length < SHORTEST_WINDOW) return text.replaceAll(credential, MASK)
  const { length, pieces } = windowsOf(credential)
  const lower = text.toLowerCase()
  // Lower-casing turns some letters into two, which would shift positions.
  const searched = lower.length === text.length ? lower : text
  const isPiece = (at: number) => pieces.has(searched.slice(at, at + length))
  let masked = ''
  let from = 0
  for (let at = 0; at + length <= searched.length; at++) {
    if (!isPiece(at)) continue
    let start = at
    while (start > from && RUN.test(text[start - 1] ?? '')) start--
    let end = at + length
    for (let next = at + 1; next < end; next++) if (isPiece(next)) end = next + length
    while (end < text.length && RUN.test(text[end] ?? '')) end++
    masked += text.slice(from, start) + MASK
    from = end
    at = end - 1
  }
  return masked + text.slice(from)
}

const known = new Map<string, Windows>()
const MAX_KNOWN = 256

function windowsOf(credential: string): Windows {
  const found = known.get(credential)
  if (found) return found
  const half = Math.floor((credential.length - 1) / 2)
  const length = Math.min(LONGEST_WINDOW, Math.max(SHORTEST_WINDOW, half))
  const pieces = new Set<string>()
  for (const form of formsOf(credential)) {
    const lower = form.toLowerCase()
    for (let at = 0; at + length <= lower.length; at++) pieces.add(lower.slice(at, at + length))
  }
  if (known.size >= MAX_KNOWN) known.clear()
  const windows = { length, pieces }
  known.set(credential, windows)
  return windows
}

function formsOf(credential: string): string[] {
  const bytes = Buffer.from(credential)
  return [credential, encodeURIComponent(credential.toWellFormed()), bytes.toString('hex'), ...inBase64(bytes)]
}

/** Base64 of the bytes within other bytes: three alignments, without characters that depend on adjacent bytes. */
function inBase64(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    const end = Math.floor(((before + bytes.length) * 8) / 6)
    const certain = encoded.slice(Math.ceil((before * 8) / 6), end)
    return [certain, certain.replaceAll('+', '-').replaceAll('/', '_')]
  })
}

const MAX_CHARS = 1_000
/** Longer texts are cut before masking, which shortens them: a partial secret at the end is cut, too. */
const MAX_READ_CHARS = MAX_CHARS + 256

/** Masks our credentials, and text that looks like any other credential, then truncates. */
export function toPublic(text: string, { secrets }: Pick<Upstream, 'secrets'>): string {
  return redact(secrets.reduce(maskCredential, text.slice(0, MAX_READ_CHARS))).slice(0, MAX_CHARS)
}

const CODE = /^[\w.:-]{1,64}$/

/** An upstream's error code, which is stored and logged; null if it is invalid or contains a secret. */
export const toPublicCode = (code: string, upstream: Pick<Upstream, 'secrets'>): string | null =>
  CODE.test(code) && toPublic(code, upstream) === code ? code : null

const REQUEST_ID = /^[\w.:+/=@-]+$/

/** The upstream's request ID for the ledger; null if it is invalid or contains our credential. */
export function toPublicRequestId(id: string | null, { secrets }: Pick<Upstream, 'secrets'>): string | null {
  if (id === null || !REQUEST_ID.test(id) || secrets.some((secret) => id.includes(secret))) return null
  return id.slice(0, 128)
}
