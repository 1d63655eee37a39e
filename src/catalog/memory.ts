/**
 * `memory` at the top of a catalogue, one size or a size for each device, and the devices that upstreams with a process take memory
 * of. Pure.
 */
import type { MemoryBudgets } from '../domain/model-server.ts'
import { toSize } from '../domain/text.ts'
import { isObject, toList } from '../validation/explain.ts'
import { type Entry, type Issue, issue, type Path, toEntry } from './entry.ts'

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
export function* checkSize(at: Path, value: unknown): Generator<Issue> {
  if ((typeof value === 'string' || typeof value === 'number') && toSize(String(value)) === null)
    yield issue(at, 'must be a size with its unit, such as 22G or 512M.')
}

/** Says what is wrong with the name of a device. */
export function* checkDevice(at: Path, device: unknown): Generator<Issue> {
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
