/**
 * The settings of a server, each from the first place that has it: flag, environment (`TOLLGATE_<FLAG>`), settings row,
 * default. Every wrong value is listed in one message. Pure.
 */

import { type IpRange, toIpRange } from './domain/ip.ts'
import { toClaimRoles } from './domain/roles.ts'
import { ServiceError } from './domain/service-error.ts'
import { DAY_MS, DISCONNECT_GRACE_MS, TIMER_MS, toMs } from './domain/time.ts'
import type { LogLevel } from './log.ts'

type Texts = Readonly<Record<string, string | undefined>>

interface ConfigSources {
  /** By flag name without the dashes. */
  flags: Texts
  environment: Texts
  /** Rows of the settings table, by key; the key of a flag is its name. */
  settings: Texts
}

/** Where a setting is from. */
type SettingPlace = 'flag' | 'environment' | 'setting' | 'default'

/** A setting of `serve`, in words. */
export interface SettingText {
  /** Of its flag, without the dashes, and of its row. */
  name: string
  /** Null = none. */
  text: string | null
  place: SettingPlace
  /** What holds where nothing is said. */
  byDefault: string | null
  expected: string
}

/** A setting in force, and what its row says now. */
export interface Setting extends SettingText {
  /** The row; null where there is none. */
  stored: string | null
  /** Whether the next start brings another value than the one in force. */
  isPending: boolean
}

/**
 * How people sign in, and where a secret of the environment is sent: whoever starts the server says it, and neither an owner in the
 * dashboard nor a backup that is restored.
 */
export const WITHOUT_ROW: readonly string[] = [
  ...['oidc-issuer', 'oidc-client-id', 'oidc-claim', 'oidc-role', 'password-sign-in'],
]

/** Reads the settings of `serve`. Throws one ServiceError that names every wrong one and where it came from. */
export function toServeConfig(sources: ConfigSources): ServeConfig {
  const { config, problems } = readAll(sources)
  if (problems.length > 0) throw new ServiceError({ kind: 'bad_config', problems }, problems.join('\n'))
  return config
}

/** The settings of `serve` that have rows, each as it is said in the first place that has it. */
export const toSettingTexts = (sources: ConfigSources): SettingText[] => readAll(sources).texts

/** What is wrong with a row of the settings table, in a sentence; null where nothing is. */
export const findSettingProblem = (name: string, text: string): string | null =>
  readAll({ flags: {}, environment: {}, settings: { [name]: text } }).problems[0] ?? null

