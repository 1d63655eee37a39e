/**
 * The settings of a server, one definition each, and where their values come from: flag, environment (`TOLLGATE_<FLAG>`), settings row,
 * default. The flags of `serve`, the settings page and the admin API follow from the definitions. Pure.
 */
import { toClaimRoles } from './domain/roles.ts'
import { ServiceError } from './domain/service-error.ts'
import {
  number,
  oneOf,
  onOff,
  orForever,
  orOff,
  percent,
  type Read,
  size,
  time,
  toHost,
  toIpRanges,
  toIssuer,
  toOrigins,
  toPublicUrls,
  toWord,
} from './domain/setting-text.ts'
import { DAY_MS, DISCONNECT_GRACE_MS, TIMER_MS } from './domain/time.ts'
import type { LogLevel } from './log.ts'

const MIB = 1024 ** 2
const MAX_DAYS = 36_500
const MIN_AUDIT_DAYS = 30
const MAX_IN_FLIGHT = 8_192

/** The parts of the settings page, in its order. */
export const SETTING_GROUPS = ['Records and backups', 'Requests', 'Addresses', 'Server', 'Sign-in'] as const

export interface SettingDefinition<Value> {
  /** Of its flag, without the dashes, and of its row. */
  name: string
  /** Its name in 0.1.0: the old flag and variable still work, and say the new name. */
  was?: string
  group: (typeof SETTING_GROUPS)[number]
  /** A noun phrase or an imperative, without a full stop. */
  description: string
  /** What the flag takes; null: a switch, `--no-NAME` where the setting is on by default. */
  argument: string | null
  /** Whether the flag may be repeated: the text of all of them has commas between. */
  isList?: true
  /** Null: none, and then the value is `none`. */
  byDefault: string | null
  /** What the help says in place of the default. */
  defaultText?: string
  none?: Value
  read: Read<Value>
  /** What a text must be, after "expected". */
  expected: string
  /**
   * How people sign in, and where a secret of the environment is sent: whoever starts the server says it, and neither an owner in the
   * dashboard nor a backup that is restored.
   */
  withoutRow?: true
}

/** @param argument null: a switch. */
const setting = <Value>(
  name: string,
  group: SettingDefinition<Value>['group'],
  argument: string | null,
  byDefault: string | null,
  rest: Omit<SettingDefinition<Value>, 'name' | 'group' | 'argument' | 'byDefault'>,
): SettingDefinition<Value> => ({ name, group, argument, byDefault, ...rest })

