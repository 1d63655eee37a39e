/** How an upstream is told its credential, by its setting `auth`. Pure. */
import type { UpstreamSettings } from '../domain/settings.ts'
import { isServiceAccount } from './google/credential.ts'

/** @param usual how its dialect does it, where the setting says nothing. */
export function toAuthHeaders(
  credential: string | null,
  { auth }: Pick<UpstreamSettings, 'auth'>,
  usual: string,
): Record<string, string> {
  // A service account of Google's gets a token for each request.
  if (credential === null || isServiceAccount(credential)) return {}
  const said = auth ?? usual
  const [header = '', scheme] = said === 'bearer' ? ['authorization', 'Bearer'] : said.split(' ')
  return { [header]: scheme === undefined ? credential : `${scheme} ${credential}` }
}
