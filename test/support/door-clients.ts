/**
 * Requests and response readers of clients of each endpoint. Translated responses are checked against the contract;
 * passthrough ones are read as a client would.
 */
import type { Modality } from '../../src/domain/models.ts'
import type { Endpoint } from '../../src/domain/task.ts'
import { type Field, FORM_TYPE, toForm, toWav } from './audio-forms.ts'
import { checkError, checkHeaders, checkStream, checkWhole } from './contract.ts'
import { checkGemini, checkGeminiStream } from './gemini-contract.ts'
import { checkMessage, checkError as checkMessageError, checkMessageStream } from './messages-contract.ts'
import { checkResponse, checkResponseStream } from './responses-contract.ts'

export interface Asked {
  /** Prompt; default `HELLO_TEXT`. */
  text?: string
  /** Max output tokens; embeddings have no output tokens. */
  cap?: number
  stream?: boolean
  /** The user of the request. */
  user?: string
}

export interface Failure {
  type: string
  code: string | null
  message: string
}

export interface Heard {
  /** Null for a vector. */
  text: string | null
  /** The reported cost; null if none is. */
  costNanoUsd: number | null
}

export interface HeardStream extends Heard {
  /** How it ended: complete, failed, or interrupted without an end. */
  end: 'whole' | 'failure' | 'silence'
  failure: Failure | null
  /** True if a client could mistake it for a complete response. */
  looksWhole: boolean
  /** Comments before the first frame, and keep-alives after it. */
  beats: { before: number; after: number }
}

export interface ClientFormat {
  endpoint: Endpoint
  /** The models' output. */
  makes: Modality
  /** The whole response is bytes, which can't state a cost and are always streamed. */
  isBytes?: true
  /** Calls may be charged although silent for long: no second attempt after a broken connection, no short deadlines. */
  isDear?: true
  /** Behind `/v1`. */
  path: string
  /** If the model is in the path and not in the body. */
  pathOf?(model: string, stream: boolean): string
  body(asked: Asked): Record<string, unknown>
  /** If requests aren't JSON: the same with its fields; null if it has none. */
  encode?(json: string): { type: string; body: Buffer<ArrayBuffer> } | null
  whole(json: string): Heard
  /** Throws if a translated response breaks its contract. */
  check: { whole(json: string): unknown; stream(text: string): unknown }
  frame(data: Json, heard: HeardStream): void
  /** The keep-alive of a stream once it has begun. */
  keepAlive: string
  /** Checks a refusal against the contract. */
  refusal(response: Response, text: string): Failure
}

// biome-ignore lint/suspicious/noExplicitAny: what a client reads is whatever came
type Json = any

export const HELLO_TEXT = 'Hello there!'
const COMMENT = ': keep-alive\n\n'

const openAiRefusal: ClientFormat['refusal'] = ({ status, headers }, text) => checkError(status, headers, text)

const fail = (heard: HeardStream, { type, code = null, message }: Failure) => {
  heard.end = 'failure'
  heard.failure = { type, code, message }
}

const toOptions = (capName: string, { cap, stream, user }: Asked) => ({
  ...(cap === undefined ? {} : { [capName]: cap }),
  ...(stream ? { stream } : {}),
  ...(user === undefined ? {} : { user }),
})

const chat: ClientFormat = {
  endpoint: 'chat',
  makes: 'text',
  path: '/chat/completions',
  body: (asked) => ({
    messages: [{ role: 'user', content: asked.text ?? HELLO_TEXT }],
    ...toOptions('max_tokens', asked),
    ...(asked.stream ? { stream_options: { include_usage: true } } : {}),
  }),
  whole: (json) => {
    const { choices, usage }: Json = JSON.parse(json)
    return { text: choices[0].message.content, costNanoUsd: usage.cost_nano_usd ?? null }
  },
  check: { whole: checkWhole, stream: (text) => checkStream(text, { includeUsage: true }) },
  frame(data, heard) {
    if (data.error) return fail(heard, data.error)
    const [choice] = data.choices
    heard.text += choice?.delta?.content ?? ''
    if (choice?.finish_reason) heard.looksWhole = true
    heard.costNanoUsd = data.usage?.cost_nano_usd ?? heard.costNanoUsd
  },
  keepAlive: COMMENT,
  refusal: openAiRefusal,
}