function readAll(sources: ConfigSources) {
  const problems: string[] = []
  const texts: SettingText[] = []
  const find = <T>(name: string, byDefault: string | null, parse: Read<T>, expected: string): T | null => {
    const hasRow = !WITHOUT_ROW.includes(name)
    const found = findText(hasRow ? sources : { ...sources, settings: {} }, name)
    const text = found?.text ?? byDefault
    if (hasRow) texts.push({ name, text, place: found?.place ?? 'default', byDefault, expected })
    const value = text === null ? null : parse(text)
    if (found && value === null)
      problems.push(`${toPlaceName(found.place, name)} is '${found.text}': expected ${expected}.`)
    return value ?? (byDefault === null ? null : parse(byDefault))
  }
  const read = <T>(name: string, byDefault: string, parse: Read<T>, expected: string): T => {
    const value = find(name, byDefault, parse, expected)
    if (value === null) throw new Error(`the default of --${name} is none`)
    return value
  }
  const config = {
    host: read('host', '127.0.0.1', toHost, 'an address such as 127.0.0.1'),
    port: read('port', '4000', number(0, 65_535), 'a number from 0 to 65535 (0 takes a free one)'),
    /** How long a stop waits for what is under way, in ms. */
    drainMs: read('drain', '30s', time(0, TIMER_MS.max), 'a time with its unit, such as 30s or 2m'),
    /** After how much silence a stream says that it lives, ms; 0 = never. Clients take a comment in ten seconds, and not much more. */
    heartbeatMs: read('heartbeat', '10s', orOff(time(1_000, 60_000)), 'a time with its unit, from 1s to 60s, or off'),
    durability: read('durability', 'process', oneOf(DURABILITIES), 'process or power'),
    /** What the journal may take of the disk, in bytes: beyond it nothing new is taken. A few segments have room in the least. */
    maxJournalBytes: read('journal', '1G', size(32 * MIB), 'a size with its unit, such as 512M or 1G, from 32M on'),
    /** How long requests stay on record one by one, ms; Infinity = for ever. Their sums stay. */
    keepMs: read(
      'keep',
      '90d',
      orForever(time(DAY_MS, MOST_DAYS * DAY_MS)),
      'a time of a day or more with its unit, such as 90d or 12w, or forever',
    ),
    /** How long entries of the audit log are kept, ms; Infinity = for ever. Nobody erases what they did last month. */
    auditMs: read(
      'audit-retention',
      '400d',
      orForever(time(LEAST_AUDIT_DAYS * DAY_MS, MOST_DAYS * DAY_MS)),
      `a time of ${LEAST_AUDIT_DAYS} days or more with its unit, such as 400d, or forever`,
    ),
    /** From one scheduled backup to the next, ms; 0 = none is made. */
    backupMs: read(
      'backup',
      'off',
      orOff(time(60_000, 366 * DAY_MS)),
      'a time with its unit, such as 24h, from 1m on, or off',
    ),
    /** How many scheduled backups are kept. */
    backupKeep: read('backup-keep', '7', number(1, 1_000), 'a whole number from 1 to 1000'),
    /** What the data folder is meant to take of the disk, in bytes: it is warned of before. Null = whatever the disk has. */
    diskBytes: find('disk', null, size(64 * MIB), 'a size with its unit, such as 500M or 10G, from 64M on'),
    /** How often the targets of a request are tried again when all have failed. */
    retries: read('retries', '2', number(0, 10), 'a whole number from 0 to 10'),
    /** How often each upstream is asked, for free, whether it could answer, ms; 0 = never. */
    probeMs: read('probe', '30s', orOff(time(1_000, 3_600_000)), 'a time with its unit, from 1s to 1h, or off'),
    /** Requests under way at once; more are refused. */
    maxInFlight: read('max-in-flight', '4096', number(1, MAX_IN_FLIGHT), `a whole number from 1 to ${MAX_IN_FLIGHT}`),
    /**
     * Bytes held in memory for requests under way; more are refused. A request of the largest size (32 MiB, `gateway/body.ts`)
     * finds room: else it would be told to wait for ever.
     */
    maxBufferedBytes: read(
      'max-buffered',
      '512M',
      size(64 * MIB),
      'a size with its unit, such as 512M or 2G, from 64M on',
    ),
    /** Most of both that one key holds while others are there, from 0 to 1. */
    share: read('share', '25%', percent, 'a share from 1% to 100%, or off'),
    /** How long a whole body may take to arrive, ms. */
    uploadMs: read('upload', '60s', time(1_000, 3_600_000), 'a time with its unit, from 1s to 1h'),
    /** Of one event of an upstream's stream; a longer one breaks the stream off. */
    maxEventBytes: read('max-event', '4M', size(MIB), 'a size with its unit, such as 4M, from 1M on'),
    /** How long a call is read on for its usage once its client has left, ms; 0 = not at all. Upstreams may have their own. */
    disconnectGraceMs: read(
      'leave',
      '10s',
      orOff(time(DISCONNECT_GRACE_MS.min, DISCONNECT_GRACE_MS.max)),
      'a time with its unit, such as 10s, at most 5m, or off',
    ),
    /** How long a client may leave a full buffer standing, ms. */
    slowReaderMs: read('slow-reader', '60s', time(1_000, 3_600_000), 'a time with its unit, from 1s to 1h'),
    /** Whether the catalogue is applied again when its file has changed. */
    /** Whether the first start, with no upstream yet, looks for model servers on its machine, and adds them. */
    discover: read('discover', 'on', onOff, 'on or off'),
    watchCatalog: read('watch-catalog', 'off', onOff, 'on or off'),
    /** Null: whatever suits the place that the log goes to. */
    logLevel: find<LogLevel>('log-level', null, oneOf(LOG_LEVELS), 'info, warn or error'),
    /** Origins whose pages may read answers; `*` for all of them. */
    corsOrigins:
      find('cors-origin', null, toOrigins, 'origins such as https://app.example.com, with commas between, or *') ?? [],
    /** Whether the pages of the dashboard are served; the API that they ask is there either way. */
    dashboard: read('dashboard', 'on', onOff, 'on or off'),
    /** Origins that the dashboard is reached under, beside this machine's own addresses. */
    publicUrls: find('public-url', null, toPublicUrls, 'https origins such as https://gateway.example.com') ?? [],
    /** An OpenID Connect provider, by its issuer's URL; null where nobody signs in to the dashboard through one. */
    oidcIssuer: find(
      'oidc-issuer',
      null,
      toIssuer,
      'an https URL such as https://login.example.com (http on this machine alone)',
    ),
    oidcClientId: find('oidc-client-id', null, toWord, 'what the provider calls this server'),
    /** From the environment alone: others read arguments. */
    oidcClientSecret: sources.environment[toVariableName('oidc-client-secret')] || null,
    oidcClaim: read('oidc-claim', 'groups', toWord, 'the name of a claim, such as groups'),
    oidcRoles:
      find(
        'oidc-role',
        null,
        toClaimRoles,
        'values with their roles (owner, editor, viewer, member:TEAM), such as admins=owner,research=member:research',
      ) ?? [],
    /** Whether passwords let anybody sign in to the dashboard. */
    passwordSignIn: read('password-sign-in', 'on', onOff, 'on or off'),
    /** Proxies that are believed where a client is. */
    trustedProxies:
      find<IpRange[]>(
        'trusted-proxy',
        null,
        toIpRanges,
        'addresses or ranges such as 10.0.0.0/8 or ::1, with commas between',
      ) ?? [],
  }
  return { config, texts, problems }
}