/** By the field of `ServeConfig` that has the value, in the order of the help. */
export const SETTINGS = {
  host: setting('host', 'Addresses', '<address>', '127.0.0.1', {
    description: 'Address to listen on',
    read: toHost,
    expected: 'an address such as 127.0.0.1',
  }),
  port: setting('port', 'Addresses', '<n>', '4000', {
    description: 'Port to listen on',
    read: number(0, 65_535),
    expected: 'a number from 0 to 65535 (0 takes a free one)',
  }),
  /** ms. */
  drainMs: setting('drain', 'Server', '<time>', '30s', {
    description: 'Shutdown grace period for in-flight requests',
    read: time(0, TIMER_MS.max),
    expected: 'a time with its unit, such as 30s or 2m',
  }),
  /** ms; 0 = never. Clients take a comment in ten seconds, and not much more. */
  heartbeatMs: setting('heartbeat', 'Requests', '<time>', '10s', {
    description: 'Keep-alive interval for idle streams, 1s to 60s, or off',
    read: orOff(time(1_000, 60_000)),
    expected: 'a time with its unit, from 1s to 60s, or off',
  }),
  durability: setting('durability', 'Records and backups', '<level>', 'process', {
    description: 'What recorded rows survive: a process crash (process), or power loss too (power)',
    read: oneOf(['process', 'power'] as const),
    expected: 'process or power',
  }),
  /** Beyond it nothing new is taken. A few segments have room in the least. */
  maxJournalBytes: setting('max-journal-size', 'Records and backups', '<size>', '1G', {
    was: 'journal',
    description: 'Maximum journal size on disk, 32M or more',
    read: size(32 * MIB),
    expected: 'a size with its unit, such as 512M or 1G, from 32M on',
  }),
  /** ms; Infinity = forever. */
  keepMs: setting('retention', 'Records and backups', '<time>', '90d', {
    was: 'keep',
    description: 'How long to keep individual requests, or forever; totals are always kept',
    read: orForever(time(DAY_MS, MAX_DAYS * DAY_MS)),
    expected: 'a time of a day or more with its unit, such as 90d or 12w, or forever',
  }),
  /** ms; Infinity = forever. Nobody erases what they did last month. */
  auditMs: setting('audit-retention', 'Records and backups', '<time>', '400d', {
    description: `How long to keep entries of the audit log, ${MIN_AUDIT_DAYS}d or more, or forever`,
    read: orForever(time(MIN_AUDIT_DAYS * DAY_MS, MAX_DAYS * DAY_MS)),
    expected: `a time of ${MIN_AUDIT_DAYS} days or more with its unit, such as 400d, or forever`,
  }),
  /** ms; 0 = none. */
  backupMs: setting('backup-every', 'Records and backups', '<time>', 'off', {
    was: 'backup',
    description: 'Back up to backups/ of the data folder at this interval, such as 24h',
    read: orOff(time(60_000, 366 * DAY_MS)),
    expected: 'a time with its unit, such as 24h, from 1m on, or off',
  }),
  backupKeep: setting('backup-keep', 'Records and backups', '<n>', '7', {
    description: 'Number of scheduled backups to keep',
    read: number(1, 1_000),
    expected: 'a whole number from 1 to 1000',
  }),
  diskBytes: setting<number | null>('disk-budget', 'Records and backups', '<size>', null, {
    was: 'disk',
    description: 'Disk budget for the data folder; warns at 90%',
    defaultText: 'whole disk',
    none: null,
    read: size(64 * MIB),
    expected: 'a size with its unit, such as 500M or 10G, from 64M on',
  }),
  retries: setting('retries', 'Requests', '<n>', '2', {
    description: 'Retries after all targets have failed',
    read: number(0, 10),
    expected: 'a whole number from 0 to 10',
  }),
  /** ms; 0 = never. */
  probeMs: setting('probe', 'Server', '<time>', '30s', {
    description: 'Health-check interval for upstreams (free), or off',
    read: orOff(time(1_000, 3_600_000)),
    expected: 'a time with its unit, from 1s to 1h, or off',
  }),
  maxInFlight: setting('max-in-flight', 'Requests', '<n>', '4096', {
    description: 'Maximum in-flight requests; above this, 503',
    read: number(1, MAX_IN_FLIGHT),
    expected: `a whole number from 1 to ${MAX_IN_FLIGHT}`,
  }),
  /** A request of the largest size (32 MiB, `gateway/body.ts`) finds room: else it would be told to wait for ever. */
  maxBufferedBytes: setting('max-buffered', 'Requests', '<size>', '512M', {
    description: 'Maximum memory for in-flight requests, 64M or more; above this, 503',
    read: size(64 * MIB),
    expected: 'a size with its unit, such as 512M or 2G, from 64M on',
  }),
  /** From 0 to 1. */
  share: setting('max-key-share', 'Requests', '<percent>', '25%', {
    was: 'share',
    description: 'Maximum share of requests and memory per key while other keys are active, or off',
    read: percent,
    expected: 'a share from 1% to 100%, or off',
  }),
  /** ms. */
  uploadMs: setting('body-timeout', 'Requests', '<time>', '60s', {
    was: 'upload',
    description: 'Time limit for receiving a request body',
    read: time(1_000, 3_600_000),
    expected: 'a time with its unit, from 1s to 1h',
  }),
  maxEventBytes: setting('max-event-size', 'Requests', '<size>', '4M', {
    was: 'max-event',
    description: 'Maximum size of one event of an upstream stream; a larger one ends the stream',
    read: size(MIB),
    expected: 'a size with its unit, such as 4M, from 1M on',
  }),
  /** ms. */
  slowReaderMs: setting('send-timeout', 'Requests', '<time>', '60s', {
    was: 'slow-reader',
    description: 'Disconnect clients that stop reading for this long',
    read: time(1_000, 3_600_000),
    expected: 'a time with its unit, from 1s to 1h',
  }),
  /** Origins whose pages may read answers; `*` for all of them. */
  corsOrigins: setting<string[]>('cors-origin', 'Addresses', '<origin>', null, {
    description: 'Allow browser calls from this origin, or *',
    defaultText: 'none: keep keys on servers',
    none: [],
    isList: true,
    read: toOrigins,
    expected: 'origins such as https://app.example.com, with commas between, or *',
  }),
  dashboard: setting('dashboard', 'Server', null, 'on', {
    description: 'Dashboard at /admin; the admin API is always on',
    read: onOff,
    expected: 'on or off',
  }),
  /** Beside this machine's own addresses. */
  publicUrls: setting<string[]>('public-url', 'Addresses', '<origin>', null, {
    description: 'Public https origin of the dashboard',
    defaultText: 'localhost only',
    none: [],
    isList: true,
    read: toPublicUrls,
    expected: 'https origins such as https://gateway.example.com',
  }),
  /** Null where nobody signs in to the dashboard through a provider. */
  oidcIssuer: setting<string | null>('oidc-issuer', 'Sign-in', '<url>', null, {
    description: 'Identity provider for signing in to the dashboard (OpenID Connect)',
    none: null,
    withoutRow: true,
    read: toIssuer,
    expected: 'an https URL such as https://login.example.com (http on this machine alone)',
  }),
  oidcClientId: setting<string | null>('oidc-client-id', 'Sign-in', '<id>', null, {
    description: 'OIDC client ID; set the secret in TOLLGATE_OIDC_CLIENT_SECRET',
    none: null,
    withoutRow: true,
    read: toWord,
    expected: 'what the provider calls this server',
  }),
  oidcClaim: setting('oidc-claim', 'Sign-in', '<name>', 'groups', {
    description: 'OIDC claim that decides on the role',
    withoutRow: true,
    read: toWord,
    expected: 'the name of a claim, such as groups',
  }),
  oidcRoles: setting<NonNullable<ReturnType<typeof toClaimRoles>>>('oidc-role', 'Sign-in', '<value=role>', null, {
    description:
      'Map a claim value to a role: admins=owner, dev=editor, research=member:TEAM; first match wins, no match is denied',
    none: [],
    isList: true,
    withoutRow: true,
    read: toClaimRoles,
    expected:
      'values with their roles (owner, editor, viewer, member:TEAM), such as admins=owner,research=member:research',
  }),
  passwordSignIn: setting('password-sign-in', 'Sign-in', '<on|off>', 'on', {
    description: 'Password sign-in to the dashboard',
    withoutRow: true,
    read: onOff,
    expected: 'on or off',
  }),
  trustedProxies: setting<NonNullable<ReturnType<typeof toIpRanges>>>('trusted-proxy', 'Addresses', '<cidr>', null, {
    description: 'Trust X-Forwarded-For from this address or CIDR range',
    none: [],
    isList: true,
    read: toIpRanges,
    expected: 'addresses or ranges such as 10.0.0.0/8 or ::1, with commas between',
  }),
  discover: setting('discover', 'Server', null, 'on', {
    description: 'Search for model servers on this machine at the first start, if there is no upstream',
    read: onOff,
    expected: 'on or off',
  }),
  watchCatalog: setting('watch-catalog', 'Server', null, 'off', {
    description: 'Apply the catalog when its file, or a file in models.d, changes',
    read: onOff,
    expected: 'on or off',
  }),
  /** Null: whatever suits the place that the log goes to. */
  logLevel: setting<LogLevel | null>('log-level', 'Server', '<level>', null, {
    description: 'Log level: info, warn, or error; none: warn on a terminal, info elsewhere',
    none: null,
    read: oneOf(['info', 'warn', 'error'] as const),
    expected: 'info, warn or error',
  }),
  /** How long a call is read on for its usage once its client has left, ms; 0 = not at all. Upstreams may have their own. */
  disconnectGraceMs: setting('disconnect-grace', 'Requests', '<time>', '10s', {
    was: 'leave',
    description: 'How long to keep reading usage after a client disconnects, or off',
    read: orOff(time(DISCONNECT_GRACE_MS.min, DISCONNECT_GRACE_MS.max)),
    expected: 'a time with its unit, such as 10s, at most 5m, or off',
  }),
}

