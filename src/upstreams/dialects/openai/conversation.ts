/**
 * Adapts a conversation that other upstreams took part in: removes their signed state, replaces call IDs that this upstream refuses, and
 * moves images of tool results to a user message. Returns the same list if nothing changes, which is nearly always.
 */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { AssistantMessage, Message } from '../../../domain/request.ts'
import type { Upstream } from '../../../domain/snapshot.ts'
import { type IssuingTarget, toReasoningIssuer } from '../reasoning-state.ts'
import { ID_RULES, ToolIds, toArgumentsText } from '../tool-calls.ts'
import { toChanged, toChanges, toList } from './field-changes.ts'

export function toOwnConversation(
  messages: readonly Message[],
  target: IssuingTarget & { upstream: Pick<Upstream, 'options' | 'local'> },
): readonly JsonObject[] {
  const { options, local } = target.upstream
  const signer = toReasoningIssuer(target)
  const read = messages.some(hasPictures) ? movePictures(messages) : messages
  const { message: changes } = toChanges(options)
  const rule = options.tool_ids && ID_RULES[options.tool_ids]
  // Created on demand: most conversations have no calls.
  let ids: ToolIds | undefined
  const sent = toList<JsonObject, Message>(read, (message) => {
    const { role } = message
    if (role === 'developer' && options.developer_role === 'system')
      return toChanged({ ...message, role: 'system' }, changes)
    let own = role === 'assistant' ? withoutForeign(message, signer) : message
    if (rule && (role === 'tool' || (role === 'assistant' && message.tool_calls))) {
      ids ??= new ToolIds(rule, read)
      own = withIds(own, ids)
    }
    if (local && role === 'assistant') own = withReadableCalls(own)
    return toChanged(own, changes)
  })
  return sent === read ? read : sent.filter((message, at) => message === read[at] || saysSomething(message))
}

/** False for an assistant message with nothing left, which would be refused. */
const saysSomething = (message: JsonObject): boolean =>
  message.role !== 'assistant' ||
  Object.entries(message).some(([name, value]) => !NOT_SAID.has(name) && isFilled(value))

const NOT_SAID: ReadonlySet<string> = new Set(['role', 'name'])

const isFilled = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0)

/** Adds the issuer to an item of `reasoning_details` with a signature or encrypted data. Only the issuer can read it. */
export function signed<Item extends object>(item: Item, signer: string): Item | (Item & { signer: string }) {
  const { signature, data } = item as JsonObject
  return asText(signature) === '' && asText(data) === '' ? item : { ...item, signer }
}

type Part = Exclude<Message['content'], string | null | undefined>[number]
const isPicture = ({ type }: Part) => type === 'image_url'

const hasPictures = ({ role, content }: Message): boolean =>
  role === 'tool' && Array.isArray(content) && content.some(isPicture)

/** Images follow the last tool result of their turn. */
function movePictures(messages: readonly Message[]): readonly Message[] {
  const moved: Message[] = []
  let pictures: Part[] = []
  const say = () => {
    const intro: Part = { type: 'text', text: 'What the tools have shown:' }
    if (pictures.length > 0) moved.push({ role: 'user', content: [intro, ...pictures] } as Message)
    pictures = []
  }
  for (const message of messages) {
    if (message.role !== 'tool') say()
    if (message.role !== 'tool' || typeof message.content === 'string' || !hasPictures(message)) moved.push(message)
    else {
      pictures.push(...message.content.filter(isPicture))
      const rest = message.content.filter((part) => !isPicture(part))
      moved.push({ ...message, content: rest.length > 0 ? rest : 'The picture follows.' })
    }
  }
  say()
  return moved
}

/** Unsigned reasoning stays: any model can read it. */
function withoutForeign(message: AssistantMessage, signer: string): AssistantMessage {
  const { reasoning_details: details, images } = message
  const isSigned = details?.some((each) => asObject(each)?.signer !== undefined)
  const hasSignedImages = asList(images).some((each) => signerOf(each) !== undefined)
  if (!isSigned && !hasSignedImages) return message
  const { reasoning_details: _, ...rest } = message
  const kept = (details ?? []).flatMap((each) => toKept(each, signer))
  return withSignatures({
    ...rest,
    ...(kept.length > 0 ? { reasoning_details: kept } : {}),
    ...(hasSignedImages ? { images: asList(images).map(unsigned) } : {}),
  })
}

