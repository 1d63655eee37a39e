/**
 * GenerateContent responses, whole or as chunks. Calls are written whole, once the candidate ends. The finish reasons and the usage are
 * written only once the ledger has the outcome.
 */
import type { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent, FinishReason, Logprob, TokenLogprob } from '../../domain/events.ts'
import { asObject, asText, toLine } from '../../domain/json.ts'
import { type ChatTask, UNREQUESTED_REASONING } from '../../domain/task.ts'
import type { Receipt, Usage } from '../../domain/usage.ts'
import { encodeReasoning, toSignature } from '../../upstreams/dialects/reasoning-state.ts'
import { toInputObject } from '../../upstreams/dialects/tool-calls.ts'
import {
  type Frames,
  type Identity,
  KEEP_ALIVE,
  type PassthroughStreamWriter,
  type Writer,
  withCost,
} from '../format.ts'
import { toErrorBody } from './errors.ts'

type Part = {
  text?: string
  thought?: true
  inlineData?: { mimeType: string; data: string }
  functionCall?: { id: string; name: string; args: object }
  thoughtSignature?: string
}

const REASONS: Readonly<Record<FinishReason, string>> = {
  stop: 'STOP',
  length: 'MAX_TOKENS',
  tool_calls: 'STOP',
  function_call: 'STOP',
  content_filter: 'SAFETY',
}

/** Limit for hidden reasoning text in UTF-16 units; beyond it only the details are kept. */
const MAX_UNSEEN = 256 * 1024

const DATA_URL = /^data:([^;,]*);base64,/

/** The parts of one candidate. */
class Candidate {
  readonly #calls: { id: string; name: string; args: string }[] = []
  readonly #byIndex = new Map<number, { args: string }>()
  readonly #details: object[] = []
  readonly logprobs: TokenLogprob[] = []
  #reasoning = ''
  #hasRefused = false
  #reason: FinishReason = 'stop'

  constructor(private readonly hidesThoughts: boolean) {}

  get reason(): string {
    return this.#hasRefused ? REASONS.content_filter : REASONS[this.#reason]
  }

  /** Adds parts that can be written immediately. */
  take(event: AnswerEvent, out: Part[]): void {
    switch (event.kind) {
      case 'text':
      case 'refusal':
        if (event.kind === 'refusal') this.#hasRefused = true
        if (event.text !== '') addText(out, { text: event.text })
        if (event.logprobs?.content) this.logprobs.push(...event.logprobs.content)
        return
      case 'reasoning':
        this.#think(event.text, event.details ?? [], out)
        return
      case 'tool': {
        const call = { id: event.id, name: event.name, args: '' }
        this.#calls.push(call)
        this.#byIndex.set(event.index, call)
        return
      }
      case 'arguments': {
        const call = this.#byIndex.get(event.index)
        if (call) call.args += event.text
        return
      }
      case 'images':
        out.push(...event.items.flatMap(toImage))
        return
      case 'finish':
        this.#reason = event.reason
        this.#end(out)
        return
      default:
    }
  }

  #think(text: string, details: readonly object[], out: Part[]): void {
    this.#details.push(...details)
    if (this.#reasoning.length <= MAX_UNSEEN) this.#reasoning += text
    if (!this.hidesThoughts && text !== '') addText(out, { text, thought: true })
  }