type Values = {
  [Field in keyof typeof SETTINGS]: (typeof SETTINGS)[Field] extends SettingDefinition<infer V> ? V : never
}
export interface ServeConfig extends Values {
  /** From the environment alone: others read arguments. */
  oidcClientSecret: string | null
}

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

/** The text of a setting in force. */
export interface SettingText
  extends Pick<SettingDefinition<unknown>, 'name' | 'group' | 'description' | 'byDefault' | 'expected'> {
  /** Null = none. */
  text: string | null
  place: SettingPlace
}

const ALL: readonly SettingDefinition<unknown>[] = Object.values(SETTINGS)
export const WITHOUT_ROW: readonly string[] = ALL.flatMap(({ name, withoutRow }) => (withoutRow ? name : []))

/** Reads the settings of `serve`. Throws one ServiceError that names every wrong one and where it came from. */
export function toServeConfig(sources: ConfigSources): ServeConfig {
  const problems = ALL.flatMap((setting) => findProblem(setting, sources) ?? [])
  if (problems.length > 0) throw new ServiceError({ kind: 'bad_config', problems }, problems.join('\n'))
  const values = Object.entries(SETTINGS).map(([field, setting]) => [field, toValue(setting, sources)])
  const oidcClientSecret = sources.environment[toVariableName('oidc-client-secret')] || null
  return { ...(Object.fromEntries(values) as Values), oidcClientSecret }
}