export type ServeConfig = ReturnType<typeof readAll>['config']

/** The variable of a setting. */
export const toVariableName = (flag: string) => `TOLLGATE_${flag.replaceAll('-', '_').toUpperCase()}`

function findText(
  { flags, environment, settings }: ConfigSources,
  name: string,
): { text: string; place: SettingPlace } | null {
  const places: [text: string | undefined, place: SettingPlace][] = [
    [flags[name], 'flag'],
    [environment[toVariableName(name)] || undefined, 'environment'],
    [settings[name], 'setting'],
  ]
  for (const [text, place] of places) if (text !== undefined) return { text, place }
  return null
}

const PLACE_NAMES: Readonly<Record<SettingPlace, (name: string) => string>> = {
  flag: (name) => `--${name}`,
  environment: toVariableName,
  setting: (name) => `the setting ${name}`,
  default: (name) => `the default of ${name}`,
}
const toPlaceName = (place: SettingPlace, name: string) => PLACE_NAMES[place](name)

const MIB = 1024 ** 2
const MOST_DAYS = 36_500
const LEAST_AUDIT_DAYS = 30
const MAX_IN_FLIGHT = 8_192
const DURABILITIES = ['process', 'power'] as const
const LOG_LEVELS = ['info', 'warn', 'error'] as const

/** How many requests `fetch` makes at a time; more wait unseen. */
export const FETCHES = {
  /** The runtime reads it when a process starts, from the environment alone. */
  variable: 'BUN_CONFIG_MAX_HTTP_REQUESTS',
  /** Where it says nothing. */
  most: 256,
  /** What it says where all upstreams are reached so: some requests make several calls. */
  raised: 2 * MAX_IN_FLIGHT,
  /** Of all, so many are for probes. */
  probes: 56,
}

