/**
 * What a model reads of a request, and so what its prompt is charged by: `estimate.ts` measures it, `count.ts` and `bound.ts`
 * tokenise it. Pure.
 */
import { EMBEDDING, type EmbeddingRequest } from '../domain/embedding.ts'
import { PART_TYPES } from '../domain/parts.ts'
import type { CanonicalRequest, Message, OtherPart } from '../domain/request.ts'
import {
  bytesOfBase64,
  type Data,
  fromDataUrl,
  isText,
  TOKENS_PER_FILE,
  tokensOfAudio,
  tokensOfImage,
} from './media.ts'
import { toOtherContent } from './other-parts.ts'

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
export function toPrompt(body: CanonicalRequest): Prompt {
  const prompt: Prompt = {
    texts: [],
    files: [],
    messages: body.messages.length,
    inputs: 0,
    names: 0,
    audio: 0,
    images: 0,
    others: 0,
    pictures: 0,
    otherBytes: 0,
  }
  const embedding = body[EMBEDDING]
  if (embedding) readInputs(embedding, prompt)
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
function readInputs({ inputs }: EmbeddingRequest, prompt: Prompt): void {
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
export function toMedia(body: CanonicalRequest): Pick<Prompt, 'audio' | 'images'> {
  const prompt = { audio: 0, images: 0 }
  for (const { content } of body.messages) {
    if (!Array.isArray(content)) continue
    for (const part of content) readMedia(part, prompt)
  }
  return prompt
}
