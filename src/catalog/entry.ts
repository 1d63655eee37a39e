/** Raw values of a catalogue, read before anything is known of their types. Pure. */
import { isObject } from '../validation/explain-words.ts'

export type Entry = Record<string, unknown>
export type Path = (string | number)[]

export const toEntry = (value: unknown): Entry => (isObject(value) ? value : {})
export const toItems = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/** Whether a route costs nothing of its own: its upstream is declared as local. */
export function isLocal(upstream: unknown): boolean {
  return toEntry(upstream).local === true
}

/** Whether a model's name is a pattern, such as `openai/*`. */
export const isWildcard = (slug: string) => slug.includes('*')