const messages: ClientFormat = {
  endpoint: 'messages',
  makes: 'text',
  path: '/messages',
  body: ({ user, ...asked }) => ({
    messages: [{ role: 'user', content: asked.text ?? HELLO_TEXT }],
    ...toOptions('max_tokens', { cap: 1_000, ...asked }),
    ...(user === undefined ? {} : { metadata: { user_id: user } }),
  }),
  whole: (json) => {
    const { content, usage }: Json = JSON.parse(json)
    return { text: content[0].text, costNanoUsd: usage.cost_nano_usd ?? null }
  },
  check: { whole: checkMessage, stream: checkMessageStream },
  frame(data, heard) {
    if (data.type === 'error') return fail(heard, data.error)
    // SDKs wait for this event, not for the stop reason.
    if (data.type === 'message_stop') {
      heard.end = 'whole'
      heard.looksWhole = true
    }
    heard.text += data.delta?.text ?? ''
    heard.costNanoUsd = data.usage?.cost_nano_usd ?? heard.costNanoUsd
  },
  keepAlive: 'event: ping\ndata: {"type":"ping"}\n\n',
  refusal({ headers }, text) {
    checkHeaders('error', headers)
    const { request_id: id }: Json = JSON.parse(text)
    if (headers.get('request-id') !== id || headers.get('x-request-id') !== id) throw new Error('its ids are not one')
    return { code: null, ...checkMessageError(text) }
  },
}

const responses: ClientFormat = {
  endpoint: 'responses',
  makes: 'text',
  path: '/responses',
  body: (asked) => ({ input: asked.text ?? HELLO_TEXT, ...toOptions('max_output_tokens', asked) }),
  whole: (json) => {
    const { output, usage }: Json = JSON.parse(json)
    return { text: output[0].content[0].text, costNanoUsd: usage.cost_nano_usd ?? null }
  },
  check: { whole: (json) => checkResponse(JSON.parse(json)), stream: checkResponseStream },
  frame(data, heard) {
    if (data.type === 'response.failed') return fail(heard, { type: 'response.failed', ...data.response.error })
    if (data.type === 'response.output_text.delta') heard.text += data.delta
    if (data.type !== 'response.completed') return
    heard.end = 'whole'
    heard.looksWhole = true
    heard.costNanoUsd = data.response.usage.cost_nano_usd ?? null
  },
  keepAlive: COMMENT,
  refusal: openAiRefusal,
}

const completions: ClientFormat = {
  endpoint: 'completions',
  makes: 'text',
  path: '/completions',
  body: (asked) => ({ prompt: asked.text ?? HELLO_TEXT, ...toOptions('max_tokens', asked) }),
  whole: (json) => ({ text: JSON.parse(json).choices[0].text, costNanoUsd: null }),
  check: { whole: JSON.parse, stream: () => {} },
  frame(data, heard) {
    if (data.error) return fail(heard, data.error)
    heard.text += data.choices[0]?.text ?? ''
    if (data.choices[0]?.finish_reason) heard.looksWhole = true
  },
  keepAlive: COMMENT,
  refusal: openAiRefusal,
}

