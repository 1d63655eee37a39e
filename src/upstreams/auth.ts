/** Where an upstream is called below its address, and how it is told its credential: an API key, or a service account of Google's. Pure. */

import type { UpstreamSettings } from '../domain/dialects.ts'
import { asObject, asText, tryJson } from '../domain/json.ts'
import type { Upstream } from '../domain/snapshot.ts'

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

/**
 * Whether an upstream has the credential of a service account. Its JSON is like no API key; a path may be one, and is read only where
 * the upstream is said to have a key file.
 */
export const isServiceAccount = ({ credential, options }: Pick<Upstream, 'credential' | 'options'>): boolean =>
  credential !== null && (isJson(credential) || (options.service_account === true && isPath(credential)))

const isPath = (credential: string) => credential.startsWith('/') || credential.endsWith('.json')

export const isJson = (credential: string): boolean => credential.trimStart().startsWith('{')

export interface ServiceAccount {
  email: string
  /** PKCS #8, in PEM. */
  privateKey: string
  keyId: string
  /** Where it is exchanged for a token. */
  tokenUri: string
}

export const TOKEN_URI = 'https://oauth2.googleapis.com/token'

/** Reads a key file. Returns what is wrong with it, in words that go on a sentence, without a word of it. */
export function readServiceAccount(text: string): ServiceAccount | string {
  const file = tryJson(text)
  if (file === undefined) return 'is no JSON'
  const { type, client_email, private_key, private_key_id, token_uri } = asObject(file) ?? {}
  if (type !== 'service_account') return "is no service account's: its type is not service_account"
  const [email, privateKey] = [asText(client_email), asText(private_key)]
  if (email === '' || !privateKey.includes('BEGIN PRIVATE KEY')) return 'has no client_email or no private_key'
  return { email, privateKey, keyId: asText(private_key_id), tokenUri: asText(token_uri) || TOKEN_URI }
}

/** @param usual where its dialect has them, where the setting says nothing. */
export const toChatPath = ({ path }: Pick<UpstreamSettings, 'path'>, model: string, usual: string): string =>
  path === undefined ? usual : path.replaceAll('{model}', () => encodeURIComponent(model))

/** What an upstream's setting adds to every address; '' for nothing. */
export const toQuery = ({ query }: Pick<UpstreamSettings, 'query'>): string =>
  query ? `?${new URLSearchParams(query)}` : ''
