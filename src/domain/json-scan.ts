/**
 * What reading a JSON text would cost, found in one pass over it and before it is parsed: a few megabytes may hold millions
 * of values, or be nested so deeply that nobody can write them again. Takes a text whole, or piece by piece as it arrives.
 * Of a text that is no JSON it tells what a parser meets up to where it gives up, or more. Pure.
 */

/** The most that a text may have of each. */
export interface JsonLimits {
  /** How deeply lists and objects may be nested. */
  depth: number
  /** Lists, objects, texts, numbers and words, whatever holds them; names of fields are none. */
  values: number
  /** Backslashes in texts and names: a parser takes those apart letter by letter. */
  escapes: number
  /** Characters outside of texts and names: a number may be as long as it likes. */
  bare: number
}

export const QUOTE = 0x22
export const COMMA = 0x2c
export const COLON = 0x3a
export const BACKSLASH = 0x5c
/** `[` and `{` differ in this bit, and so do `]` and `}`. */
export const OBJECT_BIT = 0x20
export const OPENING = 0x7b
export const CLOSING = 0x7d

/** Most texts are shorter: up to here it is quicker to look at each letter than to have the end searched for. */
export const SHORT = 32

export class JsonScan {
  /** As many as were found so far. */
  values = 1
  /** Names of fields. */
  names = 0
  /** Where the longest list or object that the outermost object holds stands. */
  longest: { from: number; to: number } | null = null
  private readonly limits: JsonLimits
  private depth = 0
  /** Of the pieces before, in characters. */
  private taken = 0
  /** Where what the outermost one holds was opened. */
  private heldFrom = 0
  private escapes = 0
  private bare = 0
  private isInText = false
  /** Whether the last piece ended with a backslash. */
  private isEscaped = false
  /** Whether it ended within a list or object that nothing stands in yet. */
  private isEmpty = false

  constructor(limits: JsonLimits) {
    this.limits = limits
  }

  /** Reads on. Returns what there is too much of, or null. */
  take(piece: string): keyof JsonLimits | null {
    const { limits } = this
    const end = piece.length
    let { depth, values, escapes, isInText } = this
    let at = this.isEscaped ? 1 : 0
    let bareFrom = at
    // Behind the list or object that was opened last, as long as nothing but space may have come since.
    let openedAt = this.isEmpty ? 0 : -1
    // The next ones from `at` on, where they have been searched for.
    let quote = -1
    let backslash = -1
    while (at < end) {
      if (isInText) {
        const near = Math.min(end, at + SHORT)
        let code = 0
        while (at < near) {
          code = piece.charCodeAt(at)
          if (code === QUOTE || code === BACKSLASH) break
          at++
        }
        if (at === near) {
          if (quote < at) quote = indexOf(piece, '"', at)
          if (backslash < at) backslash = indexOf(piece, '\\', at)
          at = Math.min(quote, backslash)
          if (at === end) break
          code = at === quote ? QUOTE : BACKSLASH
        }
        if (code === BACKSLASH) {
          if (++escapes > limits.escapes) return 'escapes'
          at += 2
          continue
        }
        isInText = false
        bareFrom = ++at
        continue
      }
      const code = piece.charCodeAt(at++)
      if (code === QUOTE) {
        isInText = true
        openedAt = -1
        this.bare += at - bareFrom
      } else if (code === COMMA) {
        if (++values > limits.values) return 'values'
        openedAt = -1
      } else if (code === COLON) {
        this.names++
      } else if ((code | OBJECT_BIT) === OPENING) {
        if (++depth > limits.depth) return 'depth'
        if (depth === 2) this.heldFrom = this.taken + at - 1
        // For the first that stands in it, if one does: the others have a comma before them.
        if (values++ > limits.values) return 'values'
        openedAt = at
      } else if ((code | OBJECT_BIT) === CLOSING) {
        if (depth === 2) this.hold(this.taken + at)
        depth--
        if (openedAt !== -1 && isSpace(piece, openedAt, at - 1)) values--
        if (values > limits.values) return 'values'
        openedAt = -1
      }
    }
    this.taken += end
    this.depth = depth
    this.values = values
    this.escapes = escapes
    this.isInText = isInText
    this.isEscaped = at > end
    this.isEmpty = openedAt !== -1 && isSpace(piece, openedAt, end)
    if (!isInText) this.bare += end - bareFrom
    return this.bare > limits.bare ? 'bare' : null
  }

  private hold(to: number): void {
    const from = this.heldFrom
    const { longest } = this
    if (longest === null || to - from > longest.to - longest.from) this.longest = { from, to }
  }
}

/** Where it stands from there on, or the end. */
export function indexOf(text: string, what: string, from: number): number {
  const found = text.indexOf(what, from)
  return found === -1 ? text.length : found
}

const isSpace = (text: string, from: number, to: number) => from >= to || text.slice(from, to).trim() === ''
