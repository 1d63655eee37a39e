/** Moderations of OpenAI and Mistral, whose results don't say whether the input is flagged. */
import type { Moderation } from '../../../domain/endpoint-results.ts'
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asObject } from '../../../domain/json.ts'
import type { ModerationsRequest } from '../../../domain/moderations.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { NO_USAGE } from '../../../domain/usage.ts'
import { toEndpointPath } from '../../auth.ts'
import type { EndpointFormat } from '../dialect.ts'
import { openAiErrors } from './errors.ts'
import { toEndpointBody } from './field-changes.ts'
import { findCharge, findUsage } from './usage.ts'

export const moderations: EndpointFormat<ModerationsRequest> = {
  request({ input, extras }, target) {
    const { upstream, upstreamModel: model } = target
    const body = toEndpointBody({ model, input }, extras, upstream.options)
    return { path: toEndpointPath(target, '/moderations'), body: JSON.stringify(body) }
  },
  whole: readModerations,
}

function readModerations(json: unknown, asked: ModerationsRequest, target: Target, text: string): AnswerEvent[] {
  const answer = asObject(json) ?? {}
  const { results } = answer
  const error = Array.isArray(results) ? null : openAiErrors.find(answer)
  if (error) throw openAiErrors.read(null, error, target)
  if (!Array.isArray(results)) throw new UpstreamError('broken', 'returned 200 with an invalid moderation')
  if (results.length !== asked.count)
    throw new UpstreamError('broken', `returned ${results.length} results for ${asked.count} inputs`)
  const nanoUsd = findCharge(answer, text, target.upstream.options.cost)
  return [
    { kind: 'result', result: { of: 'moderations', moderations: results.map(toModeration) } },
    // Providers report none. If tokens have a price, they are counted.
    { kind: 'usage', usage: findUsage(answer) ?? NO_USAGE },
    ...(nanoUsd === null ? [] : [{ kind: 'charged', nanoUsd } as const]),
    { kind: 'done' },
  ]
}

function toModeration(value: unknown): Moderation {
  const result = asObject(value)
  const [given, scored] = [asObject(result?.categories), asObject(result?.category_scores)]
  if (given === null) throw new UpstreamError('broken', 'returned a moderation without categories')
  const categories = Object.fromEntries(Object.entries(given).map(([name, is]) => [name, is === true]))
  const scores: [string, number][] = []
  for (const [name, score] of Object.entries(scored ?? {}))
    if (typeof score === 'number' && Number.isFinite(score)) scores.push([name, score])
  const applied = asObject(result?.category_applied_input_types)
  return {
    flagged: typeof result?.flagged === 'boolean' ? result.flagged : Object.values(categories).includes(true),
    categories,
    scores: Object.fromEntries(scores),
    appliedTo: applied && Object.fromEntries(Object.entries(applied).map(([name, kinds]) => [name, toKinds(kinds)])),
  }
}

const toKinds = (kinds: unknown): string[] =>
  Array.isArray(kinds) ? kinds.filter((kind): kind is string => typeof kind === 'string') : []
