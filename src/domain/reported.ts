/**
 * What an upstream says that a call costs, read exactly: from the digits that it wrote, which a double would not hold, to whole
 * nano-dollars, rounded once, half up. Pure.
 */

import type { ReportedCost } from './dialects.ts'
import { asObject, parseJson, type Reviver } from './json.ts'

const NUMBER = /^(\d{1,40})(?:\.(\d{1,40}))?(?:e([+-]?\d{1,3}))?$/i

/** How many places a unit is behind the dollar. */
const PLACES: Readonly<Record<ReportedCost['unit'], number>> = { usd: 0, '1e-10usd': 10 }

/** No call costs more than a million dollars: beyond it a number is nonsense, and sums would stop being exact. */
const MOST_NANO_USD = 10n ** 15n

/** Reads a number as JSON has it, in integer nano-dollars; null for what is none, is below zero or beyond all sense. */
export function toNanoUsd(text: string, unit: ReportedCost['unit']): number | null {
  const [, whole = '', places = '', exponent = '0'] = NUMBER.exec(text.trim()) ?? []
  if (whole === '') return null
  const digits = BigInt(whole + places)
  if (digits === 0n) return 0
  // The last digit stands for 10^shift nano-dollars.
  const shift = Number(exponent) - places.length - PLACES[unit] + 9
  if (shift > 20) return null
  const nano = shift >= 0 ? digits * 10n ** BigInt(shift) : divide(digits, 10n ** BigInt(-shift))
  return nano > MOST_NANO_USD ? null : Number(nano)
}

const divide = (digits: bigint, by: bigint) => (digits + by / 2n) / by

/** A longer text would hold the event loop if it was parsed once more: the nearest double is exact enough. */
const MOST_PARSED_CHARS = 100_000

/**
 * Finds what an answer says that it costs, at the path of the upstream's setting; null where it says nothing that can be read.
 *
 * @param text of the same answer: what parsing it has lost of a number.
 */
export function findReported(answer: unknown, text: string, { path, unit }: ReportedCost): number | null {
  const names = path.split('.')
  const value = follow(answer, names)
  if (typeof value === 'string') return toNanoUsd(value, unit)
  if (typeof value !== 'number') return null
  const found = findDigits(text, names.at(-1) ?? '', value)
  const written = found ?? (text.length > MOST_PARSED_CHARS ? String(value) : parseDigits(text, names))
  return typeof written === 'string' ? toNanoUsd(written, unit) : null
}

/** A number as the value of a key that ends where it is looked for. */
const VALUE = /\s*:\s*(-?\d[\d.e+-]*)/iy

/**
 * Finds the digits of a number that was parsed under such a name: a search is much quicker than to parse all of a chunk again. Null
 * where it is not found, or where two of that name, which no double tells apart, are written in other digits.
 */
function findDigits(text: string, name: string, value: number): string | null {
  const key = JSON.stringify(name)
  let found: string | null = null
  for (let at = text.indexOf(key); at !== -1; at = text.indexOf(key, at + key.length)) {
    VALUE.lastIndex = at + key.length
    const digits = VALUE.exec(text)?.[1]
    if (digits === undefined || Number(digits) !== value) continue
    if (found !== null && found !== digits) return null
    found = digits
  }
  return found
}

function parseDigits(text: string, names: readonly string[]): unknown {
  const last = names.at(-1)
  const keep: Reviver = (name, each, { source }) => (name === last && typeof each === 'number' ? source : each)
  return follow(parseJson(text, keep), names)
}

function follow(value: unknown, names: readonly string[]): unknown {
  let at = value
  for (const name of names) {
    const held = asObject(at)
    at = held !== null && Object.hasOwn(held, name) ? held[name] : undefined
  }
  return at
}
