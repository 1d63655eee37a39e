/**
 * The settings of a server, each from the first place that has it: flag, environment (`TOLLGATE_<FLAG>`), settings row,
 * default. Every wrong value is listed in one message. Pure.
 */
import { ServiceError } from './domain/service-error.ts'

export interface ServeConfig {
  host: string
  port: number
  /** How long a stop waits for what is under way, in ms. */
  drainMs: number
  durability: 'process' | 'power'
  /** After how much silence a stream says that it lives, ms; 0 = never. */
  heartbeatMs: number
  /** How often the targets of a request are tried again when all have failed. */
  retries: number
  /** How often each upstream is asked, for free, whether it could answer, ms; 0 = never. */
  probeMs: number
  /** Requests under way at once; more are refused. */
  maxInFlight: number
  /** Bytes held in memory for requests under way; more are refused. */
  maxBufferedBytes: number
  /** Of one event of an upstream's stream; a longer one breaks the stream off. */
  maxEventBytes: number
  /** How long a client may leave a full buffer standing, ms. */
  slowReaderMs: number
}

type Texts = Readonly<Record<string, string | undefined>>

interface ConfigSources {
  /** By flag name without the dashes. */
  flags: Texts
  environment: Texts
  /** Rows of the settings table, by key; the key of a flag is its name. */
  settings: Texts
}

/** Reads the settings of `serve`. Throws one ServiceError that names every wrong one and where it came from. */
export function toServeConfig(sources: ConfigSources): ServeConfig {
  const problems: string[] = []
  const read = <T>(flag: string, fallback: T, parse: (text: string) => T | null, expected: string): T => {
    const found = find(sources, flag)
    if (!found) return fallback
    const value = parse(found.text)
    if (value !== null) return value
    problems.push(`${found.place} is '${found.text}': expected ${expected}.`)
    return fallback
  }
  const config: ServeConfig = {
    host: read('host', '127.0.0.1', (text) => (/^[\w.:-]+$/.test(text) ? text : null), 'an address such as 127.0.0.1'),
    port: read('port', 4000, toPort, 'a number from 0 to 65535 (0 takes a free one)'),
    drainMs: read('drain', 30_000, toMs, 'a time such as 30s or 2m'),
    heartbeatMs: read('heartbeat', 10_000, toHeartbeatMs, 'a time from 1s to 60s, or off'),
    durability: read('durability', 'process', toDurability, 'process or power'),
    retries: read('retries', 2, toRetries, 'a number from 0 to 10'),
    probeMs: read('probe', 30_000, toProbeMs, 'a time from 1s to 1h, or off'),
    maxInFlight: read('max-in-flight', 4_096, toInFlight, 'a number from 1 to 8192'),
    maxBufferedBytes: read('max-buffered', 512 * MIB, toBuffered, 'a size such as 512M or 2G, from 64M on'),
    maxEventBytes: read('max-event', 4 * MIB, toBytes, 'a size such as 4M, from 1M on'),
    slowReaderMs: read('slow-reader', 60_000, toWaitMs, 'a time from 1s to 1h'),
  }
  if (problems.length > 0) throw new ServiceError({ kind: 'bad_config', problems }, problems.join('\n'))
  return config
}

function find({ flags, environment, settings }: ConfigSources, flag: string): { text: string; place: string } | null {
  const variable = `TOLLGATE_${flag.replaceAll('-', '_').toUpperCase()}`
  const places = [
    { text: flags[flag], place: `--${flag}` },
    { text: environment[variable] || undefined, place: variable },
    { text: settings[flag], place: `the setting ${flag}` },
  ]
  const found = places.find((place) => place.text !== undefined)
  return found?.text === undefined ? null : { text: found.text, place: found.place }
}

function toPort(text: string): number | null {
  const port = Number(text)
  return /^\d+$/.test(text) && port <= 65_535 ? port : null
}

function toDurability(text: string): 'process' | 'power' | null {
  return text === 'process' || text === 'power' ? text : null
}

const toHeartbeatMs = (text: string) => (text === 'off' ? 0 : toMsWithin(text, 1_000, 60_000))
const toProbeMs = (text: string) => (text === 'off' ? 0 : toMsWithin(text, 1_000, 3_600_000))
const toWaitMs = (text: string) => toMsWithin(text, 1_000, 3_600_000)
const toRetries = (text: string) => toNumberWithin(text, 0, 10)
/** The runtime takes twice as many fetches at once (main.ts). */
const toInFlight = (text: string) => toNumberWithin(text, 1, 8_192)

function toMsWithin(text: string, low: number, high: number): number | null {
  const ms = toMs(text)
  return ms !== null && ms >= low && ms <= high ? ms : null
}

function toNumberWithin(text: string, low: number, high: number): number | null {
  const value = Number(text)
  return /^\d+$/.test(text) && value >= low && value <= high ? value : null
}

const MIB = 1024 ** 2

function toBytes(text: string): number | null {
  const [, amount, unit] = /^(\d{1,6})(M|G)(?:i?B)?$/i.exec(text) ?? []
  const bytes = Number(amount) * (unit?.toUpperCase() === 'G' ? 1024 : 1) * MIB
  return bytes >= MIB ? bytes : null
}

/** A request of the largest size (32 MiB, `gateway/body.ts`) finds room: else it would be told to wait for ever. */
function toBuffered(text: string): number | null {
  const bytes = toBytes(text)
  return bytes !== null && bytes >= 64 * MIB ? bytes : null
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

function toMs(text: string): number | null {
  const match = /^(\d+)(ms|s|m|h)?$/.exec(text)
  return match ? Number(match[1]) * (UNITS[match[2] ?? 's'] ?? 1) : null
}
