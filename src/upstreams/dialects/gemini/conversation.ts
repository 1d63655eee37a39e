/**
 * Conversation in Gemini's form: turns of `user` and `model`, separate system instructions, and function responses in the order of their
 * calls.
 */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { AssistantMessage, CanonicalRequest, Message } from '../../../domain/request.ts'
import { toArguments } from '../tool-calls.ts'
import type { Content, FunctionResponse, Part } from './wire.ts'

export interface Conversation {
  contents: Content[]
  systemInstruction?: { parts: Part[] }
}

export interface Manner {
  ids: boolean
  /** True for Gemini 3 and later: it refuses unsigned calls of the current turn, and accepts images in tool results. */
  signs: boolean
  signer: string
}

/**
 * Text of an empty user turn, since a conversation can't begin with the model. If a conversation ends with the model, models before
 * Gemini 3.5 Flash-Lite and 3.6 continue it, and later ones refuse it themselves.
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
  if (contents.length === 0) return { contents: [{ role: 'user', parts: system.length > 0 ? system : [NOTHING] }] }
  if (contents[0]?.role === 'model') contents.unshift({ role: 'user', parts: [NOTHING] })
  if (manner.signs) signCurrentTurn(contents)
  return { contents, ...(system.length > 0 ? { systemInstruction: { parts: system } } : {}) }
}

class Turns {
  readonly contents: Content[] = []
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

  /** Images in tool results, for models that take them after the results. */
  #pictures: Part[] = []

  end(): void {
    const pictures = this.#pictures
    this.#pictures = []
    this.#say('user', pictures)
  }

  /** Extends the last turn of the same role; function responses stay separate. */
  #say(role: Content['role'], parts: Part[]): void {
    if (parts.length === 0) return
    const last = this.contents.at(-1)
    if (last?.role === role && !isResponse(last)) last.parts.push(...parts)
    else this.contents.push({ role, parts })
  }

  #answer(message: AssistantMessage): void {
    const signatures = readSignatures(message, this.manner.signer)
    const said = [...toParts(message), ...toImages(message, this.manner.signer)]
    const text = toTextPart(message.refusal ?? '')
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
    const isError = message.is_error === true
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
    const isNext = (this.#order.at(-1) ?? 0) <= place
    const before = isNext ? -1 : this.#order.findIndex((other) => other > place)
    const at = before === -1 ? last.parts.length : before
    last.parts.splice(at, 0, part)
    this.#order.splice(at, 0, place)
  }

  #order: number[] = []
}

const isResponse = ({ parts }: Content) => parts.some((part) => part.functionResponse)

/** Content parts that aren't empty. Unsupported parts were refused before. */
function toParts({ content }: Message): Part[] {
  if (typeof content === 'string') return content === '' ? [] : [{ text: content }]
  return (content ?? []).flatMap((part) => toPart(part) ?? [])
}

function toImages(message: AssistantMessage, signer: string): Part[] {
  return asList(message.images).flatMap((image) => {
    const part = toPart(image)
    if (!part?.inlineData) return []
    const thoughtSignature = extraSignature(image, signer)
    return [thoughtSignature === '' ? part : { ...part, thoughtSignature }]
  })
}

/** Adds the signature of a text to the text's last part, or to an empty part. */
function sign(parts: Part[], thoughtSignature: string): void {
  const last = parts.findLast((part) => part.text !== undefined)
  if (last) last.thoughtSignature = thoughtSignature
  else parts.push({ text: '', thoughtSignature })
}

function toCall(called: { name: string; arguments: string }): { name: string; args: Record<string, unknown> } {
  return { name: toName(called.name), args: toArguments(called.arguments) }
}

/** A custom tool's call from another model's history becomes a function call with one argument. */
const toCustomCall = ({ name, input }: { name: string; input: string }) => ({ name: toName(name), args: { input } })

/** Other vendors allow other names. */
const toName = (name: string) =>
  name
    .replace(/[^\w.:-]/g, '_')
    .replace(/^(?![A-Za-z_])/, '_')
    .slice(0, 128)

/** Content parts as Gemini takes them: text, inline bytes, and URLs that it fetches itself. */
const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[^,;]*)*;base64,/i

const TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  gif: 'image/gif',
  heic: 'image/heic',
  heif: 'image/heif',
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
  json: 'application/json',
  wav: 'audio/wav',
  mp3: 'audio/mp3',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  mp4: 'video/mp4',
  mov: 'video/quicktime',
  webm: 'video/webm',
}

const AUDIO = { wav: 'audio/wav', mp3: 'audio/mp3' } as const

/** Converts one part; null if it is empty, undefined if Gemini can't take it. */
export function toPart(value: unknown): Part | null | undefined {
  const part = asObject(value) ?? {}
  switch (part.type) {
    case 'text':
      return toTextPart(asText(part.text))
    case 'refusal':
      return toTextPart(asText(part.refusal))
    case 'image_url':
      return toMedia(urlOf(part.image_url), 'image/jpeg')
    case 'video_url':
      return toMedia(urlOf(part.video_url), 'video/mp4')
    case 'input_audio':
      return toAudio(asObject(part.input_audio) ?? {})
    case 'file':
      return toFile(asObject(part.file) ?? {})
    default:
      return undefined
  }
}

