/**
 * What a model reads of a request, and so what its prompt is charged by: `estimate.ts` measures it, `count.ts` tokenizes it. And what a
 * request that passes as it came holds beyond that. Pure.
 */

import { asList, asObject, asText, valuesWithin } from '../domain/json.ts'
import type { AnyRequest, CanonicalRequest, Message, OtherPart } from '../domain/request.ts'
import { EmbeddingsRequest, PART_TYPES } from '../domain/task.ts'
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
  /** Never empty ones. */
  texts: string[]
  /** Text files, in base64. */
  files: string[]
  messages: number
  /** How many inputs there are, of a request for embeddings: those stand in no frame. */
  inputs: number
  /** How many messages carry a name. */
  names: number
  /** Tokens of audio, of images and of files that are not text. */
  audio: number
  images: number
  others: number
  /** How many images there are. */
  pictures: number
  /** Bytes of those files, as far as they came with the request. */
  otherBytes: number
}

/**
 * Gathers what a model reads of a request, and so what its prompt is charged by: the estimate measures it, `count.ts`
 * tokenises it. Decodes nothing but the heads of attachments.
 *
 * Read as text, each by itself: the content of messages with its text and refusal parts, refusals, names, names and
 * arguments or inputs of tool calls and of the legacy function call, text files, parts of types that are not known (see
 * `other-parts.ts`); tools, functions and the schema of `response_format` as their JSON. Reasoning that a client sends
 * back is read on assistant messages after the last user message only: chat templates keep it for tool calls under way and
 * drop it from earlier turns. Not read: ids of tool calls, the audio of earlier answers, predictions, and every parameter.
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
  if (body instanceof EmbeddingsRequest) {
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

/** What comes as tokens is counted already. */
function readInputs({ inputs }: EmbeddingsRequest, prompt: Prompt): void {
  prompt.inputs = inputs.length
  for (const input of inputs) {
    if (typeof input === 'string') prompt.texts.push(input)
    else prompt.others += input.length
  }
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

/** Clients send the one or the other back, or both, with the same text. */
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

/** A file may come as a `data:` URL or as bare base64. */
const dataOf = (sent: string | null | undefined): Data | null =>
  sent ? (fromDataUrl(sent) ?? { mediaType: '', base64: sent }) : null

/** Tokens of the audio and the images that a request brings: they may have prices of their own. */
export function toMedia(body: AnyRequest): Pick<Prompt, 'audio' | 'images'> {
  const prompt = { audio: 0, images: 0 }
  if (body instanceof EmbeddingsRequest) return prompt
  for (const { content } of body.messages) {
    if (!Array.isArray(content)) continue
    for (const part of content) readMedia(part, prompt)
  }
  return prompt
}

/**
 * What is in parts of content of types that are not known here, such as `video_url`: nobody knows what an upstream makes of them. Data
 * counts by its bytes, an address as a file, and all else as text, so that nothing in them is free.
 */
interface OtherContent {
  /** Its texts, and the names of its fields. */
  texts: string[]
  /** Text files in it, in base64. */
  files: string[]
  /** Tokens of all other data, of what stands behind addresses, and of numbers. */
  tokens: number
  /** Bytes of data that is neither seen nor heard, such as a document: each of them could be a token. */
  bytes: number
  /** What they are, as far as the part or its data says it. */
  kind: 'audio' | 'images' | 'others'
}

/** Takes a part apart. Nothing is copied: it may be as large as a request. */
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

/** Base64 under the name that most formats have for it. */
const toBareData = (name: string, value: string): Data | null =>
  name === 'data' && /^[A-Za-z0-9+/_-]{256}/.test(value) ? { mediaType: '', base64: value } : null

/** @param type of a part, or a media type. */
function kindOf(type: string): OtherContent['kind'] | null {
  if (type.includes('audio')) return 'audio'
  return type.includes('image') ? 'images' : null
}

type Messages = CanonicalRequest['messages']

const unread = new WeakMap<Messages, number>()

/** Notes how many bytes there are, by the text that the request came as, and returns that. */
export function noteUnread(body: CanonicalRequest, text: string): number {
  const read = bytesOfJson(body) - repeatedBytes(body)
  const bytes = Math.max(0, Buffer.byteLength(text) - read)
  unread.set(body.messages, bytes)
  return bytes
}

const bytesOfJson = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '')

/** What the canonical form says more often than its client, behind which as much could be hidden: thoughts, and escapes of arguments. */
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
  body instanceof EmbeddingsRequest ? 0 : (unread.get(body.messages) ?? 0)
