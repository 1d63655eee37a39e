/**
 * Secrets of keys: `sk-tg-`, 32 random characters of [A-Za-z0-9], and 6 of a base62 CRC-32, which lets scanners for
 * leaked secrets recognize them. Only the hash is stored; a secret must not reach a log. Also authenticates requests.
 */
import { type Decision, GatewayError } from '../domain/error.ts'
import { type Ip, type IpRange, isIn, toIpRange, toIpText } from '../domain/ip.ts'
import type { Key, Snapshot } from '../domain/snapshot.ts'
import type { StoredSecret } from '../store/config-store.ts'

const PREFIX = 'sk-tg-'
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const RANDOM_LENGTH = 32
const CHECK_LENGTH = 6
const SHAPE = /^sk-tg-[A-Za-z0-9]{38}$/

/**
 * 190 bits from the system's generator.
 * @param prefix scripts' tokens have another.
 */
export function mintToken(prefix = PREFIX): string {
  let random = ''
  while (random.length < RANDOM_LENGTH) {
    for (const byte of crypto.getRandomValues(new Uint8Array(48))) {
      // 248 = 4 * 62: more would bias the first letters.
      if (byte < 248 && random.length < RANDOM_LENGTH) random += ALPHABET[byte % 62]
    }
  }
  return prefix + random + toCheck(random)
}

export function mintSecret(nowMs: number): { secret: string; stored: StoredSecret } {
  const secret = mintToken()
  const stored = { hash: hashToken(secret), lastFour: secret.slice(-4), createdMs: nowMs, expiresMs: null }
  return { secret, stored }
}

/** SHA-256 as 64 lower-case hex digits. */
export function hashToken(token: string): string {
  return Bun.SHA256.hash(token, 'hex')
}

/** The only part shown later. */
export function toMasked(lastFour: string): string {
  return `${PREFIX}…${lastFour}`
}

export function maskToken(token: string): string {
  if (SHAPE.test(token)) return toMasked(token.slice(-4))
  // Half of a short secret would reveal it; non-ASCII stays out of terminals and logs.
  const end = token.length >= 16 && /^[\x21-\x7e]{4}$/.test(token.slice(-4)) ? token.slice(-4) : ''
  return `…${end}`
}

function toCheck(random: string): string {
  let rest = Bun.hash.crc32(random)
  let check = ''
  for (let digit = 0; digit < CHECK_LENGTH; digit++) {
    check = (ALPHABET[rest % 62] ?? '') + check
    rest = Math.floor(rest / 62)
  }
  return check
}

/** By lower-case name. */
type Headers = Readonly<Record<string, string | undefined>>

/** The address of a client; `behind` a trusted proxy that forwards no valid address; null if unknown. */
export type ClientIp = Ip | { behind: Ip } | null

export type IpOf = (request: Request, headers: Headers) => ClientIp

export interface Caller {
  request: Request
  headers: Headers
  /** From `toToken`; null if there was none. */
  token: string | null
  /** Only called if the key restricts addresses. */
  ipOf: IpOf
}

/** The key of a request, if it is valid now and from the client's address. */
export function authenticate(snapshot: Snapshot, caller: Caller, nowMs: number): Decision<Key> {
  const { token } = caller
  if (!token) {
    return new GatewayError(
      'no_key',
      "You didn't provide an API key. Send one in the Authorization header: `Authorization: Bearer sk-tg-…`.",
    )
  }
  const secret = snapshot.secrets.get(hashToken(token))
  if (!secret) return invalidKey(`Incorrect API key provided: ${maskToken(token)}.`)
  const { key } = secret
  if (key.revokedMs !== null) return invalidKey(`This API key was revoked: ${maskToken(token)}.`, key)
  if (key.expiresMs !== null && key.expiresMs <= nowMs)
    return invalidKey(`This API key expired on ${new Date(key.expiresMs).toISOString()}: ${maskToken(token)}.`, key)
  if (secret.expiresMs !== null && secret.expiresMs <= nowMs) {
    const expired = `expired on ${new Date(secret.expiresMs).toISOString()}`
    return invalidKey(`This API key was rotated and ${expired}: ${maskToken(token)}.`, key)
  }
  if (key.allowedIps.length === 0) return key
  return checkIp(key, caller.ipOf(caller.request, caller.headers)) ?? key
}

const invalidKey = (what: string, key?: Key) =>
  new GatewayError('invalid_key', `${what} Ask your administrator for a new key.`, key ? { key } : {})

/** Parsed per list. Texts that this version can't parse allow no one. */
const ranges = new WeakMap<readonly string[], IpRange[]>()

const toRanges = (texts: readonly string[]) => texts.map(toIpRange).filter((range) => 'bits' in range)

/** An unknown address is in no list. */
function checkIp(key: Key, client: ClientIp): GatewayError | null {
  const ip = client === null || 'behind' in client ? null : client
  if (ip !== null && ranges.getOrInsertComputed(key.allowedIps, toRanges).some((range) => isIn(range, ip))) return null
  const text = toText(client)
  const where = ip === null ? 'an unknown address' : `the address ${text}`
  return new GatewayError(
    'ip_not_allowed',
    `This API key can't be used from ${where}. Ask your administrator to allow it.`,
    // Shows whether a key was stolen or its list is incomplete.
    { key, logged: { ip: text } },
  )
}

/** Never the forwarded text, which a client may have chosen. */
function toText(client: ClientIp): string {
  if (client === null) return 'unknown'
  return 'behind' in client
    ? `unknown: no address in x-forwarded-for behind ${toIpText(client.behind)}`
    : toIpText(client)
}

/** Headers of other APIs (Anthropic, Azure, Google); some clients send several. */
const OTHER_HEADERS = ['x-api-key', 'api-key', 'x-goog-api-key'] as const

/**
 * The token of a request: the first in `authorization`, the headers above, and the URL that looks like our key, else
 * the first of any kind; null if there is none.
 * @param found by Elysia's plugin in `authorization`.
 * @param inUrl key in the URL, which only Google's clients send.
 */
export function toToken(found: string | undefined, headers: Headers, inUrl: string | null = null): string | null {
  const bearer = toBearer(found, headers.authorization)
  if (bearer?.startsWith(PREFIX)) return bearer
  const others = [...OTHER_HEADERS.map((name) => headers[name]?.trim()), inUrl?.trim()]
  return others.find((other) => other?.startsWith(PREFIX)) ?? (bearer || others.find(Boolean) || null)
}

/**
 * The plugin matches one case of the scheme only, and accepts anything after the word, even without a space.
 */
function toBearer(found: string | undefined, authorization = ''): string | null {
  if (found && authorization.startsWith('Bearer ')) return found.trim()
  return bearerOf(authorization)
}

/** The scheme is case-insensitive (RFC 9110, section 11.1). */
export const bearerOf = (authorization: string | null): string | null =>
  /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1] ?? null
