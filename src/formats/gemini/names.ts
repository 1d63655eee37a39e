/** Names of fields, which Google accepts in camel case and in snake case. */
import { type Decision, GatewayError } from '../../domain/error.ts'
import type { JsonObject } from '../../domain/json.ts'
import { invalid } from './errors.ts'

/** Values with names that clients choose. */
const OPAQUE: ReadonlySet<string> = new Set([
  ...['args', 'response', 'parameters', 'parametersJsonSchema', 'responseSchema', 'responseJsonSchema'],
  ...['labels', 'partMetadata'],
])

const toCamel = (name: string) =>
  name.includes('_') ? name.replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()) : name

/** Returns a copy with names in camel case. Refuses an object with both forms of a name, since it's ambiguous. */
export function withCamelNames(value: unknown, path = ''): Decision<unknown> {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const items: unknown[] = []
    for (let at = 0; at < value.length; at++) {
      const item = withCamelNames(value[at], `${path}[${at}]`)
      if (item instanceof GatewayError) return item
      items.push(item)
    }
    return items
  }
  const fields: [string, unknown][] = []
  const seen = new Set<string>()
  for (const [name, held] of Object.entries(value as JsonObject)) {
    const camel = toCamel(name)
    const at = path === '' ? camel : `${path}.${camel}`
    if (seen.has(camel)) return invalid(at.slice(0, 200), 'this field was sent twice, in camel case and in snake case.')
    seen.add(camel)
    const inner = OPAQUE.has(camel) ? held : withCamelNames(held, at)
    if (inner instanceof GatewayError) return inner
    fields.push([camel, inner])
  }
  return Object.fromEntries(fields)
}