export const toTextPart = (text: string): Part | null => (text === '' ? null : { text })

const urlOf = (value: unknown) => asText(value) || asText(asObject(value)?.url)

function toMedia(url: string, otherwise: string): Part | undefined {
  const inline = toInline(url, otherwise)
  if (inline) return inline
  if (!/^(https?|gs):\/\//i.test(url)) return undefined
  return { fileData: { mimeType: typeOf(url) ?? otherwise, fileUri: url } }
}

function toInline(url: string, otherwise: string): Part | null {
  const found = DATA_URL.exec(url)
  if (!found) return null
  return { inlineData: { mimeType: found[1]?.toLowerCase() ?? otherwise, data: url.slice(found[0].length) } }
}

function toAudio({ data, format }: JsonObject): Part {
  const mimeType = format === 'wav' ? AUDIO.wav : AUDIO.mp3
  return { inlineData: { mimeType, data: asText(data) } }
}

/** Bytes as a `data:` URL or bare base64, or a public URL; files stored at the provider have a URI there. */
function toFile({ filename, file_data: data, file_url: url, file_id: id }: JsonObject): Part | undefined {
  const mimeType = typeOf(asText(filename)) ?? 'application/pdf'
  const bytes = asText(data)
  if (bytes !== '') return toMedia(bytes, mimeType) ?? { inlineData: { mimeType, data: bytes } }
  if (asText(url) !== '') return toMedia(asText(url), mimeType)
  const stored = asText(id)
  return stored === '' ? undefined : { fileData: { mimeType, fileUri: stored } }
}

function typeOf(name: string): string | undefined {
  const [path = ''] = name.split(/[?#]/)
  return TYPES[/\.(\w{2,5})$/.exec(path)?.[1]?.toLowerCase() ?? '']
}

/**
 * Thought signatures travel in `reasoning_details` and come back with the response; nothing is stored here. Since Gemini 3 the first call
 * of each step in the current turn needs one (ai.google.dev/gemini-api/docs/thought-signatures).
 */
const TYPE = 'reasoning.encrypted'
const FORMAT = 'google-gemini-v1'

/** Google's placeholder for a missing signature: the client dropped it, or another vendor's model wrote the history. */
export const NONE_TO_HAND = 'skip_thought_signature_validator'

/** A `reasoning_details` item with a signature: of the call with that ID, or of the text. */
export const toDetail = (signature: string, signer: string, index: number, callId: string | null): object => ({
  type: TYPE,
  data: signature,
  ...(callId === null ? {} : { id: callId }),
  format: FORMAT,
  signer,
  index,
})

export const toExtra = (signature: string, signer: string) => ({
  extra_content: { google: { thought_signature: signature, signer } },
})

function extraSignature(value: unknown, signer: string): string {
  const google = asObject(asObject(asObject(value)?.extra_content)?.google)
  return google && isBy(google, signer) ? asText(google.thought_signature) : ''
}

const isBy = (item: JsonObject, signer: string) => item.signer === undefined || item.signer === signer

export interface Signatures {
  text: string
  calls: ReadonlyMap<string, string>
}

/** Reads signatures that a client sends back; those of other vendors and issuers are ignored. */
function readSignatures(message: AssistantMessage, signer: string): Signatures {
  const { reasoning_details: details, tool_calls: calls } = message
  const byCall = new Map<string, string>()
  let text = ''
  for (const each of asList(details)) {
    const item = asObject(each)
    if (item?.type !== TYPE || item.format !== FORMAT || !isBy(item, signer)) continue
    const id = asText(item.id)
    if (id === '') text = asText(item.data) || text
    else byCall.set(id, asText(item.data))
  }
  for (const call of calls ?? []) {
    const signature = extraSignature(call, signer)
    if (signature !== '' && !byCall.has(call.id)) byCall.set(call.id, signature)
  }
  return { text, calls: byCall }
}

/** The first signature by an issuer; '' if there is none. */
export const signatureBy = (details: readonly object[], signer: string): string =>
  asText(
    details.map(asObject).find((item) => item?.type === TYPE && item.format === FORMAT && isBy(item, signer))?.data,
  )

/** Puts the placeholder on the first call of each unsigned step of the current turn. Changes `contents`. */
function signCurrentTurn(contents: Content[]): void {
  for (const { role, parts } of contents.slice(currentTurn(contents))) {
    if (role !== 'model') continue
    const first = parts.find((part) => part.functionCall)
    if (first) first.thoughtSignature ??= NONE_TO_HAND
  }
}

const currentTurn = (contents: readonly Content[]) =>
  Math.max(
    0,
    contents.findLastIndex(({ role, parts }) => role === 'user' && parts.some((part) => !part.functionResponse)),
  )
