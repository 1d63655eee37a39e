/**
 * What of a request that may go on as it came its upstreams must not be sent: `refused.ts` says the same of one that is written
 * anew, field by field, while here nobody has looked at anything but this. Found once a request. Pure.
 */
import { reasonToRefuseTool, toPlainName } from '../domain/fields.ts'
import { asList, asObject, type JsonObject } from '../domain/json.ts'
import type { NativeRequest } from '../domain/task.ts'
import { addDoubtful, type Doubtful, isStoredAddress } from './refused.ts'

/** Lists what is in doubt: fields of the request and of its tools, tools that cost, and what names stored objects at any depth. */
export function findNativeDoubts({ endpoint, json }: NativeRequest): readonly Doubtful[] {
  // What a completion is asked to go on with.
  const of = endpoint === 'completions' ? { ...json, prompt: null } : json
  const found = addDoubtful(of, '', null) ?? []
  const param = addWithin(json, found)
  if (param !== null) found.push({ name: 'file_id', param, reason: 'stored', mode: null })
  return found
}

function addTool(tool: JsonObject, at: string, found: Doubtful[]): void {
  addDoubtful(tool, `${at}.`, found)
  const refused = typeof tool.type === 'string' ? reasonToRefuseTool(tool.type) : null
  // By the name that `pass` has for it.
  if (refused) found.push({ ...refused, param: `${at}.type`, mode: null })
}

/** Words and schemas, which are anybody's, and so are the inputs of tools. */
const WORDS: ReadonlySet<string> = new Set([
  ...['text', 'input_schema', 'parameters', 'schema', 'metadata', 'client_metadata', 'arguments'],
])

/** Ids of what a provider keeps: no name is longer, and what their plain names have in common finds them quickly. */
const STORED = /^(?:fileids?|containerid|vectorstoreids?|conversationid|promptid)$/
const MAY_BE_STORED = /file|cont|vec|conv|prom/i

/**
 * Adds the tools that are in doubt, of the request and of items that bring more of them. Returns the path of the first field, or item,
 * that names an object which the provider keeps; null where there is none.
 */
function addWithin(json: JsonObject, found: Doubtful[]): string | null {
  const reference = asList(json.input).findIndex(isReference)
  let stored = reference === -1 ? null : `input[${reference}]`
  const open: { held: object; path: string }[] = [{ held: json, path: '' }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { held, path } = next
    const isList = Array.isArray(held)
    const isCall = !isList && 'type' in held && path !== ''
    for (const name in held) {
      const value: unknown = (held as JsonObject)[name]
      const at = () => (isList ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`)
      if (value === null || (!isList && WORDS.has(name))) continue
      if (!isList && MAY_BE_STORED.test(name) && STORED.test(toPlainName(name))) stored ??= at()
      if (typeof value === 'string') {
        if (isStoredAddress(name, value)) stored ??= at()
      } else if (typeof value === 'object' && !(isCall && name === 'input')) {
        open.push({ held: value, path: at() })
        if (!isList && name === 'tools') addTools(asList(value), at(), found)
      }
    }
  }
  return stored
}

function addTools(tools: readonly unknown[], at: string, found: Doubtful[]): void {
  for (const [index, value] of tools.entries()) {
    const tool = asObject(value)
    if (tool) addTool(tool, `${at}[${index}]`, found)
  }
}

/**
 * An item that stands for one that was kept: it says no more than its id. So may a picture, to be drawn anew
 * (https://platform.openai.com/docs/guides/image-generation).
 */
function isReference(value: unknown): boolean {
  const { id, type = null, role = null, result } = asObject(value) ?? {}
  if (typeof id !== 'string') return false
  return type === 'item_reference' || (type === 'image_generation_call' && !result) || (type === null && role === null)
}
