/**
 * The tokens that a call has used, where its upstream did not say so: counted with the o200k vocabulary on a thread of its own, and guessed
 * from bytes where that takes too long. Either is marked as estimated. And the most that a prompt may have, whichever vocabulary its model
 * has: what is held of a budget that is nearly spent. What is known at once, before a call, is in `estimate.ts`.
 */

import type { AnyRequest } from '../domain/request.ts'
import { EmbeddingsRequest } from '../domain/task.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Log } from '../log.ts'
import { createThread, type NoReply, type ThreadOptions } from '../threads/thread.ts'
import type { CountReply, CountRequest } from './count-worker.ts'
import {
  bytesOfExtras,
  estimatePrompt,
  type Images,
  TOKENS_PER_MESSAGE as MAX_PER_MESSAGE,
  moreOfImages,
  mostMoreOfImages,
  tokensOfBytes,
} from './estimate.ts'
import { CAPTURED_BYTES, type Excerpt, extrapolate, PROMPT_BYTES, toExcerpt, toPromptExcerpt } from './excerpt.ts'
import { tokensOfSpeech } from './media.ts'
import { type Prompt, toMedia, toPrompt, unreadBytes } from './prompt.ts'

/** What a prompt comes to by a count. */
interface Bound {
  /** By the o200k vocabulary, and by the stated figures of what is not text. */
  tokens: number
  /** At most, on a model of that vocabulary, and on any other one. */
  o200k: number
  other: number
  /** Of these, models count more than is in either. */
  images: Images
}

/** OpenAI's models from gpt-4o on: also behind a prefix such as `openai/`, and the open ones. Azure names them as it likes. */
const O200K = /(?:^|[/:.])(?:gpt-(?:4o|4\.1|4\.5|[5-9]|oss)|chatgpt-4o|o[1-9])(?![a-z0-9])/i

const MINI_4O = /gpt-4o-mini/i
const SMALL = /-(?:mini|nano)/i

/** @param upstreamModel as its upstream calls it. */
export function tokensOn(upstreamModel: string, { o200k, other, images }: Bound): number {
  if (!O200K.test(upstreamModel)) return other + moreOfImages(images)
  if (MINI_4O.test(upstreamModel)) return o200k + mostMoreOfImages(images)
  return SMALL.test(upstreamModel) ? o200k + moreOfImages(images) : o200k
}

/** So many tokens other vocabularies make of one of o200k's, where the text is ordinary: Claude's newest come close to it. */
const TOLERANCE = 1.5
/** They know words in Latin letters, but not the long ones that o200k has, runs of spaces above all. */
const LETTERS_PER_TOKEN = 3

/**
 * The most tokens that any vocabulary makes of some texts: letters and single spaces may be words, anything else has a token
 * a byte, for a vocabulary that does not have it spells it out in bytes.
 *
 * @param tokens as o200k counts it.
 */
export function toOther({ texts, bytes }: Pick<Excerpt, 'texts' | 'bytes'>, tokens: number): number {
  let letters = 0
  for (const text of texts) letters += countLetters(text)
  const spelled = bytes - letters + letters / LETTERS_PER_TOKEN
  return Math.min(bytes, Math.ceil(Math.max(tokens * TOLERANCE, spelled)))
}

function countLetters(text: string): number {
  let letters = 0
  let before = SPACE
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    const lower = code | 0x20
    if ((code === SPACE && before !== SPACE) || (lower >= 0x61 && lower <= 0x7a && code < 0x80)) letters++
    before = code
  }
  return letters
}
const SPACE = 0x20

/** What an upstream sent in one call, as far as it was kept. */
export interface CapturedOutput {
  /** One text a choice, so that choices which come interleaved count as they do one after the other. */
  answer: string[]
  reasoning: string[]
  /** Base64 characters of audio. */
  audioChars: number
  /** UTF-8 bytes beyond what was kept. */
  moreAnswer: number
  moreReasoning: number
}

export interface Counter {
  /** Counts what a call of a key used that reported nothing. Never rejects: where it cannot count in time it estimates by bytes. */
  usage(quotaId: string, body: AnyRequest, captured: CapturedOutput): Promise<Usage>
  /** Counts a prompt, for a context in doubt. Null where it could not be counted in time. */
  prompt(quotaId: string, body: AnyRequest): Promise<number | null>
  /**
   * Counts all of a prompt, for a budget that is nearly spent; what is beyond MAX_COUNTED_BYTES has a token a byte. Null where it could not
   * be counted in time.
   */
  bound(quotaId: string, body: AnyRequest): Promise<Bound | null>
  close(): void
}

export interface CounterOptions extends Pick<ThreadOptions, 'idleMs' | 'createWorker'> {
  /** Most counts of one key that wait at once: what comes on top is estimated. */
  maxWaiting?: number
  /** How long anybody waits for a count, starting the thread included. */
  timeoutMs?: number
  log?: Pick<Log, 'warn'>
}

/** OpenAI's formula for chats (cookbook, "How to count tokens"): a message's frame and role, its name, the answer's beginning. */
const TOKENS_PER_MESSAGE = 3 + 1
const TOKENS_PER_NAME = 1
const TOKENS_TO_PRIME = 3
const toFrame = ({ messages, names }: Prompt) =>
  messages === 0 ? 0 : messages * TOKENS_PER_MESSAGE + names * TOKENS_PER_NAME + TOKENS_TO_PRIME

/** Of ordinary text, some four tenths of a second. */
const MAX_COUNTED_BYTES = 1_000_000

