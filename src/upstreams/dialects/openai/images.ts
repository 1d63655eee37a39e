/** Image generation of OpenAI and of those who take its requests: xAI, Together, DeepInfra, local servers. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import type { Image, ImagesRequest } from '../../../domain/images.ts'
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { NO_USAGE, type Usage } from '../../../domain/usage.ts'
import { toEndpointPath } from '../../auth.ts'
import type { EndpointFormat } from '../dialect.ts'
import { openAiErrors } from './errors.ts'
import { toEndpointBody } from './field-changes.ts'
import { findCharge, findUsage } from './usage.ts'

/** They refuse `response_format`, and return only base64. Told by the upstream's own name, whatever clients call them. */
const isGptImage = (upstreamModel: string) => /(^|\/)(gpt-image|chatgpt-image)/.test(upstreamModel)

export const images: EndpointFormat<ImagesRequest> = {
  request({ asked: { prompt, count, size, quality, form, own }, extras }, target) {
    const { upstream, upstreamModel: model } = target
    const { options } = upstream
    const sent: JsonObject = { model, prompt, ...own }
    if (count > 1) sent.n = count
    if (size !== null) sent.size = size
    if (quality !== null) sent.quality = quality
    // Together calls it otherwise.
    if (form !== null && !isGptImage(model))
      sent.response_format = options.preset === 'together' && form === 'b64_json' ? 'base64' : form
    const body = toEndpointBody(sent, extras, options)
    return { path: toEndpointPath(target, '/images/generations'), body: JSON.stringify(body) }
  },
  whole: readImages,
}

/** Facts that clients get as the upstream says them. */
const FACTS = ['background', 'output_format', 'quality', 'size'] as const

function readImages(json: unknown, { asked }: ImagesRequest, target: Target, text: string): AnswerEvent[] {
  const answer = asObject(json) ?? {}
  const { data, created } = answer
  const error = Array.isArray(data) ? null : openAiErrors.find(answer)
  if (error) throw openAiErrors.read(null, error, target)
  if (!Array.isArray(data) || data.length === 0) throw new UpstreamError('broken', 'returned 200 without an image')
  const made = data.map(toImage)
  const facts = Object.fromEntries(
    FACTS.flatMap((name) => (asText(answer[name]) ? [[name, asText(answer[name])]] : [])),
  )
  const nanoUsd = findCharge(answer, text, target.upstream.options.cost)
  return [
    {
      kind: 'result',
      result: { of: 'images', images: made, facts, created: Number.isSafeInteger(created) ? Number(created) : null },
    },
    { kind: 'usage', usage: toUsage(findUsage(answer), made.length) },
    // What was asked decides only where the upstream doesn't say what it made.
    {
      kind: 'mode',
      mode: null,
      size: facts.size ?? toNamed(asked.size),
      quality: facts.quality ?? toNamed(asked.quality),
    },
    ...(nanoUsd === null ? [] : [{ kind: 'charged', nanoUsd } as const]),
    { kind: 'done' },
  ]
}

const toNamed = (word: string | null) => (word === 'auto' ? null : word)

/** Output is of images, unless the upstream tells its text apart. */
function toUsage(said: Usage | null, count: number): Usage {
  if (said === null) return { ...NO_USAGE, images: count, countedBy: 'answer' }
  const imageCompletion = said.imageCompletion > 0 ? said.imageCompletion : said.completion - said.reasoning
  return { ...said, imageCompletion, images: count, countedBy: 'upstream' }
}

function toImage(value: unknown): Image {
  const item = asObject(value)
  const [b64, url, revisedPrompt] = [item?.b64_json, item?.url, item?.revised_prompt].map((one) => asText(one) || null)
  if (!b64 && !url) throw new UpstreamError('broken', 'returned an image without data')
  return { b64: b64 ?? null, url: url ?? null, revisedPrompt: revisedPrompt ?? null }
}
