/** How an upstream is told its credential. Pure. */
import type { Upstream } from '../domain/snapshot.ts'
import { isServiceAccount } from './google/credential.ts'

/** @param said by which header, as the setting `auth` says it. */
export function toAuthHeaders(
  upstream: Pick<Upstream, 'credential' | 'options'>,
  said: string,
): Record<string, string> {
  const { credential } = upstream
  // A service account of Google's gets a token for each request.
  if (credential === null || isServiceAccount(upstream)) return {}
  const [header = '', scheme] = said === 'bearer' ? ['authorization', 'Bearer'] : said.split(' ')
  return { [header]: scheme === undefined ? credential : `${scheme} ${credential}` }
}
