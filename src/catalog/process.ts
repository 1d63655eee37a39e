/**
 * How an upstream's server is run, from its entry in a file: its words, the memory that it takes, and what they must be. The database has
 * their hash alone; the words count where `model-files.ts` reads them. Pure.
 */

import { toList } from '../domain/explain.ts'
import { isObject } from '../domain/json.ts'
import { IDLE_MS, type MemoryBudgets, type ProcessSpec, START_MS } from '../domain/model-server.ts'
import { toSize } from '../domain/text.ts'
import { TIMER_MS, toMs } from '../domain/time.ts'
import { type Entry, type Issue, issue, type Path, toEntry, toItems } from './entry.ts'
import { PROCESS_FIELDS } from './fields.ts'

/** What stands for a command where only its hash is known, as in an export: it is run where a file has the words of that hash. */
const HASH = /^sha256:[0-9a-f]{64}$/

/** Whether the server of an upstream is started here. */
export const isManaged = (entry: Entry): boolean => entry.process !== undefined

/** What the database keeps of an entry that has passed every check; undefined where its server is not started here. */
export function toProcessHash(entry: Entry): string | undefined {
  if (typeof entry.process === 'string') return entry.process
  return entry.process === undefined ? undefined : toProcessSpec(entry).hash
}

/** Reads an entry that has passed every check and has the words of its command. */
export function toProcessSpec(entry: Entry): ProcessSpec {
  const { process, stop_command, health = '/health', idle, memory, device, pin, preload } = entry
  const { start } = toEntry(entry.deadlines)
  const spec = {
    command: toItems(process).map(String),
    stopCommand: stop_command === undefined ? null : toItems(stop_command).map(String),
    health: String(health),
    idleMs: idle === 'off' ? null : (toMs(String(idle ?? ''), TIMER_MS) ?? IDLE_MS),
    memoryBytes: toSize(String(memory ?? '')),
    pin: pin === true,
    preload: preload === true,
    startMs: toMs(String(start ?? ''), TIMER_MS) ?? START_MS,
    // One that names none keeps the hash that it had before there were devices.
    ...(device === undefined ? {} : { device: String(device) }),
  }
  return {
    device: null,
    ...spec,
    hash: `sha256:${new Bun.CryptoHasher('sha256').update(JSON.stringify(spec)).digest('hex')}`,
  }
}

/** Says what is wrong with how the server of an upstream is run. Times are checked with the others. */
export function* checkProcess(at: Path, entry: Entry): Generator<Issue> {
  const { process, stop_command, base_url, api_key, preset, health, memory, device } = entry
  if (!Array.isArray(process)) {
    const lone = [...PROCESS_FIELDS.filter((field) => entry[field] !== undefined)]
    for (const field of lone) yield issue([...at, field], `${field} is for an upstream with process: remove it.`)
    if (toEntry(entry.deadlines).start !== undefined)
      yield issue([...at, 'deadlines', 'start'], 'start is for an upstream with process: remove it.')
    if (typeof process === 'string' && !HASH.test(process))
      yield issue(
        [...at, 'process'],
        'must be a list of words, such as [llama-server, -m, /models/x.gguf, --port, "{port}"].',
      )
  } else {
    yield* checkWords([...at, 'process'], process)
    yield* checkWords([...at, 'stop_command'], stop_command)
    if (!process.some((word) => String(word).includes('{port}')))
      yield issue([...at, 'process'], 'says no port: each start has another one, and {port} stands for it.')
  }
  if (process === undefined) return
  for (const [field, value] of Object.entries({ base_url, api_key, preset }))
    if (value !== undefined) yield issue([...at, field], `an upstream with process has its own ${field}: remove it.`)
  if (typeof health === 'string' && !/^\/[\w./-]*$/.test(health))
    yield issue([...at, 'health'], 'must be a path that begins with /, such as /health.')
  yield* checkSize([...at, 'memory'], memory)
  yield* checkDevice([...at, 'device'], device)
}

