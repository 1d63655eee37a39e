/** Image generation and edits of OpenAI and of providers with similar requests; see the setting `images`. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import type { EditedImages, Image, ImagesRequest, InputImage } from '../../../domain/images.ts'
import { asList, asObject, asText } from '../../../domain/json.ts'
import { createForm, writeForm } from '../../../domain/multipart.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { toEndpointPath } from '../../auth.ts'
import { PictureCutter } from '../../pictures.ts'
import type { EndpointFormat, EndpointWire } from '../dialect.ts'
import {
  estimateTokens,
  isGptImage,
  MAX_WHOLE_BYTES,
  toAspectRatio,
  toDataUrl,
  toFacts,
  toImage,
  toInline,
  toModeEvent,
  toPixels,
  toUsage,
  unsupported,
} from '../images.ts'
import { openAiErrors } from './errors.ts'
import { toEndpointBody, toFormChanges } from './field-changes.ts'
import { ImageDecoder } from './image-stream.ts'
import { findCharge, findUsage } from './usage.ts'

const EVENT_STREAM = 'text/event-stream'

export const images: EndpointFormat<ImagesRequest> = {
  request(asked, target) {
    switch (target.upstream.options.images) {
      case 'base64':
        return toTogether(asked, target)
      case 'aspect_ratio':
        return toXai(asked, target)
      case 'workflows':
        return toFireworks(asked, target)
      default:
        return toOpenAi(asked, target)
    }
  },

  accept: ({ stream }) => (stream ? `${EVENT_STREAM}, application/json` : 'application/json'),

  whole: readImages,

  stream(mediaType, asked, target) {
    if (mediaType !== EVENT_STREAM) return null
    const pictures = new PictureCutter()
    return { framing: 'events', decoder: new ImageDecoder(asked, target, pictures), pictures }
  },

  // A whole image is one event.
  maxEventBytes: 32 * 1024 * 1024,

  maxWholeBytes: MAX_WHOLE_BYTES,
}

const GENERATIONS = '/images/generations'
const EDITS = '/images/edits'

/** @param sent fields that replace or extend the usual ones, as the provider needs. Undefined fields are omitted. */
function toJsonRequest(
  asked: ImagesRequest,
  target: Target,
  path: `/${string}`,
  sent: Record<string, unknown>,
): EndpointWire {
  const { prompt, count, own } = asked.asked
  const fields = { model: target.upstreamModel, prompt, ...own, n: count > 1 ? count : undefined, ...sent }
  const body = toEndpointBody(fields, asked.extras, target.upstream.options)
  return { path: toEndpointPath(target, path), body: JSON.stringify(body) }
}

function toOpenAi(asked: ImagesRequest, target: Target): EndpointWire {
  const { edited } = asked
  if (edited === null) return toJsonRequest(asked, target, GENERATIONS, toOpenAiFields(asked, target))
  if (edited.form) return passForm(edited.form, target)
  // Other models accept only forms.
  if (!isGptImage(target.upstreamModel)) return makeForm(asked, edited, target)
  const toRef = (image: InputImage) => ({ image_url: toDataUrl(image) })
  const refs = { images: edited.images.map(toRef), mask: edited.mask ? toRef(edited.mask) : undefined }
  return toJsonRequest(asked, target, EDITS, { ...toOpenAiFields(asked, target), ...refs })
}

function toOpenAiFields({ asked }: ImagesRequest, { upstreamModel }: Target) {
  const { size, quality, form, partials } = asked
  const fields = { size: size ?? undefined, quality: quality ?? undefined }
  if (!isGptImage(upstreamModel)) return { ...fields, response_format: form ?? undefined }
  return partials === null ? fields : { ...fields, stream: true, partial_images: partials }
}

/** Fields that GPT image models refuse, and fields that only these accept. */
const OF_OTHERS = ['response_format']
const OF_GPT_IMAGES = ['stream', 'partial_images']

function passForm(form: NonNullable<EditedImages['form']>, { upstream, upstreamModel }: Target): EndpointWire {
  const { names, dropped } = toFormChanges(form, upstream.options)
  for (const name of isGptImage(upstreamModel) ? OF_OTHERS : OF_GPT_IMAGES) dropped.add(name)
  const rest = writeForm(form, { values: new Map([['model', upstreamModel]]), names, dropped })
  return {
    path: toEndpointPath({ upstream, upstreamModel }, EDITS),
    ...{ body: '', rest, headers: { 'content-type': form.contentType } },
  }
}

