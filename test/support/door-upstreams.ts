/**
 * Responses of upstreams of each format with given words: whole, or as the steps of a stream before, within, and after
 * the words. No I/O.
 */
import { toEvent } from './anthropic-answers.ts'
import type { Script, Seen } from './upstream.ts'
import {
  type Behaviour,
  ENVELOPE,
  errorAnswer,
  type StreamStep,
  streamAnswer,
  toDelta,
  type Whole,
  wholeAnswer,
} from './upstream-answers.ts'

export interface Counts {
  prompt: number
  /** Prompt tokens; default 0. */
  cached?: number
  completion: number
}

export interface UpstreamFormat {
  /** Catalog settings in addition to the URL. */
  settings: string
  whole(words: readonly string[], counts: Counts): Whole
  /** Null if it has only whole responses. */
  stream: StreamFormat | null
}

export interface StreamFormat {
  /** Without words so far. */
  head(counts: Counts): StreamStep[]
  /** An event without content before the first word; `padding` makes it long. */
  idle(number: number, padding?: string): StreamStep
  word(text: string): StreamStep
  tail(words: readonly string[], counts: Counts): StreamStep[]
  end: 'done' | 'eof'
  failure(message: string): StreamStep
  /** True if the first event states the prompt's tokens. */
  countsFirst: boolean
}

const chatUsage = ({ prompt, cached = 0, completion }: Counts) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  prompt_tokens_details: { cached_tokens: cached },
})

const chat: UpstreamFormat = {
  // One choice per call, so several choices are several calls.
  settings: 'dialect: openai, n: false',
  whole: (tokens, counts) => wholeAnswer({ tokens, usage: chatUsage(counts) }),
  stream: {
    head: () => [toDelta({ role: 'assistant', content: '', refusal: null })],
    idle: (number, padding) => ({
      ...ENVELOPE,
      choices: [],
      usage: chatUsage({ prompt: number, completion: 0 }),
      padding,
    }),
    word: (content) => toDelta({ content }),
    tail: (_, counts) => [...streamAnswer({ tokens: 0, usage: chatUsage(counts) }).steps].slice(1),
    end: 'done',
    failure: (message) => ({ error: { message, type: 'server_error', code: null, param: null } }),
    countsFirst: false,
  },
}

const MESSAGE = { id: 'msg_up', type: 'message', role: 'assistant', model: 'up', stop_sequence: null }

const messagesInput = ({ prompt, cached = 0 }: Counts) => ({
  input_tokens: prompt - cached,
  cache_read_input_tokens: cached,
})

