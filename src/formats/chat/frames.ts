/** Writes the frames of a stream, each one line of JSON behind `data: `. Pure. */
import type { FinishReason, Logprobs, Origin } from '../../domain/events.ts'
import { type Receipt, toUsd } from '../../domain/usage.ts'
import type { Identity } from '../format.ts'
import type { Delta, WireUsage } from './wire.ts'

export const DONE = 'data: [DONE]\n\n'

/** The facts that every object of an answer begins with. */
export const toHead = ({ id, created, model }: Identity, object: string, origin: Origin) => ({
  id: `chatcmpl-${id}`,
  object,
  created,
  model,
  ...origin,
})

export class FrameWriter {
  readonly #head: string
  readonly #foot: string

  /** @param includeUsage whether every frame but the last says `"usage":null`. */
  constructor(identity: Identity, origin: Origin, includeUsage: boolean) {
    this.#head = `data: ${toLine(toHead(identity, 'chat.completion.chunk', origin)).slice(0, -1)},"choices":[`
    this.#foot = includeUsage ? '],"usage":null}\n\n' : ']}\n\n'
  }

  /** The frame of a delta. */
  delta(index: number, delta: Delta, logprobs?: Logprobs): string {
    const figures = logprobs ? `,"logprobs":${toLine(logprobs)}` : ''
    return `${this.#head}{"index":${index},"delta":${toLine(delta)},"finish_reason":null${figures}}${this.#foot}`
  }

  /** The same for a delta that is a piece of content alone, given as JSON: nearly all are. */
  content(index: number, json: string): string {
    return `${this.#head}{"index":${index},"delta":{"content":${json}},"finish_reason":null}${this.#foot}`
  }

  finish(index: number, reason: FinishReason): string {
    return `${this.#head}{"index":${index},"delta":{},"finish_reason":"${reason}"}${this.#foot}`
  }

  /** The frame that has usage and no choices. */
  usage(usageJson: string): string {
    return `${this.#head}],"usage":${usageJson}}\n\n`
  }
}

/** What some clients take for the end of a line, though JSON and server-sent events do not (openai-python splits there). */
const LINE_ENDS = /[\u0085\u2028\u2029]/g
const ESCAPED: Record<string, string> = { '\u0085': '\\u0085', '\u2028': '\\u2028', '\u2029': '\\u2029' }

/** Writes JSON that is one line to everyone. */
export const toLine = (value: unknown) => JSON.stringify(value).replace(LINE_ENDS, (found) => ESCAPED[found] ?? '')

/** As JSON text, because `cost` has no exponent on the wire, which JSON.stringify gives every amount under a millionth. */
export function toUsageJson({ usage, costNanoUsd }: Receipt): string {
  const cacheWrite = usage.cacheWrite + usage.cacheWrite1h
  const counts: Omit<WireUsage, 'cost'> = {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
    prompt_tokens_details: {
      cached_tokens: usage.cacheRead,
      ...(cacheWrite > 0 ? { cache_write_tokens: cacheWrite } : {}),
    },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
    cost_nano_usd: costNanoUsd,
  }
  return `${JSON.stringify(counts).slice(0, -1)},"cost":${toUsd(costNanoUsd)}}`
}
