/**
 * Reads an answer of Gemini's as events, whole or streamed. Each event of a stream is a whole response with what is new; it
 * ends without a word once all candidates have a `finishReason`, or the prompt was blocked. Pure.
 */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, AnswerOrigin } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject, tryJson } from '../../../domain/json.ts'
import { MAX_SEARCHES, NO_USAGE, toMode, type Usage } from '../../../domain/usage.ts'
import { toPublic } from '../../credential-scrubbing.ts'
import { JsonDecoder } from '../json-decoder.ts'
import { Candidate } from './candidate.ts'
import { geminiErrors } from './errors.ts'
import { toUsage } from './usage.ts'

export class AnswerDecoder extends JsonDecoder {
  protected readonly errors = geminiErrors
  readonly #candidates: Candidate[] = []
  #isBlocked = false
  #tier = ''
  /** What it has searched the web for. */
  readonly #queries = new Set<string>()
  /** The last report. */
  #usage: Usage | null = null

  protected override takeWhole(answer: JsonObject, _text: string, out: AnswerEvent[]): void {
    this.#take(answer, out)
    const last = out.at(-1)
    if (last?.kind === 'failure') throw last.error
    if (!this.#isBlocked && this.#candidates.length === 0)
      throw new UpstreamError('broken', 'answered 200 with something that is no answer')
    this.#finish(out)
  }

  protected override takeJson(chunk: JsonObject, _name: string | null, _data: string, out: AnswerEvent[]): void {
    this.#take(chunk, out)
  }

  /** JSON that is no object says nothing. */
  protected override takeText(data: string, out: AnswerEvent[]): void {
    if (tryJson(data) === undefined) super.takeText(data, out)
  }

  override end(out: AnswerEvent[]): void {
    const candidates = this.#candidates
    const isWhole = this.#isBlocked || (candidates.length > 0 && candidates.every(({ isFinished }) => isFinished))
    if (isWhole && !this.isOver) this.#finish(out)
    else super.end(out)
  }

  #take(answer: JsonObject, out: AnswerEvent[]): void {
    this.#takeTier(asObject(answer.usageMetadata) ?? {}, out)
    if (asText(asObject(answer.promptFeedback)?.blockReason) !== '') this.#isBlocked = true
    for (const [place, each] of asList(answer.candidates).entries()) {
      const candidate = asObject(each)
      const index = Number.isInteger(candidate?.index) ? (candidate?.index as number) : place
      if (!candidate || index < 0 || index >= this.expected.choices) continue
      const detail = toPublic(asText(candidate.finishMessage), this.expected.target.upstream)
      const failure = toFailure(asText(candidate.finishReason), detail)
      if (failure) {
        this.fail(failure, out)
        return
      }
      this.#candidate(index).take(candidate, out)
      this.#takeQueries(asObject(candidate.groundingMetadata)?.webSearchQueries)
    }
    const usage = toUsage(answer.usageMetadata, this.#toSearches())
    if (!usage) return
    this.#usage = usage
    out.push({ kind: 'usage', usage })
  }

  #takeQueries(queries: unknown): void {
    for (const query of asList(queries)) {
      const said = asText(query).trim()
      if (said !== '' && this.#queries.size < MAX_SEARCHES) this.#queries.add(said)
    }
  }

  /**
   * How many searches are charged: since Gemini 3 each query once, of earlier models, which think by a number of tokens, each prompt
   * that has led to any (https://ai.google.dev/gemini-api/docs/google-search, "Pricing").
   */
  #toSearches(): number {
    const { size } = this.#queries
    return this.expected.target.options.thinking === 'budget' ? Math.min(1, size) : size
  }

  #takeTier({ serviceTier, trafficType }: JsonObject, out: AnswerEvent[]): void {
    const word = asText(serviceTier) || asText(trafficType)
    if (word === '' || word === this.#tier) return
    this.#tier = word
    out.push({ kind: 'mode', mode: toMode(word) })
    const tier = toTier(word)
    if (tier) out.push({ kind: 'origin', origin: { service_tier: tier } })
  }

  /** The one of that index; those of lower ones, which may not have begun, are made with it. */
  #candidate(index: number): Candidate {
    const candidates = this.#candidates
    while (candidates.length <= index) candidates.push(new Candidate(this.expected, candidates.length))
    return candidates[index] as Candidate
  }

  #finish(out: AnswerEvent[]): void {
    this.isOver = true
    if (this.#isBlocked) this.#candidate(this.expected.choices - 1)
    const from = out.length
    const usage = this.#usage ?? (this.#isBlocked ? NO_USAGE : null)
    for (const candidate of this.#candidates) candidate.end(this.#isBlocked, out)
    // What was held back until now had come before the last report, which counts it; for a blocked prompt nobody is charged.
    if (usage && (this.#usage === null || out.length > from + this.#candidates.length))
      out.push({ kind: 'usage', usage })
    out.push({ kind: 'done' })
  }
}

/** The model went wrong about its calls: what it wrote is no answer, and another try may be. */
const FAILURES = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MALFORMED_RESPONSE',
  'MISSING_THOUGHT_SIGNATURE',
])

/** @param detail what the upstream says of it, fit for clients. */
const toFailure = (word: string, detail: string): UpstreamError | null =>
  FAILURES.has(word) ? new UpstreamError('broken', `ended its answer with ${word}${detail && `: ${detail}`}`) : null

const TIERS = new Map<string, AnswerOrigin['service_tier']>(
  Object.entries({
    standard: 'default',
    flex: 'flex',
    priority: 'priority',
    ON_DEMAND: 'default',
    ON_DEMAND_FLEX: 'flex',
    ON_DEMAND_PRIORITY: 'priority',
  } as const),
)

/** The tier that served an answer as clients read it, from the words of AI Studio or of Vertex; undefined for any other. */
const toTier = (word: string): AnswerOrigin['service_tier'] => TIERS.get(word)
