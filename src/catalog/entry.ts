/** Raw values of unknown types, and hints, for the catalog checks. */
import { isObject } from '../domain/json.ts'

export interface Issue {
  segments: (string | number)[]
  message: string
}

export type Entry = Record<string, unknown>
export type Path = Issue['segments']

export const toEntry = (value: unknown): Entry => (isObject(value) ? value : {})
export const toItems = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

export const issue = (segments: Path, message: string): Issue => ({ segments, message })

/** Includes upstreams whose server Tollgate starts. */
export const isLocal = (upstream: unknown) =>
  toEntry(upstream).local === true || toEntry(upstream).process !== undefined

/** Such as `openai/*`. */
export const isWildcard = (slug: string) => slug.includes('*')

const VENDOR = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}'
const SLUG = new RegExp(`^${VENDOR}/[A-Za-z0-9][A-Za-z0-9._:@+~-]{0,127}$`)
const WILDCARD = new RegExp(`^${VENDOR}/([A-Za-z0-9][A-Za-z0-9._:@+~-]{0,126})?\\*$`)

export const isSlug = (text: string) => SLUG.test(text)

export const isWildcardName = (text: string) => WILDCARD.test(text)

const UPSTREAM_ID = /^[a-z0-9][a-z0-9._-]{0,63}$/

export const isUpstreamId = (text: string) => UPSTREAM_ID.test(text)
