/**
 * Which targets of a model can take a request at all: by what it asks for, and by how long its prompt is. `admit.ts` asks before
 * anything is reserved.
 */
import { type Decision, GatewayError } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import { checkDoubtful, findDoubtful } from '../routing/refused.ts'
import { type Capabilities, checkFit, checkParts, checkTarget } from '../routing/route.ts'
import type { Counter } from '../tokens/count.ts'
import { BYTES_PER_TOKEN } from '../tokens/estimate.ts'
import { isSplit } from './fanout.ts'
import type { Lanes } from './lane.ts'

/**
 * A request that was written for another model as this one can take it: its cap is lowered to what the model writes, and thinking
 * and searches of the web, which such clients ask of any model, are left out where it knows nothing of them.
 */
export function toAble(task: Task, facts: Capabilities, targets: readonly Target[]): Task {
  if (!task.isForAnyModel) return task
  const { max_tokens: cap, web_search_options: search, ...rest } = task.body
  const most = Math.min(facts.max_output_length, Math.max(...targets.map(({ maxOutputLength }) => maxOutputLength)))
  const body: CanonicalRequest = typeof cap === 'number' ? { ...rest, max_tokens: Math.min(cap, most) } : rest
  if (search && facts.supported_features.includes('web_search')) {
    const doubtful = findDoubtful({ ...body, web_search_options: search })
    if (targets.some((target) => checkDoubtful(doubtful, target) === null)) body.web_search_options = search
  }
  if (!facts.supported_features.includes('reasoning')) {
    delete body.reasoning_effort
    Reflect.deleteProperty(body, 'thinking')
  }
  return { ...task, body, cap: body.max_tokens ?? null }
}

/**
 * Keeps the targets that can take the request at all, or refuses it: before anything is reserved, the client learns what it
 * asks of the wrong model, and a target that is weaker than its model is passed over for one that can.
 */
export function fitFeatures(
  { untranslatable, beyondStrict, body }: Pick<Task, 'untranslatable' | 'beyondStrict' | 'body'>,
  facts: Capabilities,
  targets: readonly Target[],
  lanes: Lanes,
): Decision<readonly Target[]> {
  const misfit = checkFit(body, facts)
  if (misfit) return misfit
  const doubtful = findDoubtful(body)
  const able: Target[] = []
  let none: GatewayError | null = null
  for (const target of targets) {
    const isTranslated = lanes.native(target) === null
    const unable =
      lanes.refusal(target) ??
      (isTranslated ? (untranslatable ?? checkDoubtful(doubtful, target)) : null) ??
      (target.upstream.local ? null : beyondStrict) ??
      checkTarget(body, facts, target) ??
      checkCalls(body, target)
    if (unable === null) able.push(target)
    else none ??= unable
  }
  return (able.length === 0 ? none : checkParts(body, facts)) ?? able
}

/** As many calls as there are choices, where its upstream may not be asked so often in a minute, would never all be made. */
function checkCalls(body: CanonicalRequest, target: Target): GatewayError | null {
  const { id, limits } = target.upstream
  const most = limits.requestsPerMinute
  if (most === null || (body.n ?? 1) <= most || !isSplit(body, target)) return null
  const why = `each choice is a call of its own, and its upstream \`${id}\` takes ${most} a minute`
  return new GatewayError('invalid_request', `'n' is too large for the model \`${target.model}\`: ${why}.`, {
    param: 'n',
  })
}

/** Whether there is any doubt that the prompt fits, by what it was estimated at. */
export function mayOverflow({ promptTokens }: Task, targets: readonly Target[]): boolean {
  for (const { contextLength } of targets) if (promptTokens * BYTES_PER_TOKEN > contextLength) return true
  return false
}

/** A model's own tokenizer may count less than ours by this factor: what is closer is left to its upstream. */
export const TOLERANCE = 1.25

/** Keeps the targets that the prompt, which is counted for it, may fit; all of them where it cannot be counted. */
export async function fitLength(
  counter: Counter,
  shareId: string,
  body: CanonicalRequest,
  targets: readonly Target[],
): Promise<Decision<readonly Target[]>> {
  const counted = await counter.prompt(shareId, body)
  if (counted === null) return targets
  const fitting = targets.filter(({ contextLength }) => counted <= contextLength * TOLERANCE)
  if (fitting.length > 0) return fitting
  return contextOverflow(Math.max(...targets.map(({ contextLength }) => contextLength)), counted)
}

/** The refusal of a prompt that was counted and found too long. Clients look for these words, and shorten their history. */
export const contextOverflow = (contextLength: number, promptTokens: number, param = 'messages') =>
  new GatewayError(
    'invalid_request',
    `This model's maximum context length is ${contextLength} tokens. However, your messages resulted in ${promptTokens} tokens. Please reduce the length of the messages.`,
    { code: 'context_length_exceeded', param },
  )
