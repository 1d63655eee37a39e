/**
 * Reads what a call has used. Counts of the cache stand beside `input_tokens`; those of a later report replace those of an
 * earlier one, but how long what was written is kept is told once. Pure.
 */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import { MAX_SEARCHES, type ModelUsage, NO_USAGE, type Usage } from '../../../domain/usage.ts'
import { asCount } from '../count.ts'

/** The counts of one report, or of one of the calls that a request became within the provider. */
interface Counts {
  input: number
  read: number
  written: number
  /** Part of `written`. */
  written1h: number
  output: number
  thought: number
  /** Of the web. */
  searches: number
}

const NONE: Counts = { input: 0, read: 0, written: 0, written1h: 0, output: 0, thought: 0, searches: 0 }

/** What a call has used by now. */
interface Used {
  usage: Usage
  /** What other models have used within it. */
  others: ModelUsage[]
}

export class UsageReader {
  #top: Counts | null = null
  /** The calls of the model itself that the request became, where it tells them apart. */
  #own: Counts[] = []
  #others: ModelUsage[] = []

  /** Takes a report: the first one, or a later one that says more. Null where it is no report. */
  take(value: unknown): Used | null {
    const usage = asObject(value)
    if (!usage) return null
    const counts = toCounts(usage, this.#top ?? NONE)
    if (counts.input + counts.read + counts.written + counts.output === 0) return null
    this.#top = counts
    this.#takeIterations(usage.iterations)
    if (this.#own.length === 0) return { usage: toUsage(counts), others: this.#others }
    const all = this.#own.reduce(toSum, NONE)
    const thought = Math.min(Math.max(all.thought, counts.thought), all.output)
    return { usage: toUsage({ ...all, thought, searches: counts.searches }), others: this.#others }
  }

  /**
   * The calls that one request became: each is paid for, and the counts beside them are of the last alone. An advisor is another
   * model. Where another model took over, the counts beside them are its own already.
   */
  #takeIterations(value: unknown): void {
    const all = asList(value)
      .map(asObject)
      .filter((each) => each !== null)
    if (all.length === 0 || all.some(({ type }) => type === 'fallback_message')) return
    const isOther = ({ type }: JsonObject) => type === 'advisor_message'
    this.#own = all.filter((each) => !isOther(each)).map((each) => toCounts(each, NONE))
    this.#others = all.filter(isOther).map((each) => ({
      model: asText(each.model),
      usage: toUsage(toCounts(each, NONE)),
    }))
  }
}

/** @param before what holds of what it does not say. */
function toCounts(usage: JsonObject, before: Counts): Counts {
  const lifetimes = asObject(usage.cache_creation)
  const written = asCount(usage.cache_creation_input_tokens) ?? before.written
  const output = asCount(usage.output_tokens) ?? before.output
  const thought = asCount(asObject(usage.output_tokens_details)?.thinking_tokens) ?? before.thought
  // A later report has no lifetimes: what was written since is kept as long as what was before, if that was of one kind.
  const isAllLong = before.written1h > 0 && before.written1h === before.written
  const long = asCount(lifetimes?.ephemeral_1h_input_tokens) ?? (isAllLong ? written : before.written1h)
  return {
    input: asCount(usage.input_tokens) ?? before.input,
    read: asCount(usage.cache_read_input_tokens) ?? before.read,
    written,
    written1h: Math.min(long, written),
    output,
    thought: Math.min(thought, output),
    searches: Math.min(asCount(asObject(usage.server_tool_use)?.web_search_requests) ?? before.searches, MAX_SEARCHES),
  }
}

const toSum = (one: Counts, other: Counts): Counts => ({
  input: one.input + other.input,
  read: one.read + other.read,
  written: one.written + other.written,
  written1h: one.written1h + other.written1h,
  output: one.output + other.output,
  thought: one.thought + other.thought,
  searches: one.searches + other.searches,
})

const toUsage = ({ input, read, written, written1h, output, thought, searches }: Counts): Usage => ({
  ...NO_USAGE,
  prompt: input + read + written,
  cacheRead: read,
  cacheWrite: written - written1h,
  cacheWrite1h: written1h,
  completion: output,
  reasoning: thought,
  webSearches: searches,
})
