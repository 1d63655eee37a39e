/**
 * A request of the OpenAI format as an upstream takes it that is particular about it: fields under other names, left out or put in,
 * instructions of developers as those of the system. By its settings alone; most upstreams have none of
 * them. Pure.
 */
import { asObject, type JsonObject } from '../../../domain/json.ts'
import type { UpstreamSettings } from '../../../domain/settings.ts'

/** Whether there is anything to adapt for an upstream. */
export const isParticular = (options: UpstreamSettings): boolean =>
  options.drop !== undefined ||
  options.rename !== undefined ||
  options.extra_body !== undefined ||
  options.developer_role === 'system'

/** @param sent is changed; what it holds never is, for it is the client's. */
export function adapt(sent: JsonObject, options: UpstreamSettings): void {
  const { rename, drop, extra_body: extra } = options
  for (const path in rename) moveField(sent, path, rename[path] as string)
  if (drop) for (const path of drop) moveField(sent, path, null)
  if (drop?.includes(MARK)) dropMarks(sent)
  if (options.developer_role === 'system') sent.messages = mapped(sent.messages, asSystem)
  if (extra) for (const name in extra) sent[name] = extra[name]
}

/** @param to another name for its last part, unless there is a field of that name; null: it goes. */
function moveField(sent: JsonObject, path: string, to: string | null): void {
  const dot = path.indexOf('.')
  if (dot === -1) {
    if (sent[path] === undefined) return
    if (to !== null) sent[to] ??= sent[path]
    sent[path] = undefined
    return
  }
  const [outer, inner] = [path.slice(0, dot), path.slice(dot + 1)]
  sent[outer] = mapped(sent[outer], (value) => without(value, inner, to))
}

function without(value: JsonObject, name: string, to: string | null): JsonObject {
  if (!(name in value)) return value
  const { [name]: held, ...rest } = value
  return to === null || rest[to] != null ? rest : { ...rest, [to]: held }
}

/** Where a prompt cache begins anew: said of the request, and of messages, parts and tools. */
const MARK = 'cache_control'

function dropMarks(sent: JsonObject): void {
  const within = (name: string) => (value: JsonObject) => {
    const bare = without(value, MARK, null)
    const inner = mapped(bare[name], (each) => without(each, MARK, null))
    return inner === bare[name] ? bare : { ...bare, [name]: inner }
  }
  sent.messages = mapped(sent.messages, within('content'))
  sent.tools = mapped(sent.tools, within('function'))
}

const asSystem = (message: JsonObject): JsonObject =>
  message.role === 'developer' ? { ...message, role: 'system' } : message

/** An object, or each object of a list, changed; as it came where none is. */
function mapped(value: unknown, change: (value: JsonObject) => JsonObject): unknown {
  if (!Array.isArray(value)) {
    const object = asObject(value)
    return object ? change(object) : value
  }
  let changed: unknown[] | null = null
  for (let at = 0; at < value.length; at++) {
    const object = asObject(value[at])
    if (object === null) continue
    const next = change(object)
    if (next === object) continue
    changed ??= [...value]
    changed[at] = next
  }
  return changed ?? value
}
