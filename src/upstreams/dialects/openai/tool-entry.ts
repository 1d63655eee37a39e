/** Reads one item of an upstream's `tool_calls`, whole or a piece of one, whichever of its fields are there. Pure. */
import { asObject, asText } from '../../../domain/json.ts'

export interface ToolEntry {
  /** The upstream's own; null where it says none. */
  index: number | null
  /** '' where it says none. */
  id: string
  kind: 'function' | 'custom'
  /** '' where it says none. */
  name: string
  /** The next piece of the arguments, or of a custom tool's input. */
  text: string
}

/** Returns null for what is no item at all. */
export function toToolEntry(value: unknown): ToolEntry | null {
  const item = asObject(value)
  if (!item) return null
  const custom = asObject(item.custom)
  const kind = item.type === 'custom' || custom ? 'custom' : 'function'
  const called = custom ?? asObject(item.function) ?? item
  const { id } = item
  return {
    index: Number.isInteger(item.index) ? (item.index as number) : null,
    id: typeof id === 'number' ? String(id) : asText(id),
    kind,
    name: asText(called.name),
    text: toArgumentText(kind === 'custom' ? called.input : called.arguments),
  }
}

/**
 * Writes arguments that came as JSON as the text of it. An object without members says nothing: servers put it where
 * the text is still to come, and a call without arguments gets its `{}` in the end.
 */
export function toArgumentText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  const text = JSON.stringify(value)
  return text === '{}' ? '' : text
}
