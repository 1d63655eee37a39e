/**
 * The secret of a key: `sk-tg-` + 32 random characters of [A-Za-z0-9] + 6 of base62 CRC-32 of those. The checksum lets a
 * scanner of leaked secrets tell a key from noise; the server itself only looks its hash up. Nothing but the hash is ever
 * stored; a secret must not reach a log. And whom the secret of a request lets in, and from where.
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
 * Makes a new secret: 190 bits from the system's generator.
 *
 * @param prefix what it is known by; that of a token for scripts is another.
 */
export function mintToken(prefix = PREFIX): string {
  let random = ''
  while (random.length < RANDOM_LENGTH) {
    for (const byte of crypto.getRandomValues(new Uint8Array(48))) {
      // 248 = 4 * 62: bytes beyond it would make the first letters likelier.
      if (byte < 248 && random.length < RANDOM_LENGTH) random += ALPHABET[byte % 62]
    }
  }
  return prefix + random + toCheck(random)
}

/** Makes a secret, and what is stored of it. */
export function mintSecret(nowMs: number): { secret: string; stored: StoredSecret } {
  const secret = mintToken()
  const stored = { hash: hashToken(secret), lastFour: secret.slice(-4), createdMs: nowMs, expiresMs: null }
  return { secret, stored }
}

/** Hashes a secret as `key_secrets.hash` holds it: SHA-256, 64 lower-case hex digits. */
export function hashToken(token: string): string {
  return Bun.SHA256.hash(token, 'hex')
}

/** What is shown of a key ever after: `sk-tg-…` and its last four characters. */
export function toMasked(lastFour: string): string {
  return `${PREFIX}…${lastFour}`
}

/** Masks a secret from a request for an error sentence, whatever it is. */
export function maskToken(token: string): string {
  if (SHAPE.test(token)) return toMasked(token.slice(-4))
  // A short secret shown by half would be no secret; what is not ASCII stays out of terminals and logs.
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

/**
 * The address of a client; where a proxy that is trusted says of it what is no address, that proxy's, which is not where it is;
 * null where it has none.
 */
export type ClientIp = Ip | { behind: Ip } | null

/** Finds the address of a request's client. */
export type IpOf = (request: Request, headers: Headers) => ClientIp

/** Who asks, before that is proved. */
export interface Caller {
  request: Request
  headers: Headers
  /** What the request brought (`toToken`), or null where it brought none. */
  token: string | null
  /** Not called where the key may be used from everywhere. */
  ipOf: IpOf
}

/** The key of a request, if that may be used now and from there. */
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
  if (key.revokedMs !== null) return invalidKey(`This API key was revoked: ${maskToken(token)}.`)
  if (key.expiresMs !== null && key.expiresMs <= nowMs)
    return invalidKey(`This API key expired on ${new Date(key.expiresMs).toISOString()}: ${maskToken(token)}.`)
  if (secret.expiresMs !== null && secret.expiresMs <= nowMs) {
    const ended = `ended on ${new Date(secret.expiresMs).toISOString()}`
    return invalidKey(`This API key was replaced by a new one and ${ended}: ${maskToken(token)}.`)
  }
  if (key.allowedIps.length === 0) return key
  return checkIp(key, caller.ipOf(caller.request, caller.headers)) ?? key
}

const invalidKey = (what: string) =>
  new GatewayError('invalid_key', `${what} Ask the administrator of this server for one.`)

/** By lists as keys have them. A text that this version does not understand allows nobody. */
const ranges = new WeakMap<readonly string[], IpRange[]>()

const toRanges = (texts: readonly string[]) => texts.map(toIpRange).filter((range) => 'bits' in range)

/** An address that nobody knows is in no list. */
function checkIp({ id, allowedIps }: Key, client: ClientIp): GatewayError | null {
  const ip = client === null || 'behind' in client ? null : client
  if (ip !== null && ranges.getOrInsertComputed(allowedIps, toRanges).some((range) => isIn(range, ip))) return null
  const text = toText(client)
  const where = ip === null ? 'an address that is not known' : `the address ${text}`
  return new GatewayError(
    'ip_not_allowed',
    `This API key may not be used from ${where}. Ask the administrator of this server to allow it.`,
    // A stolen key, or a list that lacks somebody: without the address nobody could tell which.
    { logged: { key: id, ip: text } },
  )
}

/** Not what the proxy says: that may be the client's own words. */
function toText(client: ClientIp): string {
  if (client === null) return 'unknown'
  return 'behind' in client
    ? `unknown: no address in x-forwarded-for behind ${toIpText(client.behind)}`
    : toIpText(client)
}

/** Where clients of other APIs put their key (Anthropic's, Azure's); some of them send several of these. */
const OTHER_HEADERS = ['x-api-key', 'api-key'] as const

/**
 * The token of a request: the first in `authorization`, `x-api-key` and `api-key` that is a key of ours by its beginning, else
 * the first of any kind; null where it brings none.
 * @param found what Elysia's plugin found in the header `authorization`
 */
export function toToken(found: string | undefined, headers: Headers): string | null {
  const bearer = toBearer(found, headers.authorization)
  if (bearer?.startsWith(PREFIX)) return bearer
  const others = OTHER_HEADERS.map((name) => headers[name]?.trim())
  return others.find((other) => other?.startsWith(PREFIX)) ?? (bearer || others.find(Boolean) || null)
}

/**
 * The plugin looks for one case of the scheme, which does not count (RFC 9110, section 11.1), and takes whatever follows the
 * word, be it glued to it or behind a colon.
 */
function toBearer(found: string | undefined, authorization = ''): string | null {
  if (found && authorization.startsWith('Bearer ')) return found.trim()
  return /^bearer +(\S+)$/i.exec(authorization)?.[1] ?? null
}