/** How many calls this process may make by `fetch` at a time. */
export const toFetchPlaces = (environment: Texts): number =>
  Math.max(1, (Number(environment[FETCHES.variable]) || FETCHES.most) - FETCHES.probes)

/** Whether the upstreams of this process are reached through a proxy: by the variables that `fetch` reads. */
export const hasProxy = (environment: Texts): boolean =>
  ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'].some((name) => Boolean(environment[name]))

type Read<T> = (text: string) => T | null

const toHost: Read<string> = (text) => /^[\w.:-]+$/.exec(text)?.[0] ?? null

function time(min: number, max: number): Read<number> {
  return (text) => toMs(text, { min, max })
}

const onOff: Read<boolean> = (text) => {
  if (/^(on|1|true|yes)$/.test(text)) return true
  return /^(off|0|false|no)$/.test(text) ? false : null
}

const percent: Read<number> = (text) => {
  if (text === 'off') return 1
  const share = Number(/^(\d{1,3})%$/.exec(text)?.[1]) / 100
  return share >= 0.01 && share <= 1 ? share : null
}

function oneOf<const T extends string>(words: readonly T[]): Read<T> {
  return (text) => words.find((word) => word === text) ?? null
}

function orOff(read: Read<number>): Read<number> {
  return (text) => (text === 'off' || text === '0' ? 0 : read(text))
}

function orForever(read: Read<number>): Read<number> {
  return (text) => (text === 'forever' ? Number.POSITIVE_INFINITY : read(text))
}

/** Origins as browsers write them: no path, and no port that is the scheme's own. */
function toOrigins(text: string): string[] | null {
  const origins = text.split(',').map((item) => toOrigin(item.trim()))
  return origins.includes(null) ? null : origins.filter((origin) => origin !== null)
}

/** Over plain HTTP others would read along when somebody signs in. */
function toPublicUrls(text: string): string[] | null {
  const origins = toOrigins(text)
  return origins?.every((origin) => origin.startsWith('https://')) ? origins : null
}

function toOrigin(text: string): string | null {
  if (text === '*') return text
  const url = text.includes('*') ? null : URL.parse(text)
  // Applications have schemes of their own (`app://localhost`, `chrome-extension://<id>`), whose origin the standard leaves open.
  if (url === null || url.host === '' || !['', '/'].includes(url.pathname)) return null
  return url.username === '' && url.search === '' && url.hash === '' ? `${url.protocol}//${url.host}` : null
}

/** As it was given: providers compare it letter by letter, a slash at the end included. */
function toIssuer(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || url.username !== '' || url.search !== '' || url.hash !== '') return null
  const isHere = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)
  return url.protocol === 'https:' || (url.protocol === 'http:' && isHere) ? text : null
}

const toWord: Read<string> = (text) => /^[^\s\p{Cc}]{1,255}$/u.exec(text)?.[0] ?? null

function toIpRanges(text: string): IpRange[] | null {
  const ranges = text.split(',').map((item) => toIpRange(item.trim()))
  const right = ranges.filter((range) => 'bits' in range)
  return right.length === ranges.length ? right : null
}

function number(min: number, max: number): Read<number> {
  return (text) => (/^\d+$/.test(text) && Number(text) >= min && Number(text) <= max ? Number(text) : null)
}

function size(min: number): Read<number> {
  return (text) => {
    const [, amount, unit] = /^(\d{1,6})(M|G|T)(?:i?B)?$/i.exec(text) ?? []
    const bytes = Number(amount) * 1024 ** 'MGT'.indexOf(unit?.toUpperCase() ?? '') * 1024 ** 2
    return bytes >= min ? bytes : null
  }
}
