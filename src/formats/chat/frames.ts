/** Writes the frames of a stream, each one line of JSON (contract, section 3c). Pure. */
import type { Delta, FinishReason, Logprobs, Origin } from '../../domain/answer.ts'

/** What identifies an answer, the same in every frame. */
export interface Identity {
  /** `chatcmpl-<request id>` */
  id: string
  /** Unix seconds. */
  created: number
  /** The resolved slug. */
  model: string
}

export interface FrameWriter {
  /** The frame of one delta. */
  delta(index: number, delta: Delta, logprobs: Logprobs | null): string
  /** The same for a delta that is a piece of content alone: nearly all are. */
  content(index: number, content: string): string
  finish(index: number, reason: FinishReason): string
  /** The frame that has usage and no choices. */
  usage(usageJson: string): string
}

export const DONE = 'data: [DONE]\n\n'

/** @param includeUsage whether every frame but the last says `"usage":null`. */
export function createFrameWriter(identity: Identity, origin: Origin, includeUsage: boolean): FrameWriter {
  const { id, created, model } = identity
  const facts = { id, object: 'chat.completion.chunk', created, model, ...origin }
  const head = `data: ${toLine(facts).slice(0, -1)},"choices":[`
  const foot = includeUsage ? '],"usage":null}\n\n' : ']}\n\n'
  return {
    delta: (index, delta, logprobs) =>
      `${head}{"index":${index},"delta":${toLine(delta)},"finish_reason":null${
        logprobs === null ? '' : `,"logprobs":${toLine(logprobs)}`
      }}${foot}`,
    content: (index, content) =>
      `${head}{"index":${index},"delta":{"content":${toLine(content)}},"finish_reason":null}${foot}`,
    finish: (index, reason) => `${head}{"index":${index},"delta":{},"finish_reason":"${reason}"}${foot}`,
    usage: (usageJson) => `${head}],"usage":${usageJson}}\n\n`,
  }
}

/** What some clients take for the end of a line, though JSON and server-sent events do not (contract, section 8). */
const LINE_ENDS = /[\u0085\u2028\u2029]/g
const ESCAPED: Record<string, string> = { '\u0085': '\\u0085', '\u2028': '\\u2028', '\u2029': '\\u2029' }

/** Writes JSON that is one line to everyone. */
export const toLine = (value: unknown) => JSON.stringify(value).replace(LINE_ENDS, (found) => ESCAPED[found] ?? '')