export function createCounter({ log, timeoutMs = 5_000, maxWaiting = 256, ...options }: CounterOptions = {}): Counter {
  const thread = createThread<CountRequest, CountReply>('tokens/count-worker', {
    idleMs: 60_000,
    patienceMs: timeoutMs,
    ...options,
  })
  /** One sum a list. A long count is done in slices, between which other keys have their turns. */
  const count = async (owner: string, lists: CountRequest): Promise<number[] | null> => {
    const endMs = performance.now() + timeoutMs
    const sums = lists.map(() => 0)
    try {
      for (let rest: CountRequest | null = lists; rest; ) {
        if (performance.now() > endMs) return null
        const reply: CountReply | NoReply = await thread.ask(rest, { owner, limitMs: timeoutMs, maxWaiting })
        if (typeof reply === 'string') return null
        for (const [at, sum] of reply.sums.entries()) sums[at] = (sums[at] ?? 0) + sum
        rest = reply.rest
      }
      return sums
    } catch (error) {
      log?.warn('counting_failed', 'the counting thread failed', { error: String(error) })
      return null
    }
  }
  const countPrompt = async (quotaId: string, body: AnyRequest): Promise<number | null> => {
    const prompt = toPrompt(body)
    const excerpt = toPromptExcerpt(prompt, PROMPT_BYTES)
    const sums = excerpt.texts.length > 0 ? await count(quotaId, [excerpt.texts]) : [0]
    const tokens = sums && extrapolate(sums[0] ?? 0, excerpt)
    if (tokens === null) return null
    return tokens + toFrame(prompt) + prompt.audio + prompt.images + prompt.others
  }
  const boundPrompt = async (quotaId: string, body: AnyRequest): Promise<Bound | null> => {
    const prompt = toPrompt(body)
    const { messages, audio, images, others, otherBytes } = prompt
    const frame = toFrame(prompt)
    const excerpt = toPromptExcerpt(prompt, MAX_COUNTED_BYTES)
    const [counted] = excerpt.texts.length > 0 ? ((await count(quotaId, [excerpt.texts])) ?? []) : [0]
    if (counted === undefined) return null
    const rest = excerpt.ofBytes - excerpt.bytes
    const tokens = counted + rest
    const other = toOther(excerpt, counted) + rest
    const beside = audio + images + Math.max(others, otherBytes) + bytesOfExtras(body)
    return {
      tokens: tokens + frame + audio + images + others + tokensOfBytes(unreadBytes(body)),
      o200k: tokens + frame + beside,
      other: other + Math.max(frame, messages * MAX_PER_MESSAGE) + beside,
      images: { images, pictures: prompt.pictures },
    }
  }

  const countOnce = once(countPrompt)

  return {
    async usage(quotaId, body, captured) {
      const [answer, reasoning] = toCapturedExcerpts(captured)
      const [prompt, sums] = await Promise.all([
        countOnce(quotaId, body),
        answer.bytes + reasoning.bytes > 0 ? count(quotaId, [answer.texts, reasoning.texts]) : [0, 0],
      ])
      const tokensOf = (excerpt: Excerpt, tokens: number | undefined) =>
        (tokens === undefined ? null : extrapolate(tokens, excerpt)) ?? tokensOfBytes(excerpt.ofBytes)
      const [answered, thought] = [tokensOf(answer, sums?.[0]), tokensOf(reasoning, sums?.[1])]
      const { audio, images } = toMedia(body)
      const spoken = captured.audioChars > 0 ? tokensOfSpeech(captured.audioChars, body.audio?.format) : 0
      return {
        ...NO_USAGE,
        prompt: prompt ?? estimatePrompt(body),
        audioPrompt: audio,
        imagePrompt: images,
        completion: answered + thought + spoken,
        reasoning: thought,
        audioCompletion: spoken,
      }
    },
    prompt: countOnce,
    bound: once(boundPrompt),
    close: () => thread.close(),
  }
}

/** Several choices and second tries are calls of their own, which read the same messages: these are counted once. */
function once<T>(count: (quotaId: string, body: AnyRequest) => Promise<T | null>): typeof count {
  const counted = new WeakMap<object, { body: AnyRequest; count: Promise<T | null> }>()
  return (quotaId, body) => {
    const read = body instanceof EmbeddingsRequest ? body : body.messages
    const known = counted.get(read)
    if (known && readsTheSame(known.body, body)) return known.count
    const counting = count(quotaId, body)
    counted.set(read, { body, count: counting })
    // What was not to be had in time may be had the next time.
    void counting.then((found) => found === null && counted.delete(read))
    return counting
  }
}

/** Whether two requests with the same messages also declare the same beside them. */
const readsTheSame = (one: AnyRequest, other: AnyRequest) =>
  one.tools === other.tools && one.functions === other.functions && one.response_format === other.response_format

/** Answer and reasoning get half of what is counted each, and what the other one leaves. */
function toCapturedExcerpts({ answer, reasoning, moreAnswer, moreReasoning }: CapturedOutput): [Excerpt, Excerpt] {
  const half = CAPTURED_BYTES / 2
  const roomBeside = (other: string[]) => Math.max(half, CAPTURED_BYTES - Buffer.byteLength(other.join('')))
  const excerpt = (texts: string[], more: number, limit: number): Excerpt => {
    const kept = toExcerpt(texts, limit)
    return { ...kept, ofBytes: kept.ofBytes + more }
  }
  return [excerpt(answer, moreAnswer, roomBeside(reasoning)), excerpt(reasoning, moreReasoning, roomBeside(answer))]
}
