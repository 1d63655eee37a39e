/** One item of an upstream's `tool_calls`, in whichever shape it comes. Pure. */
import type { ToolKind } from '../../../domain/events.ts'
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'

/** One item of an upstream's `tool_calls`, whole or a piece of one. Texts are '' where it says none. */
export interface Entry {
  /** The upstream's own id and index. */
  id: string
  index: number | null
  kind: ToolKind
  name: string
  /** The next piece of the arguments, or of a custom tool's input. */
  text: string
  /** What else it carries, such as a signature (`signatures.ts`); null where that is nothing. */
  extra: JsonObject | null
}

export const NO_ENTRY: Entry = { id: '', index: null, kind: 'function', name: '', text: '', extra: null }

/** Reads whichever fields are there; null for what is no item at all. */
export function toEntry(value: unknown): Entry | null {
  const item = asObject(value)
  if (!item) return null
  const custom = asObject(item.custom)
  const kind = item.type === 'custom' || custom ? 'custom' : 'function'
  const called = custom ?? asObject(item.function) ?? item
  const { id } = item
  return {
    id: typeof id === 'number' ? String(id) : asText(id),
    index: Number.isInteger(item.index) ? (item.index as number) : null,
    kind,
    name: asText(called.name),
    text: toText(kind === 'custom' ? called.input : called.arguments),
    extra: asObject(item.extra_content),
  }
}

/**
 * Writes arguments that came as JSON as the text of it. An object without members says nothing: servers put it where
 * the text is still to come, and a call without arguments gets its `{}` in the end.
 */
export function toText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  const text = JSON.stringify(value)
  return text === '{}' ? '' : text
}
