/**
 * The settings of a server, each from the first place that has it: flag, environment (`TOLLGATE_<FLAG>`), settings row,
 * default (design 3). Every wrong value is listed in one message. Pure.
 */
import { CommandError } from './error.ts'

export interface ServeConfig {
  host: string
  port: number
  /** How long a stop waits for what is under way, in ms. */
  drainMs: number
  durability: 'process' | 'power'
  /** After how much silence a stream says that it lives, ms; 0 = never. */
  heartbeatMs: number
}

type Texts = Readonly<Record<string, string | undefined>>

export interface ConfigSources {
  /** By flag name without the dashes. */
  flags: Texts
  environment: Texts
  /** Rows of the settings table, by key; the key of a flag is its name. */
  settings: Texts
}

/** Reads the settings of `serve`. Throws one CommandError that names every wrong one and where it came from. */
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
  }
  if (problems.length > 0) throw new CommandError('bad_config', problems.join('\n'), 2)
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

function toHeartbeatMs(text: string): number | null {
  if (text === 'off') return 0
  const ms = toMs(text)
  return ms !== null && ms >= 1_000 && ms <= 60_000 ? ms : null
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

function toMs(text: string): number | null {
  const match = /^(\d+)(ms|s|m|h)?$/.exec(text)
  return match ? Number(match[1]) * (UNITS[match[2] ?? 's'] ?? 1) : null
}
