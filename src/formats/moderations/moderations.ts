/** Moderations as a client format. Responses are in OpenAI's format for every upstream. */
import { resultOf } from '../../domain/endpoint-results.ts'
import { GatewayError } from '../../domain/error.ts'
import { asObject } from '../../domain/json.ts'
import { ModerationsRequest } from '../../domain/moderations.ts'
import type { EndpointTask } from '../../domain/task.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { openAiErrors } from '../chat/chat.ts'
import { createBodyCheck, notAnObject, toExtras, toSchemaRefusal, toUser } from '../checked-body.ts'
import { moderationsChecker } from '../checker.macro.ts' with { type: 'macro' }
import { type Format, withCost } from '../format.ts'
import { type ModerationsBody, ModerationsSchema } from './schema.ts'

const checkBody = createBodyCheck<ModerationsBody>(moderationsChecker(), (body) => {
  const given = asObject(body)
  if (given === null) return notAnObject('{"model": …, "input": …}')
  return toSchemaRefusal(ModerationsSchema, given, 'Invalid moderations request.')
})

/** OpenAI's default model. */
const USUAL_MODEL = 'omni-moderation-latest'

export const moderations = {
  ...openAiErrors,
  toTask(given) {
    const checked = checkBody(given)
    return checked instanceof GatewayError ? checked : toTask(checked)
  },
  whole(_, { id, model }, events, { usage, costNanoUsd }) {
    const { moderations: found } = resultOf('moderations', events)
    const results = found.map(({ flagged, categories, scores, appliedTo }) => ({
      ...{ flagged, categories, category_scores: scores },
      ...(appliedTo ? { category_applied_input_types: appliedTo } : {}),
    }))
    const counts = withCost({ prompt_tokens: usage.prompt, total_tokens: usage.prompt }, costNanoUsd)
    const json = JSON.stringify({ id: `modr-${id}`, model, results })
    return `${json.slice(0, -1)},"usage":${counts}}`
  },
  writer: () => {
    throw new Error('moderations are not streamed')
  },
} satisfies Format

/** Texts with this beginning in common use the same target. */
const MAX_AFFINITY_CHARS = 16_384

function toTask(asked: ModerationsBody): EndpointTask<ModerationsRequest> {
  const model = asked.model || USUAL_MODEL
  const body = new ModerationsRequest(model, asked.input, toExtras(asked, ['model', 'input']))
  return {
    ...{ endpoint: 'moderations', model, body, stream: false, cap: 0, user: toUser(asked) },
    ...measurePrompt(body),
    affinity: () => String(body.inputs[0]?.slice(0, MAX_AFFINITY_CHARS)),
  }
}