/** The settings of `serve` that have rows, each as it is said in the first place that has it. */
export const toSettingTexts = (sources: ConfigSources): SettingText[] =>
  SETTING_GROUPS.flatMap((group) => ALL.filter((one) => one.group === group && !one.withoutRow)).map((setting) => {
    const found = findText(setting, sources)
    const { name, group, description, byDefault, expected } = setting
    return {
      ...{ name, group, description, byDefault, expected },
      ...{ text: found?.text ?? byDefault, place: found?.place ?? 'default' },
    }
  })

/** What is wrong with a row of the settings table, in a sentence; null where nothing is. */
export function findSettingProblem(name: string, text: string): string | null {
  const setting = ALL.find((one) => one.name === name)
  return setting ? findProblem(setting, { flags: {}, environment: {}, settings: { [name]: text } }) : null
}

function findProblem(setting: SettingDefinition<unknown>, sources: ConfigSources): string | null {
  const found = findText(setting, sources)
  if (found === null || setting.read(found.text) !== null) return null
  return `${PLACE_NAMES[found.place](setting.name)} is '${found.text}': expected ${setting.expected}.`
}

function toValue(setting: SettingDefinition<unknown>, sources: ConfigSources): unknown {
  const text = findText(setting, sources)?.text ?? setting.byDefault
  return text === null ? setting.none : setting.read(text)
}

function findText(
  { name, was, withoutRow }: SettingDefinition<unknown>,
  { flags, environment, settings }: ConfigSources,
): { text: string; place: SettingPlace } | null {
  const places: [text: string | undefined, place: SettingPlace][] = [
    [flags[name], 'flag'],
    [environment[toVariableName(name)] || (was && environment[toVariableName(was)]) || undefined, 'environment'],
    [withoutRow ? undefined : settings[name], 'setting'],
  ]
  for (const [text, place] of places) if (text !== undefined) return { text, place }
  return null
}

/** The variable of a setting. */
export const toVariableName = (flag: string) => `TOLLGATE_${flag.replaceAll('-', '_').toUpperCase()}`

const PLACE_NAMES: Readonly<Record<SettingPlace, (name: string) => string>> = {
  flag: (name) => `--${name}`,
  environment: toVariableName,
  setting: (name) => `the setting ${name}`,
  default: (name) => `the default of ${name}`,
}

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
