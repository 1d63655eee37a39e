/**
 * Finds a credential in what an upstream says, also where it says only part of it: with a character more or less, in other
 * letters, percent-encoded, in base64 or in hexadecimal. Called for the words of failures, never for answers. Pure.
 */

/** So many characters in a row are no accident; of a short credential, nearly half of it. */
const LONGEST_WINDOW = 16
const SHORTEST_WINDOW = 8

/** What a mark of ours stands for. */
const MASK = '…'

/** What may stand next to a part of a credential and belong to it. */
const RUN = /[A-Za-z0-9+/=_~.%-]/

interface Windows {
  length: number
  /** Every piece of that length of every form of the credential, in lower case. */
  pieces: ReadonlySet<string>
}

/** Puts a mark in the place of every run of characters that holds a long enough part of the credential. */
export function maskCredential(text: string, credential: string): string {
  if (credential.length < SHORTEST_WINDOW) return text.replaceAll(credential, MASK)
  const { length, pieces } = windowsOf(credential)
  const lower = text.toLowerCase()
  // Some letters become two: then the places would not be the same.
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

/** Of the credentials that were last asked about: there are a few for each upstream. */
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

/** Base64 of the bytes inside of other bytes: three ways, by where they begin, without what depends on their neighbours. */
function inBase64(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    const end = Math.floor(((before + bytes.length) * 8) / 6)
    const certain = encoded.slice(Math.ceil((before * 8) / 6), end)
    return [certain, certain.replaceAll('+', '-').replaceAll('/', '_')]
  })
}
