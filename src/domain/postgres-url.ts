/** PostgreSQL URLs: one or more addresses, with TLS verified by default. */
import { isLoopback } from './ip.ts'

export interface PostgresAddress {
  /** A name, an address, or the folder of a Unix socket, which starts with a slash. */
  host: string
  port: number
}

const TLS_MODES = ['disable', 'no-verify', 'verify-ca', 'verify-full'] as const
export type TlsMode = (typeof TLS_MODES)[number]

export interface PostgresUrl {
  /** One or more; the writable one is used. */
  addresses: readonly PostgresAddress[]
  /** Null = from the environment. */
  user: string | null
  password: string | null
  database: string | null
  /** Null = verified, except on this machine. */
  tls: TlsMode | null
  /** PEM file of authorities; null = those the runtime trusts. */
  caFile: string | null
  channelBinding: 'disable' | 'prefer' | 'require'
  /** For a pooler that changes the session between transactions. */
  isPooled: boolean
}

const PARTS = /^postgres(?:ql)?:\/\/(?:([^/?]*)@)?([^/?@]*)(?:\/([^/?]*))?(?:\?(.*))?$/
const HOST = /^(?:\[([\da-f:.]+)\]|([^\s:[\]@]+))?(?::(\d{1,5}))?$/i
const PORT = 5432
/** Stricter than `libpq`: encryption requires a verified server. */
const SSLMODES: Readonly<Record<string, TlsMode>> = { require: 'verify-full' }
/** Others, such as `prefer`, are rejected: an attacker could turn off their encryption. */
const toTlsMode = (text: string): TlsMode | null => SSLMODES[text] ?? TLS_MODES.find((mode) => mode === text) ?? null

/** Null if the URL is invalid or has an unknown parameter. */
export function toPostgresUrl(text: string): PostgresUrl | null {
  const [match, login, hosts = '', path, query] = PARTS.exec(text) ?? []
  if (match === undefined) return null
  const parameters = new Map(new URLSearchParams(query))
  const take = (name: string): string | null => {
    const value = parameters.get(name) ?? null
    parameters.delete(name)
    return value
  }
  const port = take('port')
  const addresses = (hosts || (take('host') ?? 'localhost')).split(',').map((each) => toAddress(each, port))
  const [user = null, ...password] = login?.split(':').map(decode) ?? []
  const sslmode = take('sslmode')
  const tls = sslmode === null ? null : toTlsMode(sslmode)
  const channelBinding = take('channel_binding') ?? 'prefer'
  const pooler = take('pooler') ?? take('pgbouncer') ?? 'false'
  const caFile = take('sslrootcert')
  // The client always looks for the writable address.
  const wanted = take('target_session_attrs') ?? 'read-write'
  const found = addresses.filter((address) => address !== null)
  if (found.length < addresses.length || parameters.size > 0 || (sslmode !== null && tls === null)) return null
  if (!/^(true|false)$/.test(pooler) || !/^(any|read-write|primary)$/.test(wanted)) return null
  if (channelBinding !== 'disable' && channelBinding !== 'prefer' && channelBinding !== 'require') return null
  return {
    ...{ addresses: found, user: user || null, password: password.length > 0 ? password.join(':') : null },
    ...{ database: path ? decode(path) : null, tls, caFile: caFile === 'system' ? null : caFile, channelBinding },
    isPooled: pooler === 'true',
  }
}

function toAddress(text: string, commonPort: string | null): PostgresAddress | null {
  if (text.startsWith('/')) return { host: text, port: Number(commonPort ?? PORT) }
  const [match, v6, name, ownPort] = HOST.exec(text) ?? []
  const [host, port] = [v6 ?? name, Number(ownPort ?? commonPort ?? PORT)]
  return match === undefined || host === undefined || !(port >= 1 && port <= 65_535) ? null : { host, port }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** This machine, where no one can intercept. */
export const isLocal = ({ host }: PostgresAddress): boolean => host.startsWith('/') || isLoopback(host)

export const toAddressText = ({ host, port }: PostgresAddress): string =>
  host.startsWith('/') ? host : host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
