/**
 * Decodes Gemini responses. Each stream event is a whole response with only the new content. The stream has no end marker: it is complete
 * once all candidates have a `finishReason` or the prompt was blocked.
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
  readonly #queries = new Set<string>()
  #usage: Usage | null = null

  protected override takeWhole(answer: JsonObject, _text: string, out: AnswerEvent[]): void {
    this.#take(answer, out)
    const last = out.at(-1)
    if (last?.kind === 'failure') throw last.error
    if (!this.#isBlocked && this.#candidates.length === 0)
      throw new UpstreamError('broken', 'returned 200 with an invalid response')
    this.#finish(out)
  }

  protected override takeJson(chunk: JsonObject, _name: string | null, _data: string, out: AnswerEvent[]): void {
    this.#take(chunk, out)
  }

  /** JSON that isn't an object is ignored. */
  protected override takeText(data: string, out: AnswerEvent[]): void {
    if (tryJson(data) === undefined) super.takeText(data, out)
  }

  /** True if only the end of the body is missing. */
  get isComplete(): boolean {
    const candidates = this.#candidates
    return this.#isBlocked || (candidates.length > 0 && candidates.every(({ isFinished }) => isFinished))
  }

  override end(out: AnswerEvent[]): void {
    if (this.isComplete && !this.isOver) this.#finish(out)
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
   * Billable searches. Since Gemini 3, each distinct query counts. For earlier models, which have token budgets, each prompt that searched
   * counts (https://ai.google.dev/gemini-api/docs/google-search, "Pricing").
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

  /** The candidate of an index. Creates it, and those of lower indexes. */
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
    // Text held back until now belongs before the last report, which counts it; a blocked prompt costs nothing.
    if (usage && (this.#usage === null || out.length > from + this.#candidates.length))
      out.push({ kind: 'usage', usage })
    out.push({ kind: 'done' })
  }
}

/** Reasons for invalid tool calls: there is no usable response, but a retry may succeed. */
const FAILURES = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MALFORMED_RESPONSE',
  'MISSING_THOUGHT_SIGNATURE',
])

const toFailure = (word: string, detail: string): UpstreamError | null =>
  FAILURES.has(word) ? new UpstreamError('broken', `ended its response with ${word}${detail && `: ${detail}`}`) : null

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

/** The service tier for clients, from AI Studio's or Vertex's name; undefined for others. */
const toTier = (word: string): AnswerOrigin['service_tier'] => TIERS.get(word)
