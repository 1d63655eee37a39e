/** Reads and checks commands of model servers. The database has only a hash; `model-files.ts` reads the commands. */

import { toList } from '../domain/explain.ts'
import { isObject } from '../domain/json.ts'
import { IDLE_MS, type MemoryBudgets, type ProcessSpec, START_MS } from '../domain/model-server.ts'
import { toSize } from '../domain/text.ts'
import { TIMER_MS, toMs } from '../domain/time.ts'
import { type Entry, type Issue, issue, type Path, toEntry, toItems } from './entry.ts'
import { PROCESS_FIELDS } from './fields.ts'

/** Replaces a command in exports. Importing it needs a file with that command. */
const HASH = /^sha256:[0-9a-f]{64}$/

/** True if Tollgate starts the upstream's server. */
export const isManaged = (entry: Entry): boolean => entry.process !== undefined

/** The entry must have passed every check. Undefined if Tollgate doesn't start its server. */
export function toProcessHash(entry: Entry): string | undefined {
  if (typeof entry.process === 'string') return entry.process
  return entry.process === undefined ? undefined : toProcessSpec(entry).hash
}

/** The entry must have passed every check and have a command. */
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
    // Without a device, keeps the hash from before devices existed.
    ...(device === undefined ? {} : { device: String(device) }),
  }
  return {
    device: null,
    ...spec,
    hash: `sha256:${new Bun.CryptoHasher('sha256').update(JSON.stringify(spec)).digest('hex')}`,
  }
}

/** Durations are checked elsewhere. */
export function* checkProcess(at: Path, entry: Entry): Generator<Issue> {
  const { process, stop_command, base_url, api_key, preset, health, memory, device } = entry
  if (!Array.isArray(process)) {
    const lone = [...PROCESS_FIELDS.filter((field) => entry[field] !== undefined)]
    for (const field of lone) yield issue([...at, field], `${field} requires process. Remove it.`)
    if (toEntry(entry.deadlines).start !== undefined)
      yield issue([...at, 'deadlines', 'start'], 'start requires process. Remove it.')
    if (typeof process === 'string' && !HASH.test(process))
      yield issue([...at, 'process'], 'must be a list, such as [llama-server, -m, /models/x.gguf, --port, "{port}"].')
  } else {
    yield* checkWords([...at, 'process'], process)
    yield* checkWords([...at, 'stop_command'], stop_command)
    if (!process.some((word) => String(word).includes('{port}')))
      yield issue([...at, 'process'], 'has no port. Each start uses another one, so add {port}.')
  }
  if (process === undefined) return
  for (const [field, value] of Object.entries({ base_url, api_key, preset }))
    if (value !== undefined) yield issue([...at, field], `an upstream with process can't have ${field}. Remove it.`)
  if (typeof health === 'string' && !/^\/[\w./-]*$/.test(health))
    yield issue([...at, 'health'], 'must be a path that starts with /, such as /health.')
  yield* checkSize([...at, 'memory'], memory)
  yield* checkDevice([...at, 'device'], device)
}

function* checkWords(at: Path, words: unknown): Generator<Issue> {
  for (const [index, word] of toItems(words).entries()) {
    if (typeof word !== 'string') continue
    const unknown = /\{\w+\}/g
    for (const [place] of word.matchAll(unknown))
      if (!['{port}', '{key}', '{slug}'].includes(place) && /^\{[a-z]+\}$/.test(place))
        yield issue([...at, index], `${place} is unknown. Use {port}, {key}, or {slug}.`)
    if (word.includes('\0')) yield issue([...at, index], 'contains a NUL character.')
  }
}

/** llama-server's names, including `RPC[host:port]`. */
const DEVICE = /^[A-Za-z0-9][\w.:[\]-]{0,63}$/

/** Invalid sizes are skipped. */
export function toMemoryBudgets(memory: unknown): MemoryBudgets {
  const sizes: [string | null, unknown][] = isObject(memory) ? Object.entries(memory) : [[null, memory]]
  return new Map(
    sizes.flatMap(([device, size]): [string | null, number][] => {
      const bytes = toSize(String(size ?? ''))
      return bytes === null ? [] : [[device, bytes]]
    }),
  )
}

/** Files without `memory` may be combined with one that has it. */
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
    yield issue(['memory'], 'is empty. Write a size, such as 22G, or one per device, such as { CUDA0: 22G }.')
  for (const [device, size] of Object.entries(memory)) {
    yield* checkDevice(['memory', device], device)
    yield* checkSize(['memory', device], size)
  }
}

function* checkSize(at: Path, value: unknown): Generator<Issue> {
  if ((typeof value === 'string' || typeof value === 'number') && toSize(String(value)) === null)
    yield issue(at, 'must be a size with a unit, such as 22G or 512M.')
}

function* checkDevice(at: Path, device: unknown): Generator<Issue> {
  if (typeof device === 'string' && !DEVICE.test(device))
    yield issue(at, 'must be a device name, such as CUDA0 or cpu.')
}

export const toDevices = (upstreams: Entry): [upstream: string, device: string | null][] =>
  Object.entries(upstreams).flatMap(([id, entry]) => {
    const { process, device } = toEntry(entry)
    return Array.isArray(process) ? [[id, typeof device === 'string' ? device : null]] : []
  })

/** Null if a device (or none) matches the memory limits. */
export function explainDevice(memory: MemoryBudgets, device: string | null): string | null {
  if (memory.size === 0 || memory.has(device)) return null
  const names = [...memory.keys()].filter((name) => name !== null)
  if (names.length === 0)
    return `requires memory per device, but the catalog's memory is one size. Write it as { ${device}: 22G }, or remove this.`
  const known = toList(names, 'or')
  return device === null
    ? `is missing, because the catalog's memory is per device. Set it to ${known}.`
    : `is not in the catalog's memory. Use ${known}, or add ${device} there.`
}
