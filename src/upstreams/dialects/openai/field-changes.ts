/**
 * Fields that an upstream has under another name, or is not sent: of a request, of its messages, or deeper. What its settings say of
 * them is put in order once, so that one pass over a value changes all of it. Pure.
 */

import type { UpstreamSettings } from '../../../domain/dialects.ts'
import { asObject, type JsonObject } from '../../../domain/json.ts'

/** By names of fields. */
export type Changes = ReadonlyMap<string, Change>

interface Change {
  /** Its other name, unless there is a field of that one, too; null: it goes. */
  to?: string | null
  /** What is to change in it: in an object, or in each object of a list. */
  inner?: Map<string, Change>
}

interface RequestChanges {
  /** Of its fields, but for the messages. */
  fields: Changes
  /** Of each message. */
  message: Changes
}

/** Where a prompt cache begins anew: said of the request, and of messages, parts and tools; `drop` has one name for all. */
const MARK = 'cache_control'
const MARKED = ['messages', 'messages.content', 'tools', 'tools.function'].map((place) => `${place}.${MARK}`)

const known = new WeakMap<object, RequestChanges>()

/** @param settings of one upstream: the same object for as long as they are the same. */
export function toChanges(settings: Pick<UpstreamSettings, 'drop' | 'rename'>): RequestChanges {
  const found = known.get(settings)
  if (found) return found
  const { drop = [], rename = {} } = settings
  const fields = new Map<string, Change>()
  for (const [path, to] of Object.entries(rename)) add(fields, path.split('.'), to)
  for (const path of drop.includes(MARK) ? [...drop, ...MARKED] : drop) add(fields, path.split('.'), null)
  const message = fields.get('messages')?.inner ?? new Map()
  fields.delete('messages')
  known.set(settings, { fields, message })
  return { fields, message }
}

function add(changes: Map<string, Change>, [name = '', ...rest]: string[], to: string | null): void {
  const change = changes.get(name) ?? {}
  changes.set(name, change)
  if (rest.length === 0) change.to = to
  else {
    change.inner ??= new Map()
    add(change.inner, rest, to)
  }
}

/** A value with these changes; the same value where none of them is of it, for it may be the client's. */
export function toChanged(value: JsonObject, changes: Changes): JsonObject {
  let copy: JsonObject | null = null
  for (const name in value) {
    const change = changes.get(name)
    if (change === undefined) continue
    const { to, inner } = change
    const held = inner ? toInner(value[name], inner) : value[name]
    if (to === undefined && held === value[name]) continue
    copy ??= { ...value }
    // JSON leaves out what is undefined.
    copy[name] = to === undefined ? held : undefined
    if (to != null) copy[to] ??= held
  }
  return copy ?? value
}

function toInner(value: unknown, changes: Changes): unknown {
  if (Array.isArray(value)) return toList(value, (each) => toInner(each, changes))
  const object = asObject(value)
  return object ? toChanged(object, changes) : value
}

/** A list with what a function makes of each of its values; the same list where that is nothing else. */
export function toList<Next, Each extends Next>(list: readonly Each[], make: (each: Each) => Next): readonly Next[] {
  let copy: Next[] | null = null
  for (let at = 0; at < list.length; at++) {
    const each = list[at] as Each
    const next = make(each)
    if (next === each) continue
    copy ??= [...list]
    copy[at] = next
  }
  return copy ?? list
}
