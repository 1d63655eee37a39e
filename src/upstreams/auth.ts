/** Paths of upstreams, and their credentials: an API key, or a Google service account. */

import type { UpstreamSettings } from '../domain/dialects.ts'
import { asObject, asText, tryJson } from '../domain/json.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'

export function toAuthHeaders(
  upstream: Pick<Upstream, 'credential' | 'options'>,
  said: string,
): Record<string, string> {
  const { credential } = upstream
  // The authority gets a token for each request.
  if (credential === null || isServiceAccount(upstream)) return {}
  const [header = '', scheme] = said === 'bearer' ? ['authorization', 'Bearer'] : said.split(' ')
  return { [header]: scheme === undefined ? credential : `${scheme} ${credential}` }
}

/** True for a service account's JSON, which no API key resembles, or for a path with the setting `service_account`. */
export const isServiceAccount = ({ credential, options }: Pick<Upstream, 'credential' | 'options'>): boolean =>
  credential !== null && (isJson(credential) || (options.service_account === true && isPath(credential)))

const isPath = (credential: string) => credential.startsWith('/') || credential.endsWith('.json')

export const isJson = (credential: string): boolean => credential.trimStart().startsWith('{')

export interface ServiceAccount {
  email: string
  /** PKCS #8, in PEM. */
  privateKey: string
  keyId: string
  tokenUri: string
}

export const TOKEN_URI = 'https://oauth2.googleapis.com/token'

/** Returns the account, or what is wrong as the end of a sentence, which quotes nothing of the file. */
export function readServiceAccount(text: string): ServiceAccount | string {
  const file = tryJson(text)
  if (file === undefined) return 'is not JSON'
  const { type, client_email, private_key, private_key_id, token_uri } = asObject(file) ?? {}
  if (type !== 'service_account') return 'has a type other than service_account'
  const [email, privateKey] = [asText(client_email), asText(private_key)]
  if (email === '' || !privateKey.includes('BEGIN PRIVATE KEY')) return 'lacks client_email or private_key'
  return { email, privateKey, keyId: asText(private_key_id), tokenUri: asText(token_uri) || TOKEN_URI }
}

/** @param usual path of the dialect, used unless the setting overrides it. */
export const toChatPath = ({ path }: Pick<UpstreamSettings, 'path'>, model: string, usual: string): string =>
  path === undefined ? usual : path.replaceAll('{model}', () => encodeURIComponent(model))

export const CHATS = '/chat/completions'

/** The path of another endpoint in OpenAI's format, derived from the chat path if that is the usual one. */
export function toEndpointPath(
  { upstream: { options }, upstreamModel }: Pick<Target, 'upstreamModel'> & { upstream: Pick<Upstream, 'options'> },
  endpoint: `/${string}`,
): string {
  const path = toChatPath(options, upstreamModel, CHATS)
  const before = path.endsWith(CHATS) ? path.slice(0, -CHATS.length) : ''
  return `${before}${endpoint}${toQuery(options)}`
}

export const toQuery = ({ query }: Pick<UpstreamSettings, 'query'>): string =>
  query ? `?${new URLSearchParams(query)}` : ''