/** Returns the upstream's own state unchanged, without Tollgate's `signer`. */
function toKept(value: unknown, signer: string): unknown[] {
  const detail = asObject(value)
  if (detail?.signer === undefined) return [value]
  const { signer: by, ...rest } = detail
  return by === signer ? [rest] : []
}

/** The issuer, in the field of Google's own OpenAI API. */
const signerOf = (image: unknown) => asObject(asObject(asObject(image)?.extra_content)?.google)?.signer

function unsigned(image: unknown): unknown {
  if (signerOf(image) === undefined) return image
  const { extra_content: _, ...rest } = asObject(image) ?? {}
  return rest
}

/** Local engines parse the arguments of every call, and fail on invalid JSON. */
function withReadableCalls(message: Message): Message {
  if (message.role !== 'assistant') return message
  const { tool_calls: calls, function_call: legacy } = message
  const read = calls && toList(calls, (call) => (call.type === 'function' ? withReadable(call, call.function) : call))
  const called = legacy && toReadable(legacy)
  if (read === calls && called === legacy) return message
  return { ...message, ...(read ? { tool_calls: [...read] } : {}), ...(called ? { function_call: called } : {}) }
}

function withReadable<Call extends object, Called extends { arguments: string }>(call: Call, called: Called): Call {
  const read = toReadable(called)
  return read === called ? call : { ...call, function: read }
}

function toReadable<Called extends { arguments: string }>(called: Called): Called {
  const text = toArgumentsText(called.arguments)
  return text === called.arguments ? called : { ...called, arguments: text }
}

function withIds(message: Message, ids: ToolIds): Message {
  if (message.role === 'tool') {
    const id = ids.result(message.tool_call_id)
    return id === message.tool_call_id ? message : { ...message, tool_call_id: id }
  }
  if (message.role !== 'assistant' || !message.tool_calls) return message
  const calls = toList(message.tool_calls, (call) => {
    const id = ids.call(call.id)
    return id === call.id ? call : { ...call, id }
  })
  return calls === message.tool_calls ? message : { ...message, tool_calls: [...calls] }
}

/**
 * Thought signatures of Gemini models in Google's OpenAI format; without them models since Gemini 3 refuse their own calls
 * (ai.google.dev/gemini-api/docs/thought-signatures, "OpenAI compatibility"). Clients get them as `reasoning_details` items.
 */
/** Keys of signatures; the second is used by some gateways to Vertex (github.com/earendil-works/pi/issues/6733). */
const PLACES = ['google', 'vertex'] as const

const SIGNATURE = 'reasoning.encrypted'

/** Items for a call with a signature; `extra_content` says where it was. @param id of the call. */
export function toSignatureDetails(extra: JsonObject, id: string, signer: string): JsonObject[] {
  return PLACES.flatMap((place) => {
    const data = asText(asObject(extra[place])?.thought_signature)
    if (data === '' || !data.isWellFormed()) return []
    return { type: SIGNATURE, data, id, format: 'google-gemini-v1', signer, extra_content: place }
  })
}

/** Moves this upstream's signatures from items back to the calls. */
function withSignatures(message: AssistantMessage): AssistantMessage {
  const byCall = new Map<string, JsonObject>()
  const rest = (message.reasoning_details ?? []).filter((detail) => {
    const { extra_content: place, id, data } = asObject(detail) ?? {}
    if (!PLACES.some((one) => one === place)) return true
    byCall.set(asText(id), { [asText(place)]: { thought_signature: data } })
    return false
  })
  if (byCall.size === 0) return message
  const { reasoning_details: _, ...bare } = message
  // A client's own `extra_content` stays.
  const calls = message.tool_calls?.map((call) => {
    const extra_content = byCall.get(call.id)
    return extra_content && !('extra_content' in call) ? { ...call, extra_content } : call
  })
  return { ...bare, ...(rest.length > 0 ? { reasoning_details: rest } : {}), ...(calls ? { tool_calls: calls } : {}) }
}