const messages: UpstreamFormat = {
  settings: 'dialect: anthropic',
  whole: (words, counts) => ({
    kind: 'whole',
    body: {
      ...MESSAGE,
      content: [{ type: 'text', text: words.join('') }],
      stop_reason: 'end_turn',
      usage: { ...messagesInput(counts), output_tokens: counts.completion },
    },
  }),
  stream: {
    head: (counts) => [
      toEvent({
        type: 'message_start',
        message: { ...MESSAGE, content: [], stop_reason: null, usage: { ...messagesInput(counts), output_tokens: 0 } },
      }),
      toEvent({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
    ],
    idle: (_, padding) => toEvent({ type: 'ping', padding }),
    word: (text) => toEvent({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
    tail: (_, { completion }) => [
      toEvent({ type: 'content_block_stop', index: 0 }),
      toEvent({
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: { output_tokens: completion },
      }),
      toEvent({ type: 'message_stop' }),
    ],
    end: 'eof',
    failure: (message) => toEvent({ type: 'error', error: { type: 'api_error', message } }),
    countsFirst: true,
  },
}

const ITEM = { id: 'msg_up', type: 'message', role: 'assistant' }
const AT = { item_id: 'msg_up', output_index: 0, content_index: 0 }
const toPart = (text: string) => ({ type: 'output_text', annotations: [], logprobs: [], text })
const toResponse = (status: string, more: object = {}) => ({
  ...{ id: 'resp_up', object: 'response', model: 'up', created_at: 1_700_000_000, status, output: [] },
  ...more,
})
const toDone = (words: readonly string[], { prompt, cached = 0, completion }: Counts) =>
  toResponse('completed', {
    output: [{ ...ITEM, status: 'completed', content: [toPart(words.join(''))] }],
    usage: {
      ...{ input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion },
      input_tokens_details: { cached_tokens: cached },
    },
  })

const responses: UpstreamFormat = {
  settings: 'dialect: openai, passthrough: [responses]',
  whole: (words, counts) => ({ kind: 'whole', body: toDone(words, counts) }),
  stream: {
    head: () => [
      toEvent({ type: 'response.created', response: toResponse('in_progress') }),
      toEvent({ type: 'response.in_progress', response: toResponse('in_progress') }),
      toEvent({
        type: 'response.output_item.added',
        output_index: 0,
        item: { ...ITEM, status: 'in_progress', content: [] },
      }),
      toEvent({ type: 'response.content_part.added', ...AT, part: toPart('') }),
    ],
    idle: (number, padding) =>
      toEvent({
        type: 'response.in_progress',
        sequence_number: number,
        response: toResponse('in_progress', { padding }),
      }),
    word: (delta) => toEvent({ type: 'response.output_text.delta', ...AT, delta }),
    tail: (words, counts) => [
      toEvent({ type: 'response.output_text.done', ...AT, text: words.join('') }),
      toEvent({ type: 'response.content_part.done', ...AT, part: toPart(words.join('')) }),
      toEvent({ type: 'response.completed', response: toDone(words, counts) }),
    ],
    end: 'eof',
    failure: (message) =>
      toEvent({
        type: 'response.failed',
        response: toResponse('failed', { error: { code: 'server_error', message } }),
      }),
    countsFirst: false,
  },
}

const toCompletion = (text: string, finish: string | null, more: object = {}) => ({
  ...{ id: 'cmpl-up', object: 'text_completion', created: 1_700_000_000, model: 'up' },
  choices: [{ index: 0, text, logprobs: null, finish_reason: finish }],
  ...more,
})

const completions: UpstreamFormat = {
  settings: 'dialect: openai, passthrough: [completions]',
  whole: (words, counts) => ({
    kind: 'whole',
    body: toCompletion(words.join(''), 'stop', { usage: chatUsage(counts) }),
  }),
  stream: {
    head: () => [],
    idle: (number, padding) =>
      toCompletion('', null, { choices: [], usage: chatUsage({ prompt: number, completion: 0 }), padding }),
    word: (text) => toCompletion(text, null),
    tail: (_, counts) => [toCompletion('', 'stop'), toCompletion('', null, { choices: [], usage: chatUsage(counts) })],
    end: 'done',
    failure: (message) => ({ error: { message, type: 'server_error', code: null, param: null } }),
    countsFirst: false,
  },
}

const geminiUsage = ({ prompt, cached = 0, completion }: Counts) => ({
  promptTokenCount: prompt,
  cachedContentTokenCount: cached,
  candidatesTokenCount: completion,
  totalTokenCount: prompt + completion,
})
const toChunk = (text: string, more: object = {}, ofCandidate: object = {}) => ({
  candidates: [{ content: { role: 'model', parts: [{ text }] }, index: 0, ...ofCandidate }],
  ...{ modelVersion: 'up', responseId: 'up' },
  ...more,
})
const toLastChunk = (text: string, counts: Counts) =>
  toChunk(text, { usageMetadata: geminiUsage(counts) }, { finishReason: 'STOP' })

const gemini: UpstreamFormat = {
  settings: 'dialect: gemini',
  whole: (words, counts) => ({ kind: 'whole', body: toLastChunk(words.join(''), counts) }),
  stream: {
    head: () => [],
    idle: (number, padding) => ({
      usageMetadata: geminiUsage({ prompt: number, completion: 0 }),
      ...{ modelVersion: 'up', padding },
    }),
    word: (text) => toChunk(text),
    tail: (_, counts) => [toLastChunk('', counts)],
    end: 'eof',
    failure: (message) => ({ error: { code: 500, message, status: 'INTERNAL' } }),
    countsFirst: false,
  },
}

const embeddings: UpstreamFormat = {
  settings: 'dialect: openai',
  whole: (_, { prompt }) => ({
    kind: 'whole',
    body: {
      ...{ object: 'list', model: 'up', data: [{ object: 'embedding', index: 0, embedding: [0.5, 0.25] }] },
      usage: { prompt_tokens: prompt, total_tokens: prompt },
    },
  }),
  stream: null,
}

const rerank: UpstreamFormat = {
  settings: 'dialect: openai',
  whole: (_, { prompt }) => ({
    kind: 'whole',
    body: { results: [{ index: 0, relevance_score: 0.5 }], usage: { total_tokens: prompt } },
  }),
  stream: null,
}

const moderations: UpstreamFormat = {
  settings: 'dialect: openai',
  whole: (_, { prompt }) => ({
    kind: 'whole',
    body: {
      ...{ id: 'modr-up', model: 'up', results: [{ flagged: false, categories: {}, category_scores: {} }] },
      usage: { prompt_tokens: prompt, total_tokens: prompt },
    },
  }),
  stream: null,
}

const transcriptions: UpstreamFormat = {
  settings: 'dialect: openai',
  whole: (words, { prompt }) => ({
    kind: 'whole',
    body: {
      text: words.join(''),
      usage: { type: 'tokens', input_tokens: prompt, output_tokens: 0, total_tokens: prompt },
    },
  }),
  stream: null,
}

/** Its models are charged by token, so events are requested even if the client wants bytes. */
const speech: UpstreamFormat = {
  settings: 'dialect: openai',
  whole: (words) => ({ kind: 'whole', headers: { 'content-type': 'audio/mpeg' }, body: words.join('') }),
  stream: {
    head: () => [],
    idle: (_, padding) => ({ type: 'speech.audio.in_progress', padding }),
    word: (text) => ({ type: 'speech.audio.delta', audio: btoa(text) }),
    tail: (_, { prompt, completion }) => [
      {
        type: 'speech.audio.done',
        usage: { input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion },
      },
    ],
    end: 'eof',
    failure: (message) => ({ error: { message, type: 'server_error', code: null, param: null } }),
    countsFirst: false,
  },
}

const images: UpstreamFormat = {
  settings: 'dialect: openai',
  whole: (words, { prompt, completion }) => ({
    kind: 'whole',
    body: {
      ...{ created: 1_700_000_000, data: [{ b64_json: btoa(words.join('')) }] },
      usage: { input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion },
    },
  }),
  stream: null,
}

export const UPSTREAM_FORMATS = {
  ...{ chat, messages, responses, completions, gemini, embeddings, rerank, moderations },
  ...{ transcriptions, translations: transcriptions, speech, images, image_edits: images },
}

export const WORDS = ['one ', 'two '] as const
export const COUNTS: Counts = { prompt: 50, completion: 7 }

export const answering =
  (format: UpstreamFormat, words: readonly string[] = WORDS, counts = COUNTS): ((seen: Seen) => Behaviour) =>
  ({ json, path }) =>
    (json?.stream === true || json?.stream_format === 'sse' || path.includes(':streamGenerateContent')) && format.stream
      ? streamOf(format.stream, words, counts)
      : format.whole(words, counts)

export const streamOf = (format: StreamFormat, words: readonly string[] = WORDS, counts = COUNTS): Behaviour => ({
  kind: 'stream',
  steps: [...format.head(counts), ...words.map(format.word), ...format.tail(words, counts)],
  end: format.end,
})

export const answeringAfter =
  (gate: Promise<void>, script: (seen: Seen) => Behaviour): Script =>
  (seen) => {
    const said = script(seen)
    if (said.kind === 'stream') return { ...said, after: gate }
    if (said.kind !== 'whole') return said
    const headers = { 'content-type': 'application/json' }
    return { kind: 'stream', headers, steps: [JSON.stringify(said.body)], end: 'eof', after: gate }
  }

export const failing = (status: number): Behaviour => errorAnswer(status, 'it has failed')
