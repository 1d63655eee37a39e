/**
 * Fields of a request that a target must not be sent, whoever asks: by them a key would read what another has stored with the provider, or
 * buy what no price is known for. Of a translated request the fields that it has; of one that may pass as it came, where nobody has looked
 * at anything, everything. Found once a request, then asked about each of its targets. Pure.
 */

import { EmbeddingsRequest } from '../domain/embedding.ts'
import { GatewayError } from '../domain/error.ts'
import {
  isHeldBack,
  isPassed,
  type RefusalReason,
  reasonToRefuse,
  reasonToRefuseTool,
  toPlainName,
} from '../domain/fields.ts'
import { asList, asObject, type JsonObject, valuesWithin } from '../domain/json.ts'
import { toMode } from '../domain/mode.ts'
import { CONVERSATION, isHarmless, type PassedNames, passedNamesOf } from '../domain/passed-fields.ts'
import type { AnyRequest, CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import { costsTimeAlone, hasMode } from '../domain/tariff.ts'
import type { Lane, NativeRequest } from '../domain/task.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'

/** A field that not every upstream may be sent. */
export interface RestrictedField {
  name: string
  param: string
  reason: RefusalReason
  /** How a call would be served that has it, where that is what it asks for. */
  mode: string | null
  /** The feature that a model has, and the price that its sheet has, where it is known what it costs. */
  price?: 'web_search'
}

const NONE: readonly RestrictedField[] = []

/** Lists the fields of a request, and of its tools, that are in doubt. Nearly no request has one. */
export function findRestricted(body: AnyRequest): readonly RestrictedField[] {
  if (body instanceof EmbeddingsRequest) return addRestricted(body.extras, '', null) ?? NONE
  let found = addRestricted(body, '', null)
  const { tools } = body
  // Some gateways take a provider's own tools as further fields of a function.
  if (tools) for (let at = 0; at < tools.length; at++) found = addRestricted(tools[at] ?? {}, `tools[${at}].`, found)
  const param = findStoredFile(body)
  if (param === null) return found ?? NONE
  return [...(found ?? NONE), { name: 'file_id', param, reason: 'stored', mode: null }]
}

/**
 * Adds to a list, or to a new one where there is none.
 * @param at the path of what holds the fields, with a dot behind it.
 */
function addRestricted(holder: object, at: string, found: RestrictedField[] | null): RestrictedField[] | null {
  let more = found
  for (const name in holder) {
    const value = (holder as Record<string, unknown>)[name]
    const reason = reasonToRefuse(name, value)
    if (reason === null) continue
    more ??= []
    more.push({
      name,
      param: at + name.slice(0, MAX_NAME_CHARS),
      reason,
      mode: reason === 'dear' ? toMode(value) : null,
    })
  }
  return more
}

/** A name may be as long as its client likes. */
const MAX_NAME_CHARS = 64

/** The path of the first part that names a file which the provider keeps, or null. */
function findStoredFile({ messages }: CanonicalRequest): string | null {
  for (let index = 0; index < messages.length; index++) {
    const content = messages[index]?.content
    if (typeof content === 'string' || !content) continue
    for (let at = 0; at < content.length; at++) {
      const part = content[at]
      if (part && part.type !== 'text' && hasStoredFile(part)) {
        const file = part.type === 'file' ? '.file.file_id' : ''
        return `messages[${index}].content[${at}]${file}`
      }
    }
  }
  return null
}

function hasStoredFile(part: object): boolean {
  for (const [name, value] of valuesWithin(part)) {
    if (value === null || typeof value === 'object') continue
    if (toPlainName(name) === 'fileid' || (typeof value === 'string' && STORED_ADDRESS.test(value))) return true
  }
  return false
}

/** Addresses that a provider reads as its account, and nobody else may: of cloud storage, and of files that Google keeps. */
const STORED_ADDRESS = /^\s*(?:(?:gs|s3):|https?:\/\/(?:[\w.-]*@)?(?:[\w-]+-)?generativelanguage\.googleapis\.com)/i

/** Whether a text is such an address, in a field that holds one. */
const isStoredAddress = (name: string, value: string): boolean => ADDRESS.test(name) && STORED_ADDRESS.test(value)
const ADDRESS = /ur[il]$/i

/** Returns the refusal of the first field that a target must not be sent, or null. See `mayBeSent`. */
export function checkRestricted(
  found: readonly RestrictedField[],
  target: Target,
  lane: Lane = 'translated',
): GatewayError | null {
  const first = found.find((each) => !mayBeSent(each, target, lane))
  if (!first) return null
  const { param, reason } = first
  return new GatewayError(
    'invalid_request',
    `Unsupported parameter: '${param}' is not supported with the model \`${target.model}\`: ${WHY[reason]}`,
    { code: 'unsupported_parameter', param },
  )
}

/**
 * Whether a target may be sent what is in doubt.
 * @param lane in which it would go there.
 */
export function mayBeSent(
  { name, reason, mode, price }: RestrictedField,
  { upstream, pricing, features }: Target,
  lane: Lane,
): boolean {
  if (isPassed(upstream.options.pass, name)) return true
  if (mode !== null && dialectOf(upstream).tellsMode[lane] && hasMode(pricing, mode)) return true
  // What such a model may cost is reserved with its searches.
  if (price && features.includes(price) && pricing.every((item) => item[price] !== undefined)) return true
  // A server of one's own has fields of its own, and one account.
  if (reason === 'unknown') return upstream.local
  // What costs nothing costs no more, nor does what costs its time.
  return (reason === 'dear' || reason === 'fee') && upstream.local && costsTimeAlone(pricing)
}

const WHY: Readonly<Record<RefusalReason, string>> = {
  stored: 'it names what is stored with the provider, where no key is told from another. Send the content itself.',
  account: "it chooses an account of its provider's, or what that may do. Leave it out.",
  later: 'answers come in the response to their request and are not kept. Leave it out.',
  dear: 'with this value its provider charges more than the price that is known here. Leave it out.',
  fee: 'its provider charges for each use, and no price of that is known here. Leave it out.',
  unknown:
    'Tollgate does not know what it may cost, store or reach. Leave it out, or name it in `pass` of the upstream.',
}

/**
 * Lists what is in doubt: fields of the request and of its tools, tools that cost, what names stored objects at any depth, and what the
 * format's list of names lacks.
 */
export function findNativeRestricted({ endpoint, json }: NativeRequest): readonly RestrictedField[] {
  // What a completion is asked to go on with.
  const of = endpoint === 'completions' ? { ...json, prompt: null } : json
  const found = addRestricted(of, '', null) ?? []
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

interface Open {
  held: object
  path: string
  /** The names that it may have; null where any, or where what holds it is in doubt as a whole. */
  names: PassedNames | null
  isSaid: boolean
  isTool: boolean
  /** Whether a field above has passed by its value, with all that is in it: to look through that at each level takes seconds. */
  isHarmless: boolean
}

/**
 * Adds what is in doubt of the request, of its tools and of items that bring more of them. Returns the path of the first field, or item,
 * that names an object which the provider keeps; null where there is none.
 */
function addWithin(json: JsonObject, passed: PassedNames | null, found: RestrictedField[]): string | null {
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
function addKind(held: JsonObject, { path, names, isTool }: Open, found: RestrictedField[]): PassedNames | null {
  if (isTool) addRestricted(held, `${path}.`, found)
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
