/** Definitions of the server settings. The flags of `serve`, the settings page, and the admin API are built from them. */

import { toClaimRoles } from './domain/roles.ts'
import {
  type ListenAddress,
  number,
  oneOf,
  onOff,
  orForever,
  orOff,
  percent,
  type Read,
  size,
  time,
  toClusterUrl,
  toCollector,
  toDomains,
  toFiles,
  toHost,
  toIpRanges,
  toLimitsUrl,
  toListenAddress,
  toOrigins,
  toPublicUrls,
  toSample,
  toSecureUrl,
  toWord,
} from './domain/setting-text.ts'
import { DAY_MS, DISCONNECT_GRACE_MS, TIMER_MS } from './domain/time.ts'
import type { LogLevel } from './log.ts'

const LETS_ENCRYPT = 'https://acme-v02.api.letsencrypt.org/directory'
const MIB = 1024 ** 2
/** Holds a few segments. */
export const MIN_JOURNAL_BYTES = 32 * MIB
/** Fits the largest request (32 MiB, `gateway/read.ts`), which would otherwise never be admitted. */
export const MIN_BUFFERED_BYTES = 64 * MIB
const MAX_DAYS = 36_500
const MIN_AUDIT_DAYS = 30
export const MAX_IN_FLIGHT = 8_192

/** Sections of the settings page, in order. */
export const SETTING_GROUPS = ['Records and backups', 'Requests', 'Addresses', 'Server', 'Sign-in'] as const

export interface SettingDefinition<Value> {
  /** Flag name without dashes; also the key of its row. */
  name: string
  /** Former name; the old flag and variable still work with a note. */
  was?: string
  group: (typeof SETTING_GROUPS)[number]
  /** A noun phrase or an imperative, without a full stop. */
  description: string
  /** Argument of the flag; null for a switch, which is `--no-NAME` if the setting is on by default. */
  argument: string | null
  /** The flag is repeatable; values are joined with commas. */
  isList?: true
  /** Null if there is no default text; the value is then `none`. */
  byDefault: string | null
  /** Shown in the help in place of the default. */
  defaultText?: string
  none?: Value
  read: Read<Value>
  /** What a valid text is, to follow "expected". */
  expected: string
  /** Set only by who starts the server: controls sign-in and where secrets or traces are sent, so neither dashboard owners nor backups may change it. */
  withoutRow?: true
}

const setting = <Value>(
  name: string,
  group: SettingDefinition<Value>['group'],
  argument: string | null,
  byDefault: string | null,
  rest: Omit<SettingDefinition<Value>, 'name' | 'group' | 'argument' | 'byDefault'>,
): SettingDefinition<Value> => ({ name, group, argument, byDefault, ...rest })