function makeForm(asked: ImagesRequest, { images, mask }: EditedImages, target: Target): EndpointWire {
  const { prompt, count, own } = asked.asked
  const known = { model: target.upstreamModel, prompt, ...own, n: count, ...toOpenAiFields(asked, target) }
  const fields = toEndpointBody(known, asked.extras, target.upstream.options)
  const name = images.length === 1 ? 'image' : 'image[]'
  const files = [...images.map((image) => [name, image] as const), ...(mask ? [['mask', mask] as const] : [])]
  const { contentType, pieces } = createForm(
    Object.entries(fields).flatMap(([name, value]) =>
      value == null ? [] : [[name, typeof value === 'string' ? value : JSON.stringify(value)]],
    ),
    files.map(([name, image]) => {
      const { mediaType, base64 } = toInline(image)
      const extension = mediaType.split('/')[1]?.replace(/\W.*/, '') || 'png'
      return { name, filename: `image.${extension}`, type: mediaType, bytes: Buffer.from(base64, 'base64') }
    }),
  )
  return { path: toEndpointPath(target, EDITS), body: '', rest: pieces, headers: { 'content-type': contentType } }
}

/** Together uses width and height, its own name for base64, and the same path for edits. */
function toTogether(asked: ImagesRequest, target: Target): EndpointWire {
  const { size, form } = asked.asked
  const { width, height } = toPixels(size) ?? {}
  return toJsonRequest(asked, target, GENERATIONS, {
    ...{ width, height },
    response_format: form === 'b64_json' ? 'base64' : (form ?? undefined),
    image_url: asked.edited ? toDataUrl(onlyImage(asked.edited)) : undefined,
  })
}

/** xAI uses aspect ratios instead of sizes, and JSON for edits. */
function toXai(asked: ImagesRequest, target: Target): EndpointWire {
  const { size, form } = asked.asked
  return toJsonRequest(asked, target, asked.edited ? EDITS : GENERATIONS, {
    aspect_ratio: toAspectRatio(size) ?? undefined,
    response_format: form ?? undefined,
    image: asked.edited ? { url: toDataUrl(onlyImage(asked.edited)), type: 'image_url' } : undefined,
  })
}

/** Each model of Fireworks has its own path. */
function toFireworks(asked: ImagesRequest, target: Target): EndpointWire {
  if (asked.edited) throw unsupported('does not edit images', 'image')
  if (asked.asked.count > 1) throw unsupported('makes one image per request', 'n')
  const path = `/workflows/${target.upstreamModel}/text_to_image` as const
  return toJsonRequest(asked, target, path, {
    model: undefined,
    aspect_ratio: toAspectRatio(asked.asked.size) ?? undefined,
  })
}

function onlyImage({ images: [image, ...others], mask }: EditedImages): InputImage {
  if (mask) throw unsupported('does not accept masks', 'mask')
  if (image === undefined || others.length > 0) throw unsupported('accepts only one image', 'image')
  return image
}

function readImages(json: unknown, asked: ImagesRequest, target: Target, text: string): AnswerEvent[] {
  const answer = asObject(json) ?? {}
  // Fireworks sends images as plain strings.
  const data = Array.isArray(answer.data) ? answer.data : asList(answer.base64)
  const error = data.length > 0 ? null : openAiErrors.find(answer)
  if (error) throw openAiErrors.read(null, error, target)
  if (data.length === 0) throw new UpstreamError('broken', 'returned 200 without an image')
  const made = data.map(readImage)
  const facts = toFacts(answer)
  const created = Number.isSafeInteger(answer.created) ? Number(answer.created) : null
  const nanoUsd = findCharge(answer, text, target.upstream.options.cost)
  const estimated = estimateTokens(asked, target, facts, made.length)
  return [
    { kind: 'result', result: { of: 'images', images: made, facts, created } },
    { kind: 'usage', usage: toUsage(findUsage(answer), estimated, made.length) },
    toModeEvent(asked, facts),
    ...(nanoUsd === null ? [] : [{ kind: 'charged', nanoUsd } as const]),
    { kind: 'done' },
  ]
}

function readImage(value: unknown): Image {
  if (typeof value === 'string') return toImage(value, null)
  const item = asObject(value)
  const [b64 = null, url = null, revisedPrompt = null] = [item?.b64_json, item?.url, item?.revised_prompt].map(
    (one) => asText(one) || null,
  )
  return toImage(b64, url, revisedPrompt)
}
