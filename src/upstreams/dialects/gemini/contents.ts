/**
 * A conversation as Gemini takes it: turns of `user` and `model`, the system's words beside them, and what functions answered
 * in one turn, in the order in which they were called. Pure.
 */
import { asList, asObject, asText } from '../../../domain/json.ts'
import type { AssistantMessage, CanonicalRequest, Message } from '../../../domain/request.ts'
import { toArguments } from '../arguments.ts'
import { toPart, toText } from './parts.ts'
import { extraSignature, readSignatures, signCurrentTurn } from './signatures.ts'
import type { Content, FunctionResponse, Part } from './wire.ts'

export interface Conversation {
  contents: Content[]
  systemInstruction?: { parts: Part[] }
}

/** How the receiver wants it. */
export interface Manner {
  /** Whether it takes the ids of calls. */
  ids: boolean
  /** Whether it is of Gemini 3 or later: it refuses calls of the current turn without a signature, and knows pictures in results. */
  signs: boolean
  /** Whose signatures it knows (`toSigner`). */
  signer: string
}

/**
 * What a user says where nobody said anything: a conversation that begins with the model is refused. One that ends with it is sent
 * so: models before Gemini 3.5 Flash-Lite and 3.6 go on with it, and later ones say themselves that they do not.
 */
const NOTHING: Part = { text: '.' }

type Of<Role extends Message['role']> = Extract<Message, { role: Role }>

export function toConversation({ messages }: Pick<CanonicalRequest, 'messages'>, manner: Manner): Conversation {
  const found = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  const first = found === -1 ? messages.length : found
  const system = messages.slice(0, first).flatMap(toParts)
  const turns = new Turns(manner)
  for (const message of messages.slice(first)) turns.take(message)
  turns.end()
  const { contents } = turns
  // There has to be something to answer.
  if (contents.length === 0) return { contents: [{ role: 'user', parts: system.length > 0 ? system : [NOTHING] }] }
  if (contents[0]?.role === 'model') contents.unshift({ role: 'user', parts: [NOTHING] })
  if (manner.signs) signCurrentTurn(contents)
  return { contents, ...(system.length > 0 ? { systemInstruction: { parts: system } } : {}) }
}

class Turns {
  readonly contents: Content[] = []
  /** The names of all calls so far, by their ids, and the places of the last message's. */
  readonly #names = new Map<string, string>()
  #places = new Map<string, number>()

  constructor(readonly manner: Manner) {}

  take(message: Message): void {
    if (message.role !== 'tool') this.end()
    switch (message.role) {
      case 'assistant':
        this.#answer(message)
        return
      case 'tool':
        this.#respond(this.#toResponse(message), this.#places.get(message.tool_call_id) ?? 0)
        return
      case 'function':
        this.#respond({ name: toName(message.name), response: { output: message.content ?? '' } }, 0)
        return
      default:
        this.#say('user', toParts(message))
    }
  }

  /** Pictures that tools have answered with, for a model that takes them behind their results. */
  #pictures: Part[] = []

  /** The results that came last are all there. */
  end(): void {
    const pictures = this.#pictures
    this.#pictures = []
    this.#say('user', pictures)
  }

  /** Adds to the turn of who spoke last; what functions answered stands alone. */
  #say(role: Content['role'], parts: Part[]): void {
    if (parts.length === 0) return
    const last = this.contents.at(-1)
    if (last?.role === role && !isResponse(last)) last.parts.push(...parts)
    else this.contents.push({ role, parts })
  }

  #answer(message: AssistantMessage): void {
    const signatures = readSignatures(message, this.manner.signer)
    const said = [...toParts(message), ...toImages(message, this.manner.signer)]
    const text = toText(message.refusal ?? '')
    if (text && said.length === 0) said.push(text)
    if (signatures.text !== '') sign(said, signatures.text)
    this.#places = new Map()
    for (const [place, call] of (message.tool_calls ?? []).entries()) {
      const { name, args } = call.type === 'function' ? toCall(call.function) : toCustomCall(call.custom)
      this.#names.set(call.id, name)
      this.#places.set(call.id, place)
      const signature = signatures.calls.get(call.id)
      said.push({
        functionCall: { ...(this.manner.ids ? { id: call.id } : {}), name, args },
        ...(signature ? { thoughtSignature: signature } : {}),
      })
    }
    if (message.function_call) said.push({ functionCall: toCall(message.function_call) })
    this.#say('model', said)
  }

  #toResponse(message: Of<'tool'>): FunctionResponse {
    const { tool_call_id: id, content } = message
    const text = typeof content === 'string' ? content : content.map((part) => asText(asObject(part)?.text)).join('')
    const isError = Reflect.get(message, 'is_error') === true
    const pictures = toParts(message).filter((part) => part.text === undefined)
    const { ids, signs } = this.manner
    if (!signs) this.#pictures.push(...pictures)
    return {
      ...(ids ? { id } : {}),
      name: this.#names.get(id) ?? id,
      response: isError ? { error: text } : { output: text },
      ...(signs && pictures.length > 0 ? { parts: pictures } : {}),
    }
  }

  #respond(functionResponse: FunctionResponse, place: number): void {
    const last = this.contents.at(-1)
    const part: Part = { functionResponse }
    if (!last || !isResponse(last)) {
      this.contents.push({ role: 'user', parts: [part] })
      this.#order = [place]
      return
    }
    // Most come in order.
    const isNext = (this.#order.at(-1) ?? 0) <= place
    const before = isNext ? -1 : this.#order.findIndex((other) => other > place)
    const at = before === -1 ? last.parts.length : before
    last.parts.splice(at, 0, part)
    this.#order.splice(at, 0, place)
  }

  /** The places of the calls that the last turn's responses answer. */
  #order: number[] = []
}

const isResponse = ({ parts }: Content) => parts.some((part) => part.functionResponse)

/** The parts of a message's content that say something. What has no place there, `able.ts` has refused. */
function toParts({ content }: Message): Part[] {
  if (typeof content === 'string') return content === '' ? [] : [{ text: content }]
  return (content ?? []).flatMap((part) => toPart(part) ?? [])
}

/** Pictures that an earlier answer drew, as their client sends them back. */
function toImages(message: AssistantMessage, signer: string): Part[] {
  return asList(Reflect.get(message, 'images')).flatMap((image) => {
    const part = toPart(image)
    if (!part?.inlineData) return []
    const thoughtSignature = extraSignature(image, signer)
    return [thoughtSignature === '' ? part : { ...part, thoughtSignature }]
  })
}

/** The signature of a text comes last in it, as it was given: on its last part, or on an empty one. */
function sign(parts: Part[], thoughtSignature: string): void {
  const last = parts.findLast((part) => part.text !== undefined)
  if (last) last.thoughtSignature = thoughtSignature
  else parts.push({ text: '', thoughtSignature })
}

/** Arguments are an object there. What a model wrote that is none still says something. */
function toCall(called: { name: string; arguments: string }): { name: string; args: Record<string, unknown> } {
  return { name: toName(called.name), args: toArguments(called.arguments) }
}

/** A custom tool's call, of a history that another model has written: its input is its only argument. */
const toCustomCall = ({ name, input }: { name: string; input: string }) => ({ name: toName(name), args: { input } })

/** Other vendors' functions may be called otherwise. */
const toName = (name: string) =>
  name
    .replace(/[^\w.:-]/g, '_')
    .replace(/^(?![A-Za-z_])/, '_')
    .slice(0, 128)
