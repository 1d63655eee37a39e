/**
 * Counts tokens that an upstream didn't report, with the o200k vocabulary on a thread, or estimates from bytes if that
 * takes too long. Also bounds a prompt for any vocabulary, for nearly spent budgets.
 */

import { EndpointRequest } from '../domain/endpoint-request.ts'
import type { AnyRequest } from '../domain/request.ts'
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

interface Bound {
  /** Tokens of the o200k vocabulary, and published figures for media. */
  tokens: number
  /** Upper bounds for a model of that vocabulary, and for any other. */
  o200k: number
  other: number
  /** For models that charge more for images than the figures used here. */
  images: Images
}

/**
 * OpenAI's models since gpt-4o, also with a prefix such as `openai/`, and the open ones. Azure deployments may have any
 * name.
 */
const O200K = /(?:^|[/:.])(?:gpt-(?:4o|4\.1|4\.5|[5-9]|oss)|chatgpt-4o|o[1-9])(?![a-z0-9])/i

const MINI_4O = /gpt-4o-mini/i
const SMALL = /-(?:mini|nano)/i

export function tokensOn(upstreamModel: string, { o200k, other, images }: Bound): number {
  if (!O200K.test(upstreamModel)) return other + moreOfImages(images)
  if (MINI_4O.test(upstreamModel)) return o200k + mostMoreOfImages(images)
  return SMALL.test(upstreamModel) ? o200k + moreOfImages(images) : o200k
}

/** Tokens that other vocabularies need per o200k token of ordinary text; Claude's newest come close. */
const TOLERANCE = 1.5
/** Other vocabularies know words in Latin letters, but not o200k's long tokens, such as runs of spaces. */
const LETTERS_PER_TOKEN = 3

/**
 * Upper bound for any vocabulary. Letters and single spaces may be words. Anything else counts a token per byte, since
 * unknown text is split into bytes.
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

export interface CapturedOutput {
  /** One text per choice, so that interleaved choices count like sequential ones. */
  answer: string[]
  reasoning: string[]
  /** Base64 characters. */
  audioChars: number
  /** UTF-8 bytes beyond what was captured. */
  moreAnswer: number
  moreReasoning: number
}

export interface Counter {
  /** For a call without reported usage. Never rejects: estimates by bytes if it can't count in time. */
  usage(quotaId: string, body: AnyRequest, captured: CapturedOutput): Promise<Usage>
  /** Null if it can't be counted in time. */
  prompt(quotaId: string, body: AnyRequest): Promise<number | null>
  /** Counts a whole prompt; beyond MAX_COUNTED_BYTES, a token per byte. Null if it can't be counted in time. */
  bound(quotaId: string, body: AnyRequest): Promise<Bound | null>
  close(): void
}

export interface CounterOptions extends Pick<ThreadOptions, 'idleMs' | 'createWorker'> {
  maxWaiting?: number
  timeoutMs?: number
  log?: Pick<Log, 'warn'>
}

/**
 * OpenAI's formula for chats (cookbook, "How to count tokens"): message frame and role, name, start of the response.
 */
const TOKENS_PER_MESSAGE = 3 + 1
const TOKENS_PER_NAME = 1
const TOKENS_TO_PRIME = 3
const toFrame = ({ messages, names }: Prompt) =>
  messages === 0 ? 0 : messages * TOKENS_PER_MESSAGE + names * TOKENS_PER_NAME + TOKENS_TO_PRIME

/** Takes some 0.4 s for ordinary text. */
const MAX_COUNTED_BYTES = 1_000_000

export function createCounter({ log, timeoutMs = 5_000, maxWaiting = 256, ...options }: CounterOptions = {}): Counter {
  const thread = createThread<CountRequest, CountReply>('tokens/count-worker', {
    idleMs: 60_000,
    patienceMs: timeoutMs,
    ...options,
  })
  /** One sum per list. Long counts are sliced, so that other keys get their turns. */
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
      log?.warn('counting_failed', 'token counting thread failed', { error: String(error) })
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

/** Choices and retries are separate calls with the same messages, which are counted once. */
function once<T>(count: (quotaId: string, body: AnyRequest) => Promise<T | null>): typeof count {
  const counted = new WeakMap<object, { body: AnyRequest; count: Promise<T | null> }>()
  return (quotaId, body) => {
    const read = body instanceof EndpointRequest ? body : body.messages
    const known = counted.get(read)
    if (known && readsTheSame(known.body, body)) return known.count
    const counting = count(quotaId, body)
    counted.set(read, { body, count: counting })
    // The next count may succeed.
    void counting.then((found) => found === null && counted.delete(read))
    return counting
  }
}

const readsTheSame = (one: AnyRequest, other: AnyRequest) =>
  one.tools === other.tools && one.functions === other.functions && one.response_format === other.response_format

/** Response and reasoning each get half of the byte limit, plus what the other doesn't use. */
function toCapturedExcerpts({ answer, reasoning, moreAnswer, moreReasoning }: CapturedOutput): [Excerpt, Excerpt] {
  const half = CAPTURED_BYTES / 2
  const roomBeside = (other: string[]) => Math.max(half, CAPTURED_BYTES - Buffer.byteLength(other.join('')))
  const excerpt = (texts: string[], more: number, limit: number): Excerpt => {
    const kept = toExcerpt(texts, limit)
    return { ...kept, ofBytes: kept.ofBytes + more }
  }
  return [excerpt(answer, moreAnswer, roomBeside(reasoning)), excerpt(reasoning, moreReasoning, roomBeside(answer))]
}
