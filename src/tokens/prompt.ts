/** The parts of a request that a model reads. */

import { EndpointRequest } from '../domain/endpoint-request.ts'
import { asList, asObject, asText, valuesWithin } from '../domain/json.ts'
import type { AnyRequest, CanonicalRequest, Message, OtherPart } from '../domain/request.ts'
import { PART_TYPES } from '../domain/task.ts'
import {
  bytesOfBase64,
  type Data,
  fromDataUrl,
  isText,
  TOKENS_PER_FILE,
  tokensOfAudio,
  tokensOfData,
  tokensOfImage,
} from './media.ts'

export interface Prompt {
  texts: string[]
  /** Text files, base64. */
  files: string[]
  messages: number
  /** Inputs of requests that aren't chats, which have no frames. */
  inputs: number
  names: number
  /** Tokens of audio, images, and other files. */
  audio: number
  images: number
  others: number
  pictures: number
  /** Bytes of other files contained in the request. */
  otherBytes: number
}

/**
 * Decodes only the heads of attachments.
 *
 * Read as text: message content (text and refusal parts), refusals, names, tool and function calls (names, arguments,
 * inputs), text files, and parts of unknown types. Read as JSON: tools, functions, and the `response_format` schema.
 * Reasoning is read only after the last user message, since chat templates keep it during tool calls and drop it from
 * earlier turns. Not read: tool call IDs, audio of earlier responses, predictions, and parameters.
 */
export function toPrompt(body: AnyRequest): Prompt {
  const prompt: Prompt = {
    texts: [],
    files: [],
    messages: 0,
    inputs: 0,
    names: 0,
    audio: 0,
    images: 0,
    others: 0,
    pictures: 0,
    otherBytes: 0,
  }
  if (body instanceof EndpointRequest) {
    readInputs(body, prompt)
    return prompt
  }
  prompt.messages = body.messages.length
  const lastUser = body.messages.findLastIndex(isOfUser)
  body.messages.forEach((message, at) => {
    readMessage(message, prompt)
    if (at > lastUser) read(prompt, reasoningOf(message))
  })
  const schema = body.response_format?.type === 'json_schema' ? body.response_format.json_schema : null
  if (body.tools) read(prompt, JSON.stringify(body.tools))
  if (body.functions) read(prompt, JSON.stringify(body.functions))
  if (schema) read(prompt, JSON.stringify(schema))
  return prompt
}

/** Reads inputs of requests that aren't chats. Inputs that are token IDs need no counting. */
function readInputs({ inputs, beside, media }: EndpointRequest, prompt: Prompt): void {
  prompt.inputs = inputs.length
  for (const input of inputs) {
    if (typeof input === 'string') prompt.texts.push(input)
    else prompt.others += input.length
  }
  // Includes images, since chat models count them differently.
  prompt.otherBytes = prompt.others + media.images + beside.most
  prompt.others += media.images + beside.likely
  prompt.audio += media.audio
}

export const isOfUser = ({ role }: Message) => role === 'user'

function read({ texts }: Prompt, text: unknown) {
  if (typeof text === 'string' && text !== '') texts.push(text)
}

function readMessage(message: Message, prompt: Prompt) {
  if ('name' in message && message.name) {
    prompt.names += 1
    read(prompt, message.name)
  }
  if (typeof message.content === 'string') read(prompt, message.content)
  else for (const part of message.content ?? []) readPart(part, prompt)
  if (message.role !== 'assistant') return
  read(prompt, message.refusal)
  read(prompt, message.function_call?.name)
  read(prompt, message.function_call?.arguments)
  for (const call of message.tool_calls ?? []) {
    const { name } = call.type === 'function' ? call.function : call.custom
    read(prompt, name)
    read(prompt, call.type === 'function' ? call.function.arguments : call.custom.input)
  }
}

/** Clients return either field, or both with the same text. */
function reasoningOf(message: Message): unknown {
  if (message.role !== 'assistant') return null
  return message.reasoning || message.reasoning_content
}

type Part = Exclude<Message['content'], string | null | undefined>[number]

function readMedia(part: Part, prompt: Pick<Prompt, 'audio' | 'images'>) {
  if (part.type === 'image_url') prompt.images += tokensOfImage(part.image_url)
  else if (part.type === 'input_audio') prompt.audio += tokensOfAudio(part.input_audio)
  else if (!PART_TYPES.has(part.type)) {
    const { kind, tokens } = toOtherContent(part as OtherPart)
    if (kind !== 'others') prompt[kind] += tokens
  }
}