function* checkWords(at: Path, words: unknown): Generator<Issue> {
  for (const [index, word] of toItems(words).entries()) {
    if (typeof word !== 'string') continue
    const unknown = /\{\w+\}/g
    for (const [place] of word.matchAll(unknown))
      if (!['{port}', '{key}', '{slug}'].includes(place) && /^\{[a-z]+\}$/.test(place))
        yield issue([...at, index], `${place} stands for nothing: there are {port}, {key} and {slug}.`)
    if (word.includes('\0')) yield issue([...at, index], 'has a character that no command can have.')
  }
}

/** As llama-server calls them, `RPC[host:port]` among them. */
const DEVICE = /^[A-Za-z0-9][\w.:[\]-]{0,63}$/

/** Reads what a catalogue says; empty where it says nothing. What is no size is left out. */
export function toMemoryBudgets(memory: unknown): MemoryBudgets {
  const sizes: [string | null, unknown][] = isObject(memory) ? Object.entries(memory) : [[null, memory]]
  return new Map(
    sizes.flatMap(([device, size]): [string | null, number][] => {
      const bytes = toSize(String(size ?? ''))
      return bytes === null ? [] : [[device, bytes]]
    }),
  )
}

/** Says what is wrong with the memory of a file, and with the devices of its upstreams. A file that says nothing of memory may go with one that does. */
export function* checkMemory(memory: unknown, upstreams: Entry): Generator<Issue> {
  const issues = [...checkSizes(memory)]
  yield* issues
  if (issues.length > 0) return
  for (const [id, device] of toDevices(upstreams)) {
    const problem = explainDevice(toMemoryBudgets(memory), device)
    if (problem) yield issue(['upstreams', id, 'device'], problem)
  }
}

function* checkSizes(memory: unknown): Generator<Issue> {
  if (!isObject(memory)) return yield* checkSize(['memory'], memory)
  if (Object.keys(memory).length === 0)
    yield issue(['memory'], 'names no device: write a size, such as 22G, or one for each, such as { CUDA0: 22G }.')
  for (const [device, size] of Object.entries(memory)) {
    yield* checkDevice(['memory', device], device)
    yield* checkSize(['memory', device], size)
  }
}

/** Says what is wrong with a size. */
function* checkSize(at: Path, value: unknown): Generator<Issue> {
  if ((typeof value === 'string' || typeof value === 'number') && toSize(String(value)) === null)
    yield issue(at, 'must be a size with its unit, such as 22G or 512M.')
}

/** Says what is wrong with the name of a device. */
function* checkDevice(at: Path, device: unknown): Generator<Issue> {
  if (typeof device === 'string' && !DEVICE.test(device))
    yield issue(at, 'must be the name of a device, such as CUDA0 or cpu.')
}

/** The devices of the upstreams whose commands stand there. */
export const toDevices = (upstreams: Entry): [upstream: string, device: string | null][] =>
  Object.entries(upstreams).flatMap(([id, entry]) => {
    const { process, device } = toEntry(entry)
    return Array.isArray(process) ? [[id, typeof device === 'string' ? device : null]] : []
  })

/** Why a server cannot take memory of a device, or of none that is named, in a sentence; null where it can. */
export function explainDevice(memory: MemoryBudgets, device: string | null): string | null {
  if (memory.size === 0 || memory.has(device)) return null
  const names = [...memory.keys()].filter((name) => name !== null)
  if (names.length === 0)
    return `cannot be said where memory at the top of the catalogue is one size: write that by device, such as { ${device}: 22G }, or remove this.`
  const known = toList(names, 'or')
  return device === null
    ? `is missing: memory at the top of the catalogue is by device. Say whose memory it takes: ${known}.`
    : `is none that memory at the top of the catalogue has: write ${known}, or give ${device} a size there.`
}
