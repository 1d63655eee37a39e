/**
 * Tool calls as the contract streams them (section 3b, check 2): indexes from 0 without gaps; id, type and name once, in
 * a first delta with empty arguments; then pieces of the arguments. Upstreams leave indexes out, repeat them or let
 * them drift, so a piece finds its call by its id first, then by its index, else it belongs to the last one. Pure.
 */
import type { ToolCallDelta } from '../../../domain/answer.ts'
import { createJoiner, type Joiner } from './join.ts'
import { type ToolEntry, toToolEntry } from './tool-entry.ts'

interface Call {
  /** The upstream's own id and index. */
  id: string
  index: number | null
  kind: 'function' | 'custom'
  name: string
  /** All arguments so far, or all of a custom tool's input. */
  text: string
  joiner: Joiner
  /** Our index; null until its name is known and its first delta has gone out. */
  position: number | null
}

export interface ToolCalls {
  /** Takes one delta's or one message's `tool_calls` and returns ours, one for each frame. */
  take(list: unknown): ToolCallDelta[]
  /** What is still missing. `complete`: the answer was not cut short, so a call without arguments has none: `{}`. */
  end(complete: boolean): ToolCallDelta[]
  /** Whether a call has gone out. */
  any(): boolean
}

/** @param mint gives the id of a call that has none, by its position. */
export function createToolCalls(mint: (position: number) => string): ToolCalls {
  const calls: Call[] = []
  const ids = new Set<string>()
  let positions = 0

  /** The call that an entry continues; undefined where it begins one. */
  const find = (entry: ToolEntry): Call | undefined => {
    const sameId = entry.id === '' ? undefined : calls.find(({ id }) => id === entry.id)
    if (sameId) return sameId
    const nearest = entry.index === null ? calls.at(-1) : calls.findLast(({ index }) => index === entry.index)
    if (entry.id !== '') return nearest && isJoined(nearest, entry) ? nearest : undefined
    return nearest ?? (entry.name === '' ? calls.at(-1) : undefined)
  }

  const begin = ({ id, index, kind }: ToolEntry): Call => {
    const call: Call = { id, index, kind, name: '', text: '', joiner: createJoiner(), position: null }
    calls.push(call)
    return call
  }

  const open = (call: Call): ToolCallDelta => {
    const { kind, name } = call
    call.position = positions++
    const id = call.id === '' || ids.has(call.id) ? mint(call.position) : call.id
    ids.add(id)
    const head = { index: call.position, id, type: kind }
    return kind === 'custom' ? { ...head, custom: { name, input: '' } } : { ...head, function: { name, arguments: '' } }
  }

  const takeEntry = (entry: ToolEntry, begunHere: Set<Call>): ToolCallDelta[] => {
    const found = find(entry)
    if (found && !begunHere.has(found) && isRepeated(found, entry)) return []
    const call = found && !isAnother(found, entry, begunHere.has(found)) ? found : begin(entry)
    if (call !== found) begunHere.add(call)
    call.id ||= entry.id
    call.text += entry.text
    if (call.position !== null) return toPieces(call, call.joiner.take(entry.text))
    if (entry.name === '') return []
    call.name = entry.name
    call.kind = entry.kind
    return [open(call), ...toPieces(call, call.joiner.take(call.text))]
  }

  return {
    take(list) {
      const begunHere = new Set<Call>()
      const out: ToolCallDelta[] = []
      for (const item of Array.isArray(list) ? list : [list]) {
        const entry = toToolEntry(item)
        if (entry) out.push(...takeEntry(entry, begunHere))
      }
      return out
    },
    end(complete) {
      return calls.flatMap((call) => {
        const without = complete && call.kind === 'function' && call.text.trim() === ''
        return toPieces(call, call.joiner.end() + (without ? '{}' : ''))
      })
    },
    any: () => positions > 0,
  }
}

function toPieces({ position, kind }: Call, text: string): ToolCallDelta[] {
  if (position === null || text === '') return []
  return [
    kind === 'custom'
      ? { index: position, custom: { input: text } }
      : { index: position, function: { arguments: text } },
  ]
}

/** Whether a named entry begins another call than the one that its id or index points to. */
function isAnother(call: Call, { name, text }: ToolEntry, begunInSameList: boolean): boolean {
  if (name === '') return false
  // In one list, each name is a call. Otherwise it says another name, or begins again what is complete.
  if (begunInSameList || call.name === '') return begunInSameList
  return name !== call.name || (text.trimStart().startsWith('{') && isWhole(call))
}

/**
 * Whether an entry with a new id still continues the call at its index: the call's id came late, or every piece has one
 * of its own. Else an index that is used again is a new call.
 */
const isJoined = (call: Call, { name }: ToolEntry) =>
  call.id === '' || (name === '' && call.name !== '' && !isWhole(call))

/** Whether an entry only says again what its call has said: some servers close a stream so. */
const isRepeated = (call: Call, { id, text }: ToolEntry) =>
  id !== '' && id === call.id && text !== '' && text === call.text && isWhole(call)

function isWhole({ kind, text }: Call): boolean {
  if (kind === 'custom' || !text.trimEnd().endsWith('}')) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
