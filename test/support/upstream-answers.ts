/** Behaviors of a scripted upstream, as data; `upstream.ts` plays them. No I/O. */

export interface Whole {
  kind: 'whole'
  status?: number
  headers?: Record<string, string>
  /** A string or bytes are sent unchanged; anything else as JSON. */
  body: unknown
  /** Silence before the headers. */
  delayMs?: number
  gzip?: boolean
}

/**
 * A string or bytes are sent unchanged, `{ waitMs }` and `{ until }` are silence, any other object becomes a `data:`
 * frame.
 */
export type StreamStep = string | Uint8Array | { waitMs: number } | { until: Promise<void> } | Record<string, unknown>

/**
 * `done` = `[DONE]`; `eof` = a proper end without it; `cut` = half a frame, then close; `reset` = TCP reset; `hang` =
 * never.
 */
export type StreamEnd = 'done' | 'eof' | 'cut' | 'reset' | 'hang'

/** A chunked body, sent as fast as the reader reads or slower. */
export interface Stream {
  kind: 'stream'
  status?: number
  headers?: Record<string, string>
  steps: Iterable<StreamStep>
  end?: StreamEnd
  /** Nothing is sent before this. */
  after?: Promise<void>
  /** Silence before the headers. */
  delayMs?: number
  /** Pause after each step. */
  paceMs?: number
  /** Splits writes, down to one byte per chunk. */
  bytesPerWrite?: number
  /** Compresses everything into one piece; pauses are skipped. */
  gzip?: boolean
}

export interface Silent {
  kind: 'silent'
}

export interface Reset {
  kind: 'reset'
}

/** Sends bytes that need not be HTTP. */
export interface Raw {
  kind: 'raw'
  pieces: Iterable<string | Uint8Array>
  /** Pause after each piece. */
  paceMs?: number
  end: 'close' | 'reset' | 'hang'
}

export type Behaviour = Whole | Stream | Silent | Reset | Raw

export interface WireUsageNumbers {
  prompt_tokens: number
  completion_tokens: number
  [more: string]: unknown
}

export interface ChatAnswer {
  /** Pieces of the answer, or their number: `tok0 tok1 …`. Default 5. */
  tokens?: number | readonly string[]
  finish?: string | null
  /** The reported usage, true or not; null = none. Default: 10 read, one written per token. */
  usage?: WireUsageNumbers | null
}

export const ENVELOPE = { id: 'chatcmpl-upstream', created: 1_700_000_000, model: 'upstream-model' }

export function wholeAnswer(answer: ChatAnswer & Partial<Omit<Whole, 'kind' | 'body'>> = {}): Whole {
  const { tokens, finish, usage, ...rest } = answer
  const pieces = toPieces(tokens)
  return {
    kind: 'whole',
    ...rest,
    body: {
      ...ENVELOPE,
      object: 'chat.completion',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: pieces.join(''), refusal: null },
          finish_reason: finish === undefined ? 'stop' : finish,
          logprobs: null,
        },
      ],
      ...(usage === null ? {} : { usage: toUsage(usage, pieces.length) }),
    },
  }
}

/** Role, a chunk per token, finish, usage. */
export function streamAnswer(answer: ChatAnswer & Partial<Omit<Stream, 'kind' | 'steps'>> = {}): Stream {
  const { tokens, finish, usage, ...rest } = answer
  const pieces = toPieces(tokens)
  const last = finish === undefined ? 'stop' : finish
  return {
    kind: 'stream',
    ...rest,
    steps: [
      toDelta({ role: 'assistant', content: '', refusal: null }),
      ...pieces.map((content) => toDelta({ content })),
      ...(last === null ? [] : [toDelta({}, last)]),
      ...(usage === null ? [] : [toChunk({ choices: [], usage: toUsage(usage, pieces.length) })]),
    ],
  }
}

/** Sent as fast as the client reads; `bytes` is the size of one delta. */
export function endlessAnswer(bytes = 1024): Stream {
  const content = 'x'.repeat(bytes)
  function* steps(): Generator<StreamStep> {
    for (;;) yield toDelta({ content })
  }
  return { kind: 'stream', steps: steps(), end: 'hang' }
}

export function errorAnswer(status: number, message = 'scripted failure', headers: Record<string, string> = {}): Whole {
  return { kind: 'whole', status, headers, body: { error: { message, type: 'scripted', param: null, code: null } } }
}

export function toDelta(delta: Record<string, unknown>, finish: string | null = null, index = 0): StreamStep {
  return toChunk({ choices: [{ index, delta, finish_reason: finish, logprobs: null }] })
}

function toChunk(fields: Record<string, unknown>): StreamStep {
  return { ...ENVELOPE, object: 'chat.completion.chunk', ...fields }
}

function toPieces(tokens: number | readonly string[] = 5): readonly string[] {
  return typeof tokens === 'number' ? Array.from({ length: tokens }, (_, i) => `tok${i} `) : tokens
}

function toUsage(usage: WireUsageNumbers | undefined, written: number): Record<string, unknown> {
  const numbers = usage ?? { prompt_tokens: 10, completion_tokens: written }
  return { total_tokens: numbers.prompt_tokens + numbers.completion_tokens, ...numbers }
}
