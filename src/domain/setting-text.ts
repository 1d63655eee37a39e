/** Parsers of setting values; null for invalid text. */
import { type IpRange, toIpRange } from './ip.ts'
import { toPostgresUrl } from './postgres-url.ts'
import { toMs } from './time.ts'

export type Read<T> = (text: string) => T | null

export const toHost: Read<string> = (text) => /^[\w.:-]+$/.exec(text)?.[0] ?? null

export interface ListenAddress {
  /** Null if omitted. */
  host: string | null
  port: number
}

/** `9464`, `10.0.0.5:9464`, or `[::1]:9464` */
export function toListenAddress(text: string): ListenAddress | null {
  const [, v6, name = null, digits] = /^(?:(?:\[([\da-f:.]+)\]|([\w.-]+)):)?(\d{1,5})$/i.exec(text) ?? []
  const port = Number(digits)
  return port >= 1 && port <= 65_535 ? { host: v6 ?? name, port } : null
}

/** Lowercase. An authority validates neither addresses nor names without a dot. */
export function toDomains(text: string): string[] | null {
  const names = text.split(',').map((name) => name.trim().toLowerCase())
  return names.every((name) => name.length <= 253 && DOMAIN.test(name)) ? [...new Set(names)] : null
}

const DOMAIN = /^(?:[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?\.)+[a-z][a-z\d-]{0,61}[a-z\d]$/

export function toFiles(text: string): string[] | null {
  const files = text.split(',').map((file) => file.trim())
  return files.includes('') ? null : files
}

export function time(min: number, max: number): Read<number> {
  return (text) => toMs(text, { min, max })
}

export const onOff: Read<boolean> = (text) => {
  if (/^(on|1|true|yes)$/.test(text)) return true
  return /^(off|0|false|no)$/.test(text) ? false : null
}

export const percent: Read<number> = (text) => {
  if (text === 'off') return 1
  const share = Number(/^(\d{1,3})%$/.exec(text)?.[1]) / 100
  return share >= 0.01 && share <= 1 ? share : null
}

export function oneOf<const T extends string>(words: readonly T[]): Read<T> {
  return (text) => words.find((word) => word === text) ?? null
}

export function orOff(read: Read<number>): Read<number> {
  return (text) => (text === 'off' || text === '0' ? 0 : read(text))
}

export function orForever(read: Read<number>): Read<number> {
  return (text) => (text === 'forever' ? Number.POSITIVE_INFINITY : read(text))
}

/** As browsers write them: no path, no default port. */
export function toOrigins(text: string): string[] | null {
  const origins = text.split(',').map((item) => toOrigin(item.trim()))
  return origins.includes(null) ? null : origins.filter((origin) => origin !== null)
}

/** Sign-in over plain HTTP can be intercepted. */
export function toPublicUrls(text: string): string[] | null {
  const origins = toOrigins(text)
  return origins?.every((origin) => origin.startsWith('https://')) ? origins : null
}

function toOrigin(text: string): string | null {
  if (text === '*') return text
  const url = text.includes('*') ? null : URL.parse(text)
  // Applications have their own schemes (`app://localhost`, `chrome-extension://<id>`), whose origin the standard leaves open.
  if (url === null || url.host === '' || !['', '/'].includes(url.pathname)) return null
  return isBare(url) ? `${url.protocol}//${url.host}` : null
}

/** Credentials belong in a variable, since other users can read arguments. A path can follow. */
const isBare = ({ username, password, href }: URL) => username + password === '' && !/[?#]/.test(href)

/** HTTPS, or HTTP to this machine. Unchanged, since issuers are compared exactly, including a trailing slash. */
export function toSecureUrl(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || !isBare(url)) return null
  const isHere = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)
  return url.protocol === 'https:' || (url.protocol === 'http:' && isHere) ? text : null
}

/** A PostgreSQL URL, or the absolute path of a file with one. */
export const toClusterUrl: Read<string> = (text) =>
  /^\/[^\p{Cc}]*$/u.test(text) || toPostgresUrl(text) !== null ? text : null

const VALKEY = /^(?:valkey|redis)(?:s|\+tls|\+unix|\+tls\+unix)?:$/

/** A Valkey or Redis URL, or the absolute path of a file with one. */
export const toLimitsUrl: Read<string> = (text) =>
  /^\/[^\p{Cc}]*$/u.test(text) || VALKEY.test(URL.parse(text)?.protocol ?? '') ? text : null

export function toCollector(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return null
  return isBare(url) ? url.href.replace(/\/+$/, '') : null
}

/** For messages: removes a possible URL's user, password, query, and fragment. */
export const withoutSecrets = (text: string): string =>
  text.includes('://')
    ? text.replace(/:\/\/.*@/s, '://***@').replace(/([?#]).*/s, '$1***')
    : text.replace(/^.*:.*@/s, '***@')

/** Unlike `percent`, accepts fractions of one percent. */
export const toSample: Read<number> = (text) => {
  const share = Number(/^(\d{1,3}(?:\.\d{1,4})?)%$/.exec(text)?.[1]) / 100
  return share >= 0 && share <= 1 ? share : null
}

export const toWord: Read<string> = (text) => /^[^\s\p{Cc}]{1,255}$/u.exec(text)?.[0] ?? null

export function toIpRanges(text: string): IpRange[] | null {
  const ranges = text.split(',').map((item) => toIpRange(item.trim()))
  const right = ranges.filter((range) => 'bits' in range)
  return right.length === ranges.length ? right : null
}

export function number(min: number, max: number): Read<number> {
  return (text) => (/^\d+$/.test(text) && Number(text) >= min && Number(text) <= max ? Number(text) : null)
}

export function size(min: number): Read<number> {
  return (text) => {
    const [, amount, unit] = /^(\d{1,6})(M|G|T)(?:i?B)?$/i.exec(text) ?? []
    const bytes = Number(amount) * 1024 ** 'MGT'.indexOf(unit?.toUpperCase() ?? '') * 1024 ** 2
    return bytes >= min ? bytes : null
  }
}
