/** Renames or drops fields of a request, its messages or deeper, by settings that are compiled once so that one pass changes everything. */

import type { UpstreamOptions, UpstreamSettings } from '../../../domain/dialects.ts'
import { isPassed, isRouting } from '../../../domain/fields.ts'
import { asObject, type JsonObject } from '../../../domain/json.ts'
import type { Form } from '../../../domain/multipart.ts'

export type Changes = ReadonlyMap<string, Change>

interface Change {
  /** New name, unless that field exists, too; null drops it. */
  to?: string | null
  inner?: Map<string, Change>
}

interface RequestChanges {
  fields: Changes
  message: Changes
}

/** Prompt cache marks of requests, messages, parts and tools; `drop` names them all at once. */
const MARK = 'cache_control'
const MARKED = ['messages', 'messages.content', 'tools', 'tools.function'].map((place) => `${place}.${MARK}`)

const known = new WeakMap<object, RequestChanges>()

/** @param settings of one upstream: the same object while they don't change. */
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

/**
 * The body of a request that isn't a chat, by the upstream's settings. Drops fields that choose a route, unless the upstream's `pass`
 * allows them.
 * @param own known fields, which the client's extra fields don't replace.
 */
export function toEndpointBody(own: JsonObject, extras: Readonly<JsonObject>, options: UpstreamOptions): JsonObject {
  const sent = { ...own }
  for (const [name, value] of Object.entries(extras))
    if (!isRouting(name) || isPassed(options.pass, name)) sent[name] ??= value
  return { ...toChanged(sent, toChanges(options).fields), ...options.extra_body }
}

/** The same for a form: new names, and fields to drop. */
export function toFormChanges({ parts }: Form, options: UpstreamOptions) {
  const changes = toChanges(options).fields
  const names = new Map<string, string>()
  const dropped = new Set<string>()
  for (const { name } of parts) {
    const to = changes.get(name)?.to
    const isForOther = isRouting(name.replace(/\[.*/s, '')) && name !== 'model' && !isPassed(options.pass, name)
    if (to === null || isForOther) dropped.add(name)
    else if (to !== undefined) names.set(name, to)
  }
  return { names, dropped }
}

/** Returns the same value if nothing changes; never modifies it, since it may be the client's. */
export function toChanged(value: JsonObject, changes: Changes): JsonObject {
  let copy: JsonObject | null = null
  for (const name in value) {
    const change = changes.get(name)
    if (change === undefined) continue
    const { to, inner } = change
    const held = inner ? toInner(value[name], inner) : value[name]
    if (to === undefined && held === value[name]) continue
    copy ??= { ...value }
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

/** Maps a list; returns the same list if nothing changes. */
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
