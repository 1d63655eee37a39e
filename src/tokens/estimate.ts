/**
 * The tokens that a request is likely to use at most, guessed from its bytes before it is sent: what its row reserves, what
 * its rates count, and what it is charged where nobody could settle it. And the most that it may read, a token a byte: what a
 * budget holds, unless a count comes closer (`bound.ts`). Never a tokenizer, whose time grows with the square of a hostile
 * text. What was really used, where no upstream says it, is counted in `count.ts`. Pure.
 */
import { PART_TYPES } from '../domain/parts.ts'
import type { CanonicalRequest, Message, OtherPart } from '../domain/request.ts'
import { REQUEST_FIELDS } from '../domain/request-names.ts'
import {
  bytesOfBase64,
  type Data,
  fromDataUrl,
  isText,
  mostMoreOfImages,
  TOKENS_PER_FILE,
  tokensOfAudio,
  tokensOfImage,
} from './media.ts'
import { toOtherContent } from './other-parts.ts'

/** Four UTF-8 bytes are taken for a token; each message costs eight more. */
export const BYTES_PER_TOKEN = 4
export const TOKENS_PER_MESSAGE = 8
/** Output that is reserved where the client gives no cap. */
export const DEFAULT_OUTPUT_TOKENS = 4_096

export interface Estimate {
  promptTokens: number
  completionTokens: number
}

export const tokensOfBytes = (bytes: number) => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Estimates the tokens a request reads and the most that it may write, all its choices together. */
export function estimate(body: CanonicalRequest, maxOutputLength: number): Estimate {
  return {
    promptTokens: estimatePrompt(body),
    completionTokens: toCap(body, maxOutputLength) * (body.n ?? 1),
  }
}

/** Estimates the tokens that a request reads. */
export const estimatePrompt = (body: CanonicalRequest): number => measurePrompt(body).promptTokens

/** Estimates the tokens that a request reads, and says how many they are at most: no vocabulary makes two of a byte. */
export function measurePrompt(body: CanonicalRequest): { promptTokens: number; mostPromptTokens: number } {
  const prompt = toPrompt(body)
  const { texts, files, messages, audio, images, others, otherBytes } = prompt
  let bytes = 0
  for (const text of texts) bytes += Buffer.byteLength(text)
  for (const file of files) bytes += bytesOfBase64(file)
  const beside = messages * TOKENS_PER_MESSAGE + audio + images
  return {
    promptTokens: tokensOfBytes(bytes) + beside + others,
    mostPromptTokens: bytes + beside + Math.max(others, otherBytes) + mostMoreOfImages(prompt),
  }
}

/** The most tokens that a prompt may have, without a count. */
export const worstPrompt = (body: CanonicalRequest): number =>
  measurePrompt(body).mostPromptTokens + bytesOfExtras(body)

const MESSAGE_FIELDS: ReadonlySet<string> = new Set([
  ...['role', 'content', 'name', 'refusal', 'tool_calls', 'tool_call_id', 'function_call', 'audio'],
])
const LAST_TURN_FIELDS: ReadonlySet<string> = new Set([...MESSAGE_FIELDS, 'reasoning', 'reasoning_content'])

/**
 * Measures what the estimate leaves out because most upstreams do not read it: fields that are none of the API's, of the
 * request and of its messages, and the reasoning of earlier turns.
 */
export function bytesOfExtras(body: CanonicalRequest): number {
  let bytes = bytesBeside(body, REQUEST_FIELDS)
  const lastUser = body.messages.findLastIndex(isOfUser)
  let at = 0
  for (const message of body.messages)
    bytes += bytesBeside(message, at++ > lastUser ? LAST_TURN_FIELDS : MESSAGE_FIELDS)
  return bytes
}

function bytesBeside(value: object, known: ReadonlySet<string>): number {
  let bytes = 0
  for (const name in value) {
    if (!known.has(name)) bytes += Buffer.byteLength(JSON.stringify((value as Record<string, unknown>)[name]) ?? '')
  }
  return bytes
}

/** Tokens of the audio and the images that a request brings: they may have prices of their own. */
export function toMedia(body: CanonicalRequest): Pick<Prompt, 'audio' | 'images'> {
  const prompt = { audio: 0, images: 0 }
  for (const { content } of body.messages) {
    if (!Array.isArray(content)) continue
    for (const part of content) readMedia(part, prompt)
  }
  return prompt
}

/** The most tokens that one choice may have. No upstream writes more than the model can, whatever a client asks for. */
export function toCap(body: CanonicalRequest, maxOutputLength: number): number {
  return Math.min(body.max_completion_tokens ?? body.max_tokens ?? DEFAULT_OUTPUT_TOKENS, maxOutputLength)
}

/** The most tokens that an answer may have, all its choices together: without a cap, as many as the model writes. */
export const toMostOutput = (body: CanonicalRequest, maxOutputLength: number): number =>
  Math.min(body.max_completion_tokens ?? body.max_tokens ?? maxOutputLength, maxOutputLength) * (body.n ?? 1)

export interface Prompt {
  /** Never empty ones. */
  texts: string[]
  /** Text files, in base64. */
  files: string[]
  messages: number
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
export function toPrompt(body: CanonicalRequest): Prompt {
  const prompt: Prompt = {
    texts: [],
    files: [],
    messages: body.messages.length,
    names: 0,
    audio: 0,
    images: 0,
    others: 0,
    pictures: 0,
    otherBytes: 0,
  }
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

const isOfUser = ({ role }: Message) => role === 'user'

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
