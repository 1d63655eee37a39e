/**
 * A conversation as an upstream takes it that has not seen all of it: without what others have signed, with ids of calls that
 * it takes, with the pictures that tools have answered with in words of a user, for the format has no other place for them, and
 * to a server of one's own with arguments that it can read, and
 * by its settings: what developers say as the system's, fields under other names or not at all. The same list comes back where
 * nothing is to change, which is nearly always. Pure.
 */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { AssistantMessage, Message } from '../../../domain/request.ts'
import type { Upstream } from '../../../domain/snapshot.ts'
import { type IssuingTarget, toThoughtIssuer } from '../thought-state.ts'
import { ID_RULES, ToolIds, toArgumentsText } from '../tool-calls.ts'
import { toChanged, toChanges, toList } from './field-changes.ts'

export function toOwnConversation(
  messages: readonly Message[],
  target: IssuingTarget & { upstream: Pick<Upstream, 'options' | 'local'> },
): readonly JsonObject[] {
  const { options, local } = target.upstream
  const signer = toThoughtIssuer(target)
  const read = messages.some(hasPictures) ? movePictures(messages) : messages
  const { message: changes } = toChanges(options)
  const rule = options.tool_ids && ID_RULES[options.tool_ids]
  // Made where it is needed: most conversations call nothing.
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

/** False for an answer of which nothing is left: an empty one is refused. */
const saysSomething = (message: JsonObject): boolean =>
  message.role !== 'assistant' ||
  Object.entries(message).some(([name, value]) => !NOT_SAID.has(name) && isFilled(value))

const NOT_SAID: ReadonlySet<string> = new Set(['role', 'name'])

const isFilled = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0)

/** Marks an item of `reasoning_details` that has a signature, or what was encrypted, with whom alone can read it. */
export function signed<Item extends object>(item: Item, signer: string): Item | (Item & { signer: string }) {
  const { signature, data } = item as JsonObject
  return asText(signature) === '' && asText(data) === '' ? item : { ...item, signer }
}

type Part = Exclude<Message['content'], string | null | undefined>[number]
const isPicture = ({ type }: Part) => type === 'image_url'

const hasPictures = ({ role, content }: Message): boolean =>
  role === 'tool' && Array.isArray(content) && content.some(isPicture)

/** Each goes behind the last result of its turn. */
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

/** What is said without any signature stays: it is text to any model. */
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

/** Its own goes back as it came, without our mark. */
function toKept(value: unknown, signer: string): unknown[] {
  const detail = asObject(value)
  if (detail?.signer === undefined) return [value]
  const { signer: by, ...rest } = detail
  return by === signer ? [rest] : []
}

/** In the way of Google's own OpenAI API. */
const signerOf = (image: unknown) => asObject(asObject(asObject(image)?.extra_content)?.google)?.signer

function unsigned(image: unknown): unknown {
  if (signerOf(image) === undefined) return image
  const { extra_content: _, ...rest } = asObject(image) ?? {}
  return rest
}

/** Engines of one's own parse the arguments of each call that they are sent, and fail at what is no JSON. */
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
 * Thought signatures of Gemini models behind Google's OpenAI format, where they hang on the calls of tools, as
 * `extra_content.google.thought_signature`; without them a model since Gemini 3 refuses its own calls
 * (ai.google.dev/gemini-api/docs/thought-signatures, "OpenAI compatibility"). To clients they are items of `reasoning_details`, as
 * those of Google's own format are, and go back from there to where they were. Pure.
 */
/** Under whose name it may stand; the latter at some gateways before Vertex (github.com/earendil-works/pi/issues/6733). */
const PLACES = ['google', 'vertex'] as const

const SIGNATURE = 'reasoning.encrypted'

/** Items for a call that carries a signature; `extra_content` in one says where it stood. @param id of the call. */
export function toSignatureDetails(extra: JsonObject, id: string, signer: string): JsonObject[] {
  return PLACES.flatMap((place) => {
    const data = asText(asObject(extra[place])?.thought_signature)
    if (data === '' || !data.isWellFormed()) return []
    return { type: SIGNATURE, data, id, format: 'google-gemini-v1', signer, extra_content: place }
  })
}

/** Takes such items, which are this upstream's own, out of a message, and hangs what they hold on its calls. */
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
  // What a client has hung there itself stays.
  const calls = message.tool_calls?.map((call) => {
    const extra_content = byCall.get(call.id)
    return extra_content && !('extra_content' in call) ? { ...call, extra_content } : call
  })
  return { ...bare, ...(rest.length > 0 ? { reasoning_details: rest } : {}), ...(calls ? { tool_calls: calls } : {}) }
}