function readPart(part: Part, prompt: Prompt) {
  if (part.type === 'text') read(prompt, part.text)
  else if (part.type === 'refusal') read(prompt, part.refusal)
  else if (part.type === 'file') {
    const data = dataOf(part.file.file_data)
    if (data && isText(data, part.file.filename)) prompt.files.push(data.base64)
    else {
      prompt.others += TOKENS_PER_FILE
      if (data) prompt.otherBytes += bytesOfBase64(data.base64)
    }
  } else if (part.type === 'image_url' || part.type === 'input_audio') {
    readMedia(part, prompt)
    if (part.type === 'image_url') prompt.pictures += 1
  } else {
    const { texts, files, tokens, bytes, kind } = toOtherContent(part)
    for (const text of texts) read(prompt, text)
    for (const file of files) prompt.files.push(file)
    prompt[kind] += tokens
    if (kind === 'images') prompt.pictures += 1
    prompt.otherBytes += bytes
  }
}

/** A `data:` URL or bare base64. */
const dataOf = (sent: string | null | undefined): Data | null =>
  sent ? (fromDataUrl(sent) ?? { mediaType: '', base64: sent }) : null

/** Tokens of audio and images, which may have prices of their own. */
export function toMedia(body: AnyRequest): Pick<Prompt, 'audio' | 'images'> {
  const prompt = { audio: 0, images: 0 }
  if (body instanceof EndpointRequest) return body.media
  for (const { content } of body.messages) {
    if (!Array.isArray(content)) continue
    for (const part of content) readMedia(part, prompt)
  }
  return prompt
}

/**
 * Contents of parts of unknown types, such as `video_url`. Data counts by bytes, a URL as a file, and the rest as text,
 * so that nothing is free.
 */
interface OtherContent {
  texts: string[]
  /** Text files, base64. */
  files: string[]
  /** Tokens of other data, URLs, and numbers. */
  tokens: number
  /** Bytes of data that isn't an image, video, or audio, such as a document: up to a token per byte. */
  bytes: number
  /** Derived from the part's type or data. */
  kind: 'audio' | 'images' | 'others'
}

/** Copies nothing, as a part may be as large as a request. */
function toOtherContent(part: OtherPart): OtherContent {
  const content: OtherContent = { texts: [], files: [], tokens: 0, bytes: 0, kind: kindOf(part.type) ?? 'others' }
  for (const [name, value] of valuesWithin(part)) {
    if (name !== '') content.texts.push(name)
    if (typeof value === 'string') takeText(name, value, part.type, content)
    else if (typeof value !== 'object' || value === null) content.tokens += 1
  }
  return content
}

function takeText(name: string, value: string, type: string, content: OtherContent): void {
  const data = fromDataUrl(value) ?? toBareData(name, value)
  if (data === null) {
    if (value !== '') content.texts.push(value)
    if (ADDRESS.test(value)) content.tokens += TOKENS_PER_FILE
    return
  }
  if (isText(data, null)) content.files.push(data.base64)
  else {
    content.tokens += tokensOfData(data.base64)
    if (!MEDIA.test(data.mediaType || type)) content.bytes += bytesOfBase64(data.base64)
  }
  content.kind = kindOf(data.mediaType) ?? content.kind
}

const MEDIA = /video|audio|image/
const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i

/** Base64 in the field that most formats use for it. */
const toBareData = (name: string, value: string): Data | null =>
  name === 'data' && /^[A-Za-z0-9+/_-]{256}/.test(value) ? { mediaType: '', base64: value } : null

function kindOf(type: string): OtherContent['kind'] | null {
  if (type.includes('audio')) return 'audio'
  return type.includes('image') ? 'images' : null
}

type Messages = CanonicalRequest['messages']

const unread = new WeakMap<Messages, number>()

/** Records the bytes of the original `text` that the canonical body lacks, and returns them. */
export function noteUnread(body: CanonicalRequest, text: string): number {
  const read = bytesOfJson(body) - repeatedBytes(body)
  const bytes = Math.max(0, Buffer.byteLength(text) - read)
  unread.set(body.messages, bytes)
  return bytes
}

const bytesOfJson = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '')

/** Bytes that the canonical body adds: repeated reasoning, and escapes in arguments. They would hide unread bytes. */
function repeatedBytes({ messages }: CanonicalRequest): number {
  let bytes = 0
  for (const message of messages) {
    if (message.role !== 'assistant') continue
    const { reasoning, reasoning_content: again, reasoning_details: details, tool_calls: calls } = message
    const texts = asList(details).map((detail) => asText(asObject(detail)?.text))
    if (reasoning) for (const text of [asText(again), ...texts]) if (text !== '') bytes += bytesOfJson(text)
    for (const call of calls ?? [])
      if (call.type === 'function') {
        const { arguments: json } = call.function
        bytes += bytesOfJson(json) - Buffer.byteLength(json)
      }
  }
  return bytes
}

export const unreadBytes = (body: AnyRequest): number =>
  body instanceof EndpointRequest ? 0 : (unread.get(body.messages) ?? 0)