/** By field of `ServeConfig`, in the order of the help. */
export const SETTINGS = {
  host: setting('host', 'Addresses', '<address>', '127.0.0.1', {
    description: 'Address to listen on',
    read: toHost,
    expected: 'an address, e.g. 127.0.0.1',
  }),
  port: setting('port', 'Addresses', '<n>', '4000', {
    description: 'Port to listen on',
    read: number(0, 65_535),
    expected: 'a number from 0 (any free port) to 65535',
  }),
  tlsCerts: setting<string[]>('tls-cert', 'Addresses', '<file>', null, {
    description: 'Serve HTTPS with this certificate chain (PEM), read again when it changes',
    defaultText: 'plain HTTP',
    none: [],
    isList: true,
    withoutRow: true,
    read: toFiles,
    expected: 'comma-separated file names',
  }),
  tlsKeys: setting<string[]>('tls-key', 'Addresses', '<file>', null, {
    description: 'Private key (PEM) of the --tls-cert at the same position',
    none: [],
    isList: true,
    withoutRow: true,
    read: toFiles,
    expected: 'comma-separated file names',
  }),
  tlsDomains: setting<string[]>('tls-domain', 'Addresses', '<name>', null, {
    description: 'Get and renew a certificate for this name by ACME, which accepts the terms of the authority',
    none: [],
    isList: true,
    withoutRow: true,
    read: toDomains,
    expected: 'comma-separated host names, e.g. gateway.example.com',
  }),
  acmeDirectory: setting('acme-directory', 'Addresses', '<url>', LETS_ENCRYPT, {
    description: 'Authority for --tls-domain',
    defaultText: "Let's Encrypt",
    withoutRow: true,
    read: toSecureUrl,
    expected: `the https URL of an ACME directory, e.g. ${LETS_ENCRYPT}`,
  }),
  /** Null = no listener. */
  httpRedirect: setting<ListenAddress | null>('http-redirect', 'Addresses', '<address>', null, {
    description: 'Redirect browsers from plain HTTP on [HOST:]PORT to HTTPS',
    none: null,
    read: toListenAddress,
    expected: 'a port or HOST:PORT, e.g. 80 or 0.0.0.0:80',
  }),
  /** ms. */
  drainMs: setting('drain', 'Server', '<time>', '30s', {
    description: 'Shutdown grace period for in-flight requests',
    read: time(0, TIMER_MS.max),
    expected: 'a duration, e.g. 30s or 2m',
  }),
  processes: setting<number | 'auto'>('processes', 'Server', '<n>', '1', {
    description: 'Processes that answer requests, or auto for one per core (Linux)',
    read: (text) => (text === 'auto' ? text : number(1, 64)(text)),
    expected: 'a whole number from 1 to 64, or auto',
  }),
  /** A URL, or the path of a file that has one; null = no cluster. */
  cluster: setting<string | null>('cluster', 'Server', '<url>', null, {
    description:
      'Share configuration, ledger, and limits with other nodes through this PostgreSQL, or a file with its URL',
    none: null,
    withoutRow: true,
    read: toClusterUrl,
    expected: 'a URL, e.g. postgres://tollgate@db.internal/tollgate, or the absolute path of a file with one',
  }),
  /** ms. Longer than a failover of PostgreSQL may lose rows. */
  clusterKeepMs: setting('cluster-keep', 'Server', '<time>', '15m', {
    description: 'How long a node keeps rows that have arrived in PostgreSQL, to send them again after a failover',
    read: time(60_000, 7 * DAY_MS),
    expected: 'a duration from 1m to 7d, e.g. 15m',
  }),
  /** Valkey's URL, or the path of a file that has one; null = the cluster's PostgreSQL. */
  limits: setting<string | null>('limits', 'Server', '<url>', null, {
    description: 'Share the limits of a cluster through this Valkey or Redis, or a file with its URL',
    defaultText: "the cluster's PostgreSQL",
    none: null,
    withoutRow: true,
    read: toLimitsUrl,
    expected: 'a URL, e.g. valkey://cache.internal:6379, or the absolute path of a file with one',
  }),
  limitsOutage: setting('limits-outage', 'Server', '<mode>', 'share', {
    description:
      "If shared limits can't be reached, enforce this node's share (share) or reject keys with limits (refuse)",
    read: oneOf(['share', 'refuse'] as const),
    expected: 'share or refuse',
  }),
  /** Null = the machine's. */
  nodeName: setting<string | null>('node-name', 'Server', '<name>', null, {
    description: 'Name of this node in the cluster',
    defaultText: 'the host name',
    none: null,
    withoutRow: true,
    read: toWord,
    expected: 'a name without spaces, e.g. gateway-1',
  }),
  /** ms; 0 = never. Clients tolerate about one comment every ten seconds. */
  heartbeatMs: setting('heartbeat', 'Requests', '<time>', '10s', {
    description: 'Keep-alive interval for idle streams, 1s to 60s, or off',
    read: orOff(time(1_000, 60_000)),
    expected: 'a duration from 1s to 60s, or off',
  }),
  durability: setting('durability', 'Records and backups', '<level>', 'process', {
    description:
      'Recorded requests survive a process crash (process), also power loss (power), or the loss of a node (shared, in a cluster)',
    read: oneOf(['process', 'power', 'shared'] as const),
    expected: 'process, power, or shared',
  }),
  /** Above it new requests are rejected. */
  maxJournalBytes: setting('max-journal-size', 'Records and backups', '<size>', '1G', {
    was: 'journal',
    description: 'Maximum journal size on disk, 32M or more',
    read: size(MIN_JOURNAL_BYTES),
    expected: 'a size of 32M or more, e.g. 512M or 1G',
  }),
  /** ms; Infinity = forever. */
  keepMs: setting('retention', 'Records and backups', '<time>', '90d', {
    was: 'keep',
    description: 'How long to keep individual requests, or forever; totals are always kept',
    read: orForever(time(DAY_MS, MAX_DAYS * DAY_MS)),
    expected: 'a duration of a day or more, e.g. 90d or 12w, or forever',
  }),
  /** ms; Infinity = forever. The minimum keeps admins from erasing recent actions. */
  auditMs: setting('audit-retention', 'Records and backups', '<time>', '400d', {
    description: `How long to keep audit log entries, ${MIN_AUDIT_DAYS}d or more, or forever`,
    read: orForever(time(MIN_AUDIT_DAYS * DAY_MS, MAX_DAYS * DAY_MS)),
    expected: `a duration of ${MIN_AUDIT_DAYS} days or more, e.g. 400d, or forever`,
  }),
  /** ms; 0 = none. */
  backupMs: setting('backup-every', 'Records and backups', '<time>', 'off', {
    was: 'backup',
    description: 'Back up to backups/ in the data folder at this interval, e.g. 24h',
    read: orOff(time(60_000, 366 * DAY_MS)),
    expected: 'a duration of 1m or more, e.g. 24h, or off',
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
    expected: 'a size of 64M or more, e.g. 500M or 10G',
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
    expected: 'a duration from 1s to 1h, or off',
  }),
  maxInFlight: setting('max-in-flight', 'Requests', '<n>', '4096', {
    description: 'Maximum in-flight requests; above this, 503',
    read: number(1, MAX_IN_FLIGHT),
    expected: `a whole number from 1 to ${MAX_IN_FLIGHT}`,
  }),
  maxBufferedBytes: setting('max-buffered', 'Requests', '<size>', '512M', {
    description: 'Maximum memory for in-flight requests, 64M or more; above this, 503',
    read: size(MIN_BUFFERED_BYTES),
    expected: 'a size of 64M or more, e.g. 512M or 2G',
  }),
  /** From 0 to 1. */
  share: setting('max-key-share', 'Requests', '<percent>', '25%', {
    was: 'share',
    description: 'Maximum share of requests and memory per key while other keys are active, or off',
    read: percent,
    expected: 'a percentage from 1% to 100%, or off',
  }),
  /** ms. */
  uploadMs: setting('body-timeout', 'Requests', '<time>', '60s', {
    was: 'upload',
    description: 'Time limit for receiving a request body',
    read: time(1_000, 3_600_000),
    expected: 'a duration from 1s to 1h',
  }),
  maxEventBytes: setting('max-event-size', 'Requests', '<size>', '4M', {
    was: 'max-event',
    description: 'Maximum size of one upstream stream event; a larger one ends the stream',
    read: size(MIB),
    expected: 'a size of 1M or more, e.g. 4M',
  }),
  /** ms. */
  slowReaderMs: setting('send-timeout', 'Requests', '<time>', '60s', {
    was: 'slow-reader',
    description: 'Disconnect clients that stop reading for this long',
    read: time(1_000, 3_600_000),
    expected: 'a duration from 1s to 1h',
  }),
  /** Null = only on the port of the API, with an admin token. */
  metrics: setting<ListenAddress | null>('metrics', 'Addresses', '<address>', null, {
    description: 'Also serve /metrics at this address, on localhost without a token, e.g. 9464',
    defaultText: 'none',
    none: null,
    read: toListenAddress,
    expected: 'a port or an address with a port, e.g. 9464 or 10.0.0.5:9464',
  }),
  /** Null = no telemetry leaves this server. */
  otlp: setting<string | null>('otlp', 'Server', '<url>', null, {
    description: 'Send traces to this OpenTelemetry collector; set its headers in OTEL_EXPORTER_OTLP_HEADERS',
    none: null,
    withoutRow: true,
    read: toCollector,
    expected: 'an http or https URL without credentials, e.g. http://127.0.0.1:4318',
  }),
  /** From 0 to 1. */
  otlpSample: setting('otlp-sample', 'Server', '<percent>', '10%', {
    description: 'Share of new traces to record; clients that send traceparent decide themselves',
    read: toSample,
    expected: 'a percentage from 0% to 100%, e.g. 1% or 0.1%',
  }),
  /** ms; 0 = none. */
  otlpMetricsMs: setting('otlp-metrics', 'Server', '<time>', 'off', {
    description: 'Also send metrics to the collector at this interval, e.g. 60s',
    read: orOff(time(1_000, 3_600_000)),
    expected: 'a duration from 1s to 1h, e.g. 60s, or off',
  }),
  corsOrigins: setting<string[]>('cors-origin', 'Addresses', '<origin>', null, {
    description: 'Allow browser calls from this origin, or *',
    defaultText: 'none',
    none: [],
    isList: true,
    read: toOrigins,
    expected: 'comma-separated origins, e.g. https://app.example.com, or *',
  }),
  dashboard: setting('dashboard', 'Server', null, 'on', {
    description: 'Dashboard at /admin; the admin API is always on',
    read: onOff,
    expected: 'on or off',
  }),
  /** In addition to this machine's own addresses. */
  publicUrls: setting<string[]>('public-url', 'Addresses', '<origin>', null, {
    description: 'Public https origin of the dashboard',
    defaultText: 'localhost only',
    none: [],
    isList: true,
    read: toPublicUrls,
    expected: 'comma-separated https origins, e.g. https://gateway.example.com',
  }),
  /** Null = no sign-in through a provider. */
  oidcIssuer: setting<string | null>('oidc-issuer', 'Sign-in', '<url>', null, {
    description: 'OpenID Connect identity provider for dashboard sign-in',
    none: null,
    withoutRow: true,
    read: toSecureUrl,
    expected: 'an https URL, or http on localhost, e.g. https://login.example.com',
  }),
  oidcClientId: setting<string | null>('oidc-client-id', 'Sign-in', '<id>', null, {
    description: 'OIDC client ID; set the secret in TOLLGATE_OIDC_CLIENT_SECRET',
    none: null,
    withoutRow: true,
    read: toWord,
    expected: 'the client ID from the identity provider',
  }),
  oidcClaim: setting('oidc-claim', 'Sign-in', '<name>', 'groups', {
    description: 'OIDC claim that determines the role',
    withoutRow: true,
    read: toWord,
    expected: 'the name of a claim, e.g. groups',
  }),
  oidcRoles: setting<NonNullable<ReturnType<typeof toClaimRoles>>>('oidc-role', 'Sign-in', '<value=role>', null, {
    description:
      'Map a claim value to a role: admins=owner, dev=editor, research=member:TEAM; first match wins; users without a match are denied',
    none: [],
    isList: true,
    withoutRow: true,
    read: toClaimRoles,
    expected: 'value=role pairs with owner, editor, viewer, or member:TEAM, e.g. admins=owner,research=member:research',
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
    expected: 'comma-separated addresses or CIDR ranges, e.g. 10.0.0.0/8 or ::1',
  }),
  discover: setting('discover', 'Server', null, 'on', {
    description: 'Search for local model servers on the first start',
    read: onOff,
    expected: 'on or off',
  }),
  watchCatalog: setting('watch-catalog', 'Server', null, 'off', {
    description: 'Apply the catalog when its file, or a file in models.d, changes',
    read: onOff,
    expected: 'on or off',
  }),
  /** Null = warn on a terminal, info elsewhere. */
  logLevel: setting<LogLevel | null>('log-level', 'Server', '<level>', null, {
    description: 'Log level: info, warn, or error',
    defaultText: 'warn on a terminal, info elsewhere',
    none: null,
    read: oneOf(['info', 'warn', 'error'] as const),
    expected: 'info, warn, or error',
  }),
  /** ms; 0 = not at all. Upstreams can override it. */
  disconnectGraceMs: setting('disconnect-grace', 'Requests', '<time>', '10s', {
    was: 'leave',
    description: 'How long to keep reading usage after a client disconnects, or off',
    read: orOff(time(DISCONNECT_GRACE_MS.min, DISCONNECT_GRACE_MS.max)),
    expected: 'a duration up to 5m, e.g. 10s, or off',
  }),
}
