/** Image generation as a client format: OpenAI's response, whatever the upstream's. */
import { resultOf } from '../../domain/endpoint-results.ts'
import { type Decision, GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { ImagesRequest } from '../../domain/images.ts'
import { asObject, type JsonObject } from '../../domain/json.ts'
import type { EndpointTask } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { openAiErrors } from '../chat/chat.ts'
import {
  checkModel,
  createBodyCheck,
  invalid,
  notAnObject,
  toExtras,
  toSchemaRefusal,
  toUser,
} from '../checked-body.ts'
import { imagesChecker } from '../checker.macro.ts' with { type: 'macro' }
import { type Format, type Identity, withCost } from '../format.ts'
import { type ImagesBody, ImagesSchema } from './schema.ts'

const checkBody = createBodyCheck<ImagesBody>(imagesChecker(), (body) => {
  const given = asObject(body)
  if (given === null) return notAnObject('{"model": …, "prompt": …}')
  return checkModel(given) ?? toSchemaRefusal(ImagesSchema, given, 'Invalid image request.')
})

export const images = {
  ...openAiErrors,
  toTask(given) {
    const checked = checkBody(given)
    return checked instanceof GatewayError ? checked : toTask(checked, asObject(given) ?? {})
  },
  whole: (_, identity, events, receipt) => toImagesJson(identity, events, receipt),
  writer: () => {
    throw new Error('images are not streamed')
  },
} satisfies Format

/** Names of chat fields that mean something else here. */
const OF_IMAGES = ['background', 'moderation', 'seed']
const OWN = ['model', 'prompt', 'n', 'size', 'quality', 'response_format', 'stream', ...OF_IMAGES]

/** stable-diffusion.cpp takes its options, steps included, from within the prompt (`examples/server/api.md`). */
const OPTIONS_IN_PROMPT = /<sd_cpp_extra_args>/i

function toTask(asked: ImagesBody, given: JsonObject): Decision<EndpointTask<ImagesRequest>> {
  const { model, prompt, n, size, quality, response_format: form } = asked
  if (asked.stream) return invalid('Images are not streamed here. Leave out stream.', 'stream', 'unsupported_parameter')
  if (OPTIONS_IN_PROMPT.test(prompt))
    return invalid('The prompt must not contain <sd_cpp_extra_args>, options of the image server.', 'prompt')
  const own = Object.fromEntries(OF_IMAGES.flatMap((name) => (given[name] == null ? [] : [[name, given[name]]])))
  const wanted = { prompt, count: n ?? 1, size: size ?? null, quality: quality ?? null, form: form ?? null, own }
  const body = new ImagesRequest(model, wanted, toExtras(given, OWN))
  return {
    ...{ endpoint: 'images', model, body, stream: false, cap: 0, user: toUser(asked) },
    ...measurePrompt(body),
    affinity: () => prompt.slice(0, MAX_AFFINITY_CHARS),
  }
}

const MAX_AFFINITY_CHARS = 16_384

/** In pieces, because an image may have 20 MB. */
function* toImagesJson(
  identity: Identity,
  events: readonly AnswerEvent[],
  { usage, costNanoUsd }: Receipt,
): Generator<string> {
  const { images: made, facts, created } = resultOf('images', events)
  yield `{"created":${created ?? identity.created},"data":[`
  for (const [at, { b64, url, revisedPrompt }] of made.entries()) {
    const fields = {
      ...(url === null ? {} : { url }),
      ...(b64 === null ? {} : { b64_json: b64 }),
      ...(revisedPrompt === null ? {} : { revised_prompt: revisedPrompt }),
    }
    yield `${at === 0 ? '' : ','}${JSON.stringify(fields)}`
  }
  const { prompt, completion, imagePrompt, imageCompletion, images: count = 0 } = usage
  const counts = {
    ...{ input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion },
    input_tokens_details: { text_tokens: Math.max(0, prompt - imagePrompt), image_tokens: imagePrompt },
    output_tokens_details: { text_tokens: Math.max(0, completion - imageCompletion), image_tokens: imageCompletion },
    images: count,
  }
  const said = Object.entries(facts).map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`)
  yield `]${said.join('')},"usage":${withCost(counts, costNanoUsd)}}`
}