const gemini: ClientFormat = {
  endpoint: 'gemini',
  makes: 'text',
  path: '/models/gemini-chat%2Fone:generateContent',
  pathOf: (model, stream) => `/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  body: ({ text, cap }) => ({
    contents: [{ role: 'user', parts: [{ text: text ?? HELLO_TEXT }] }],
    ...(cap === undefined ? {} : { generationConfig: { maxOutputTokens: cap } }),
  }),
  whole: (json) => {
    const { candidates, usageMetadata }: Json = JSON.parse(json)
    return { text: candidates[0].content.parts[0].text, costNanoUsd: usageMetadata.cost_nano_usd ?? null }
  },
  check: { whole: checkGemini, stream: checkGeminiStream },
  frame(data, heard) {
    if (data.error) return fail(heard, toFailure(data))
    const [candidate] = data.candidates ?? []
    heard.text += candidate?.content?.parts?.[0]?.text ?? ''
    if (!candidate?.finishReason) return
    heard.end = 'whole'
    heard.looksWhole = true
    heard.costNanoUsd = data.usageMetadata?.cost_nano_usd ?? null
  },
  keepAlive: COMMENT,
  refusal({ status, headers }, text) {
    checkHeaders('error', headers)
    const data: Json = JSON.parse(text)
    if (data.error.code !== status) throw new Error(`it says ${data.error.code} in a ${status}`)
    return toFailure(data)
  },
}

/** For errors without a code. */
const KINDS = ['NO_KEY', 'UNKNOWN_URL', 'INVALID_REQUEST', 'UPSTREAM_REJECTED', 'INTERNAL']

/** The reason is our code in upper case. */
const toFailure = ({ error }: Json): Failure => ({
  type: error.status,
  code: KINDS.includes(error.details[0].reason) ? null : error.details[0].reason.toLowerCase(),
  message: error.message,
})

const embeddings: ClientFormat = {
  endpoint: 'embeddings',
  makes: 'embeddings',
  path: '/embeddings',
  body: ({ text, user }) => ({ input: text ?? HELLO_TEXT, ...(user === undefined ? {} : { user }) }),
  whole: (json) => ({ text: null, costNanoUsd: JSON.parse(json).usage.cost_nano_usd }),
  check: { whole: JSON.parse, stream: () => {} },
  frame: () => {},
  keepAlive: COMMENT,
  refusal: openAiRefusal,
}

const rerank: ClientFormat = {
  ...embeddings,
  endpoint: 'rerank',
  makes: 'rerank',
  // Cohere's clients read `message`, next to OpenAI's `error`.
  refusal(response, text) {
    const { message, ...rest }: Json = JSON.parse(text)
    if (message !== rest.error?.message) throw new Error('it has two messages')
    return openAiRefusal(response, JSON.stringify(rest))
  },
  path: '/rerank',
  body: ({ text, user }) => ({
    query: 'what?',
    documents: [text ?? HELLO_TEXT],
    ...(user === undefined ? {} : { user }),
  }),
}

const moderations: ClientFormat = {
  ...embeddings,
  endpoint: 'moderations',
  makes: 'moderation',
  path: '/moderations',
}

const WAV = toWav(1_000)

const transcriptions: ClientFormat = {
  ...embeddings,
  endpoint: 'transcriptions',
  makes: 'transcription',
  path: '/audio/transcriptions',
  body: ({ text, user }) => ({ prompt: text ?? HELLO_TEXT, ...(user === undefined ? {} : { user }) }),
  encode: withFile(['file', WAV]),
}

function withFile(file: Field): NonNullable<ClientFormat['encode']> {
  return (json) => {
    if (!/^\{.*\}$/s.test(json)) return null
    const fields = Object.entries(JSON.parse(json)).map(([name, value]): Field => [name, String(value)])
    return { type: FORM_TYPE, body: toForm([...fields, file]) }
  }
}

const translations: ClientFormat = { ...transcriptions, endpoint: 'translations', path: '/audio/translations' }

const speech: ClientFormat = {
  ...embeddings,
  endpoint: 'speech',
  makes: 'speech',
  isBytes: true,
  isDear: true,
  path: '/audio/speech',
  body: ({ text, stream, user }) => ({
    input: text ?? HELLO_TEXT,
    ...(stream ? { stream_format: 'sse' } : {}),
    ...(user === undefined ? {} : { user }),
  }),
  whole: (text) => ({ text, costNanoUsd: null }),
  check: { whole: () => {}, stream: () => {} },
  frame(data, heard) {
    if (data.error) return fail(heard, data.error)
    if (data.type === 'speech.audio.delta') heard.text += atob(data.audio)
    if (data.type !== 'speech.audio.done') return
    heard.end = 'whole'
    heard.looksWhole = true
    heard.costNanoUsd = data.usage.cost_nano_usd
  },
}

const images: ClientFormat = {
  ...embeddings,
  endpoint: 'images',
  makes: 'image',
  isDear: true,
  path: '/images/generations',
  body: ({ text, user }) => ({ prompt: text ?? HELLO_TEXT, quality: 'low', ...(user === undefined ? {} : { user }) }),
  whole(json) {
    const { data, usage } = JSON.parse(json)
    return { text: atob(data[0].b64_json), costNanoUsd: usage.cost_nano_usd }
  },
}

/** The header of a one-pixel PNG. */
const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ', 'base64')

const image_edits: ClientFormat = {
  ...images,
  endpoint: 'image_edits',
  path: '/images/edits',
  encode: withFile(['image', PIXEL, '; filename="a.png"']),
}

export const CLIENT_FORMATS = {
  ...{ chat, messages, responses, completions, gemini, embeddings, rerank, moderations },
  ...{ transcriptions, translations, speech, images, image_edits },
}

export function hear(format: ClientFormat, text: string): HeardStream {
  const beats = { before: 0, after: 0 }
  const heard: HeardStream = {
    ...{ text: '', costNanoUsd: null, end: 'silence', failure: null, looksWhole: false, beats },
  }
  let hasBegun = false
  for (const piece of text.split('\n\n').slice(0, -1)) {
    const frame = `${piece}\n\n`
    if (frame === (hasBegun ? format.keepAlive : COMMENT)) {
      beats[hasBegun ? 'after' : 'before'] += 1
      continue
    }
    hasBegun = true
    const data = /^data: (.*)$/m.exec(frame)?.[1] ?? ''
    if (heard.end !== 'silence') throw new Error(`behind its end there is ${frame}`)
    if (data === '[DONE]') {
      heard.end = 'whole'
      heard.looksWhole = true
    } else format.frame(JSON.parse(data), heard)
  }
  return heard
}
