/** Where the credential of an upstream goes, and how: whoever changes that has to have the credential. Pure. */
import type { UpstreamRow } from './catalog-rows.ts'

export type Place = Pick<UpstreamRow, 'dialect' | 'baseUrl' | 'options'>

/** What makes a place: the same for as long as the credential goes to the same address in the same manner. */
export function toPlace({ dialect, baseUrl, options }: Place): unknown[] {
  const { preset, path, auth, service_account, query, headers } = options
  const more = Object.entries({ preset, path, auth, service_account, query: sorted(query), headers: sorted(headers) })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, value])
  // Credentials of upstreams that say none of it were sealed when there was none of it to say.
  return more.length === 0 ? [dialect, baseUrl] : [dialect, baseUrl, more]
}

/** Whether a credential would go where it went. */
export const isSamePlace = (one: Place, other: Place): boolean => Bun.deepEquals(toPlace(one), toPlace(other))

const sorted = (texts: Record<string, string> | undefined) =>
  texts && Object.entries(texts).sort(([a], [b]) => (a < b ? -1 : 1))