  /** Attaches the reasoning to the first call, for the next step. Without calls, writes it only if reasoning is shown. */
  #end(out: Part[]): void {
    const [first, ...others] = this.#calls.map(toCall)
    const isKept = first !== undefined || (!this.hidesThoughts && this.#details.length > 0)
    const text = this.#reasoning.length > MAX_UNSEEN ? '' : this.#reasoning
    const state = isKept ? encodeReasoning({ text, details: this.#details }, '') : null
    const signed = state === null ? {} : { thoughtSignature: toSignature(state) }
    if (first) out.push({ ...first, ...signed }, ...others)
    else if (state !== null) out.push({ text: '', ...signed })
  }
}

/** Extends the last part of the same kind. */
function addText(out: Part[], part: { text: string; thought?: true }): void {
  const last = out.at(-1)
  if (last?.text !== undefined && last.thought === part.thought) last.text += part.text
  else out.push(part)
}

const toCall = ({ id, name, args }: { id: string; name: string; args: string }): Part => ({
  functionCall: { id, name, args: toInputObject(args) },
})

function toImage(item: object): Part[] {
  const url = asText(asObject((item as { image_url?: unknown }).image_url)?.url)
  const [prefix, mimeType = ''] = DATA_URL.exec(url) ?? []
  return prefix === undefined ? [] : [{ inlineData: { mimeType, data: url.slice(prefix.length) } }]
}

function toLogprobsResult(logprobs: readonly TokenLogprob[]): object {
  const toEntry = ({ token, logprob }: Logprob) => ({ token, logProbability: logprob })
  return {
    chosenCandidates: logprobs.map(toEntry),
    topCandidates: logprobs.map(({ top_logprobs }) => ({ candidates: top_logprobs.map(toEntry) })),
  }
}

function toUsageJson({ usage, costNanoUsd }: Receipt): string {
  return withCost(toCounts(usage), costNanoUsd)
}

function toCounts({ prompt, toolPrompt, cacheRead, completion, reasoning }: Usage): object {
  return {
    promptTokenCount: prompt - toolPrompt,
    ...(cacheRead > 0 ? { cachedContentTokenCount: cacheRead } : {}),
    candidatesTokenCount: completion - reasoning,
    ...(reasoning > 0 ? { thoughtsTokenCount: reasoning } : {}),
    ...(toolPrompt > 0 ? { toolUsePromptTokenCount: toolPrompt } : {}),
    totalTokenCount: prompt + completion,
  }
}

class Candidates {
  readonly #all: Candidate[] = []

  constructor(private readonly task: ChatTask) {}

  of(choice: number): Candidate {
    while (this.#all.length <= choice) this.#all.push(new Candidate(this.task.body[UNREQUESTED_REASONING] === true))
    return this.#all[choice] as Candidate
  }

  /** @param partsOf null for the end of a stream, whose content was already sent. */
  toEnd(partsOf: ((index: number) => Part[]) | null): object[] {
    if (this.#all.length === 0) this.of(0)
    return this.#all.map((candidate, index) => ({
      content: { parts: partsOf?.(index) ?? [{ text: '' }], role: 'model' },
      finishReason: candidate.reason,
      index,
      ...(candidate.logprobs.length > 0 ? { logprobsResult: toLogprobsResult(candidate.logprobs) } : {}),
    }))
  }
}

/** The last chunk, or a whole response. */
function toEndJson(candidates: object[], { id, model }: Identity, receipt: Receipt): string {
  const names = toLine({ modelVersion: model, responseId: id }).slice(1)
  return `{"candidates":${toLine(candidates)},"usageMetadata":${toUsageJson(receipt)},${names}`
}

export function toGeminiJson(
  task: ChatTask,
  identity: Identity,
  events: readonly AnswerEvent[],
  receipt: Receipt,
): string {
  const candidates = new Candidates(task)
  const parts: Part[][] = []
  for (const event of events) {
    if (!('choice' in event)) continue
    parts[event.choice] ??= []
    candidates.of(event.choice).take(event, parts[event.choice] ?? [])
  }
  return toEndJson(
    candidates.toEnd((index) => parts[index] ?? []),
    identity,
    receipt,
  )
}

const toFrame = (json: string) => `data: ${json}\n\n`

export const toErrorFrame = (error: GatewayError) => toFrame(toLine(toErrorBody(error)))

export class GeminiWriter implements Writer {
  readonly #candidates: Candidates
  readonly #names: string

  constructor(task: ChatTask, { id, model }: Identity) {
    this.#candidates = new Candidates(task)
    this.#names = toLine({ modelVersion: model, responseId: id }).slice(1)
  }

  get keepAlive(): string {
    return KEEP_ALIVE
  }

  take(events: readonly AnswerEvent[]): string {
    let out = ''
    let choice = 0
    let parts: Part[] = []
    const flush = () => {
      if (parts.length > 0) out += this.#frame(choice, parts)
      parts = []
    }
    for (const event of events) {
      if (!('choice' in event)) continue
      if (event.choice !== choice) flush()
      choice = event.choice
      this.#candidates.of(choice).take(event, parts)
    }
    flush()
    return out
  }

  #frame(index: number, parts: Part[]): string {
    return toFrame(`{"candidates":[${toLine({ content: { parts, role: 'model' }, index })}],${this.#names}`)
  }

  tail(receipt: Receipt): string {
    const candidates = toLine(this.#candidates.toEnd(null))
    return toFrame(`{"candidates":${candidates},"usageMetadata":${toUsageJson(receipt)},${this.#names}`)
  }

  failure(error: GatewayError): string {
    return toErrorFrame(error)
  }
}

const ARRAY_HEADERS = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-cache, no-transform' }

/** Writes frames of events as the items of one JSON array, which is what Google sends without `alt=sse`. */
export class ArrayWriter<Inner extends Writer = Writer> implements Writer {
  #isBegun = false

  constructor(protected readonly inner: Inner) {}

  headers(): Record<string, string> {
    return ARRAY_HEADERS
  }

  /** White space is allowed between items. */
  readonly keepAlive = '\n'

  take(events: readonly AnswerEvent[]): string {
    return this.items(this.inner.take(events))
  }

  tail(receipt: Receipt): string {
    return `${this.items(this.inner.tail(receipt))}${this.#isBegun ? '' : '['}]`
  }

  failure(error: GatewayError): string {
    return `${this.items(this.inner.failure(error))}]`
  }

  protected items(frames: Frames | null): string {
    let out = ''
    if (typeof frames !== 'string') return out
    for (const frame of frames.split('\n\n')) {
      if (!frame.startsWith('data: ')) continue
      out += (this.#isBegun ? ',\r\n' : '[') + frame.slice('data: '.length).replaceAll('\ndata: ', '\n')
      this.#isBegun = true
    }
    return out
  }
}

export class PassthroughArrayWriter extends ArrayWriter<PassthroughStreamWriter> implements PassthroughStreamWriter {
  pass(frames: string): string {
    return this.items(this.inner.pass(frames))
  }
}
