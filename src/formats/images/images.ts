/** Image generation as a client format. Responses are in OpenAI's format for every upstream. */
import { resultOf } from '../../domain/endpoint-results.ts'
import { type Decision, GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { type EditedImages, ImagesRequest } from '../../domain/images.ts'
import { asObject, type JsonObject } from '../../domain/json.ts'
import type { EndpointTask } from '../../domain/task.ts'
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
import type { Format } from '../format.ts'
import { ImagesWriter, toImagesJson } from './answer.ts'
import { type ImagesBody, ImagesSchema } from './schema.ts'

export const checkImagesBody = createBodyCheck<ImagesBody>(imagesChecker(), (body) => {
  const given = asObject(body)
  if (given === null) return notAnObject('{"model": …, "prompt": …}')
  return checkModel(given) ?? toSchemaRefusal(ImagesSchema, given, 'Invalid image request.')
})

/** Responses of both endpoints. */
export const imageAnswers = {
  ...openAiErrors,
  notes: ({ body }, events) => {
    const isOtherwise = body instanceof ImagesRequest && body.asked.form === 'b64_json' && hasUrl(events)
    return isOtherwise ? { 'x-tollgate-images': 'url' } : {}
  },
  whole: (_, identity, events, receipt) => toImagesJson(identity, events, receipt),
  writer: ({ endpoint }, identity) =>
    new ImagesWriter(endpoint === 'image_edits' ? 'image_edit' : 'image_generation', identity),
} satisfies Omit<Format, 'toTask'>

/** Tollgate doesn't fetch URLs for clients, since an upstream could name an address within this network. */
const hasUrl = (events: readonly AnswerEvent[]) => resultOf('images', events).images.some(({ b64 }) => b64 === null)

export const images = {
  ...imageAnswers,
  toTask(given) {
    const checked = checkImagesBody(given)
    return checked instanceof GatewayError ? checked : toImagesTask(checked, asObject(given) ?? {}, null)
  },
} satisfies Format

/** Names of chat fields that mean something else here. */
const OF_IMAGES = ['background', 'moderation', 'seed']
export const OWN_FIELDS = [
  ...['model', 'prompt', 'n', 'size', 'quality', 'response_format', 'stream', 'partial_images'],
  ...OF_IMAGES,
]

/** stable-diffusion.cpp reads options, such as steps, from the prompt (`examples/server/api.md`). */
const OPTIONS_IN_PROMPT = /<sd_cpp_extra_args>/i

/** @param given all fields of the client; for a form, those with text. */
export function toImagesTask(
  asked: ImagesBody,
  given: JsonObject,
  edited: EditedImages | null,
  own = OWN_FIELDS,
): Decision<EndpointTask<ImagesRequest>> {
  const { model, prompt, n, size, quality, response_format: form, stream, partial_images: partials } = asked
  if (OPTIONS_IN_PROMPT.test(prompt))
    return invalid('The prompt must not contain <sd_cpp_extra_args>, options of the image server.', 'prompt')
  const renamed = Object.fromEntries(OF_IMAGES.flatMap((name) => (given[name] == null ? [] : [[name, given[name]]])))
  const wanted = {
    ...{ prompt, count: n ?? 1, size: size ?? null, quality: quality ?? null, form: form ?? null, own: renamed },
    partials: stream ? (partials ?? 0) : null,
  }
  const body = new ImagesRequest(model, wanted, toExtras(given, own), edited)
  return {
    ...{ endpoint: body.endpoint, model, body, stream: body.stream, cap: body.max_tokens, user: toUser(asked) },
    ...measurePrompt(body),
    affinity: () => prompt.slice(0, MAX_AFFINITY_CHARS),
  }
}

const MAX_AFFINITY_CHARS = 16_384
