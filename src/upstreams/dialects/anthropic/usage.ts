/** Cache counts are not part of `input_tokens`. Later reports replace earlier ones, but only the first has cache lifetimes. */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import { MAX_SEARCHES, type ModelUsage, type Usage } from '../../../domain/usage.ts'
import { asCount } from '../readings.ts'

interface Counts {
  input: number
  read: number
  written: number
  /** Part of `written`. */
  written1h: number
  output: number
  thought: number
  searches: number
}

const NONE: Counts = { input: 0, read: 0, written: 0, written1h: 0, output: 0, thought: 0, searches: 0 }

interface Used {
  usage: Usage
  others: ModelUsage[]
}

interface Iterations {
  own: Counts
  others: ModelUsage[]
  /** The counts outside the inner calls. */
  top: Counts
  /** True if another model took over, and those counts are its own. */
  isTakenOver: boolean
}

/** Limit for models in one response, each of which is recorded as a call. */
const MAX_MODELS = 20
const FURTHER = 'further models'

export class UsageReader {
  #top = NONE
  #iterations: Iterations | null = null

  take(value: unknown): Used | null {
    const report = asObject(value)
    if (!report) return null
    const counts = toCounts(report, this.#top)
    this.#top = counts
    this.#iterations = toIterations(report.iterations, counts) ?? this.#iterations
    const { own, others, top, isTakenOver } = this.#iterations ?? alone(counts)
    // A later report without inner calls continues the counts. The increase came after the inner calls.
    const grown = combine(top, counts, (before, now) => Math.max(0, now - before))
    const sum = combine(own, grown, plus)
    const all = isTakenOver ? sum : { ...combine(sum, counts, Math.max), searches: counts.searches }
    if (all.input + all.read + all.written + all.output === 0 && others.length === 0) return null
    const written1h = Math.min(all.written1h, all.written)
    const thought = Math.min(all.thought, all.output)
    return { usage: toUsage({ ...all, written1h, thought }), others }
  }
}

const alone = (counts: Counts): Iterations => ({ own: counts, others: [], top: counts, isTakenOver: false })

/**
 * Each inner call is billed. The outer counts are those of the last one. A model that declines before its first token is free
 * (https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback). Null without inner calls.
 */
function toIterations(value: unknown, counts: Counts): Iterations | null {
  const all = asList(value)
    .map(asObject)
    .filter((each) => each !== null)
  if (all.length === 0) return null
  const serving = all.findLast(({ type }) => type === 'fallback_message')
  const others = new Map<string, Counts>()
  const add = (model: string, used: Counts, by = plus) => {
    const name = others.has(model) || others.size < MAX_MODELS ? model : FURTHER
    others.set(name, combine(others.get(name) ?? NONE, used, by))
  }
  let own = NONE
  for (const each of all) {
    const used = toCounts(each, NONE)
    const isAttempt = each.type === 'message' || each.type === 'fallback_message'
    if (serving && isAttempt && used.output === 0) continue
    if (OF_OTHERS.has(each.type)) add(asText(each.model), used)
    else own = combine(own, used, plus)
  }
  if (serving) add(asText(serving.model), counts, Math.max)
  const told = [...others].map(([model, used]) => ({ model, usage: toUsage(used) }))
  return { own, others: told, top: counts, isTakenOver: serving !== undefined }
}

const OF_OTHERS: ReadonlySet<unknown> = new Set(['advisor_message', 'fallback_message'])

function toCounts(usage: JsonObject, before: Counts): Counts {
  const lifetimes = asObject(usage.cache_creation)
  const written = asCount(usage.cache_creation_input_tokens) ?? before.written
  const output = asCount(usage.output_tokens) ?? before.output
  const thought = asCount(asObject(usage.output_tokens_details)?.thinking_tokens) ?? before.thought
  // Without lifetimes, new writes are assumed to have the lifetime of earlier writes, if all of those had the same.
  const isAllLong = before.written1h > 0 && before.written1h === before.written
  const long = asCount(lifetimes?.ephemeral_1h_input_tokens) ?? (isAllLong ? written : before.written1h)
  return {
    input: asCount(usage.input_tokens) ?? before.input,
    read: asCount(usage.cache_read_input_tokens) ?? before.read,
    written,
    written1h: Math.min(long, written),
    output,
    thought: Math.min(thought, output),
    searches: asCount(asObject(usage.server_tool_use)?.web_search_requests) ?? before.searches,
  }
}

const plus = (one: number, other: number) => one + other

const combine = (one: Counts, other: Counts, by: (one: number, other: number) => number): Counts => ({
  input: by(one.input, other.input),
  read: by(one.read, other.read),
  written: by(one.written, other.written),
  written1h: by(one.written1h, other.written1h),
  output: by(one.output, other.output),
  thought: by(one.thought, other.thought),
  searches: by(one.searches, other.searches),
})

const toUsage = ({ input, read, written, written1h, output, thought, searches }: Counts): Usage => ({
  ...{ audioPrompt: 0, imagePrompt: 0, toolPrompt: 0, audioCompletion: 0, imageCompletion: 0, computeMs: 0 },
  prompt: input + read + written,
  cacheRead: read,
  cacheWrite: written - written1h,
  cacheWrite1h: written1h,
  completion: output,
  reasoning: thought,
  webSearches: Math.min(searches, MAX_SEARCHES),
})
