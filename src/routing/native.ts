/**
 * What of a request that may go on as it came its upstreams must not be sent: `refused.ts` says the same of one that is written
 * anew, field by field, while here nobody has looked at anything but this. Found once a request. Pure.
 */
import { isHeldBack, reasonToRefuse, reasonToRefuseTool, toPlainName } from '../domain/fields.ts'
import { asList, asObject, type JsonObject } from '../domain/json.ts'
import { CONVERSATION, isHarmless, type PassedNames, passedNamesOf } from '../domain/passed-fields.ts'
import type { NativeRequest } from '../domain/task.ts'
import { addDoubtful, type Doubtful, isStoredAddress } from './refused.ts'

/**
 * Lists what is in doubt: fields of the request and of its tools, tools that cost, what names stored objects at any depth, and what the
 * format's list of names lacks.
 */
export function findNativeDoubts({ endpoint, json }: NativeRequest): readonly Doubtful[] {
  // What a completion is asked to go on with.
  const of = endpoint === 'completions' ? { ...json, prompt: null } : json
  const found = addDoubtful(of, '', null) ?? []
  const param = addWithin(json, passedNamesOf(endpoint), found)
  if (param !== null) found.push({ name: 'file_id', param, reason: 'stored', mode: null })
  return found
}

/** Schemas and labels, whose names are anybody's, and so are those of the inputs of tools. */
const ANYBODYS: ReadonlySet<string> = new Set([
  ...['input_schema', 'output_schema', 'parameters', 'schema', 'input_examples', 'metadata', 'client_metadata'],
  ...['arguments', 'env', 'internal_chat_message_metadata_passthrough'],
])

/** Ids of what a provider keeps: no name is longer, and what their plain names have in common finds them quickly. */
const STORED = /^(?:fileids?|containerid|vectorstoreids?|conversationid|promptid|skillid|comparisonresponseid)$/
const MAY_BE_STORED = /file|cont|vec|conv|prom|skill|comp/i

/** What is still to be looked at. */
interface Open {
  held: object
  path: string
  /** The names that it may have; null where any, or where what holds it is in doubt as a whole. */
  names: PassedNames | null
  /** Whether it is part of the conversation. */
  isSaid: boolean
  /** Whether it is a tool, or a list of them. */
  isTool: boolean
  /** Whether a field above has passed by its value, with all that is in it: to look through that at each level takes seconds. */
  isHarmless: boolean
}

/**
 * Adds what is in doubt of the request, of its tools and of items that bring more of them. Returns the path of the first field, or item,
 * that names an object which the provider keeps; null where there is none.
 */
function addWithin(json: JsonObject, passed: PassedNames | null, found: Doubtful[]): string | null {
  const reference = asList(json.input).findIndex(isReference)
  let stored = reference === -1 ? null : `input[${reference}]`
  const open: Open[] = [{ held: json, path: '', names: passed, isSaid: false, isTool: false, isHarmless: false }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { held, path, isSaid, isTool } = next
    const isList = Array.isArray(held)
    const isTyped = !isList && 'type' in held && path !== ''
    const names = isList ? next.names : addKind(held as JsonObject, next, found)
    for (const name in held) {
      const value: unknown = (held as JsonObject)[name]
      if (value === null) continue
      const at = () => toPath(path, name, isList)
      let within = names
      let isHarmless = next.isHarmless
      if (!isList) {
        if (MAY_BE_STORED.test(name) && STORED.test(toPlainName(name))) stored ??= at()
        const verdict = names && judge(names, name, value, next)
        if (verdict === 'unknown') found.push({ name, param: at(), reason: verdict, mode: null })
        if (verdict !== 'passes' && verdict !== 'harmless') within = null
        isHarmless ||= verdict === 'harmless'
        if (ANYBODYS.has(name) && (path !== '' || passed === null || passed.fields.has(name))) continue
      }
      if (typeof value === 'string') {
        if (isStoredAddress(name, value)) stored ??= at()
      } else if (typeof value === 'object' && !(isTyped && name === 'input')) {
        const bringsTools = !isList && TOOLS.has(name)
        const isOfConversation = path === '' ? CONVERSATION.has(name) : isSaid && !bringsTools
        open.push({
          held: value,
          path: at(),
          names: within,
          isSaid: isOfConversation,
          isTool: isList ? isTool : bringsTools,
          isHarmless: isHarmless && !bringsTools,
        })
      }
    }
  }
  return stored
}

/** Fields that hold tools. */
const TOOLS: ReadonlySet<string> = new Set(['tools', 'tool', 'definition'])

/** A path may be as long as its client likes. */
const MAX_PATH = 256

const toPath = (path: string, name: string, isList: boolean) =>
  (isList ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`).slice(0, MAX_PATH)

/** Adds what is in doubt of an object by its type, and by its fields where it is a tool. Returns the names that it may have. */
function addKind(held: JsonObject, { path, names, isTool }: Open, found: Doubtful[]): PassedNames | null {
  if (isTool) addDoubtful(held, `${path}.`, found)
  const { type } = held
  if (typeof type !== 'string' || path === '') return names
  const refused = isTool || (names && !names.types.has(type)) ? reasonToRefuseTool(type) : null
  const param = `${path}.type`
  if (refused) found.push({ ...refused, param, mode: null })
  else if (names && !names.types.has(type))
    found.push({ name: type.slice(0, MAX_PATH), param, reason: 'unknown', mode: null })
  else return names
  return null
}

/** Whether a field may go on, by its name or (`harmless`) by its value; `elsewhere` where what `fields.ts` says of its name decides that. */
function judge(
  { fields, within }: PassedNames,
  name: string,
  value: unknown,
  { path, isSaid, isTool, isHarmless: isWithinHarmless }: Open,
): 'passes' | 'harmless' | 'elsewhere' | 'unknown' {
  const isTop = path === ''
  if (isWithinHarmless || (isTop ? fields : within).has(name)) return 'passes'
  if (isTop ? isHeldBack(name) : isTool && reasonToRefuse(name, value) !== null) return 'elsewhere'
  return isHarmless(value, isSaid) ? 'harmless' : 'unknown'
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
