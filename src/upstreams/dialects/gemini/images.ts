/**
 * Images of Gemini's models (`generateContent`, ai.google.dev/gemini-api/docs/image-generation) and of Imagen (`predict`,
 * ai.google.dev/gemini-api/docs/imagen), at Google AI Studio and Vertex.
 */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import type { Image, ImagesRequest } from '../../../domain/images.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { EndpointFormat } from '../dialect.ts'
import {
  MAX_WHOLE_BYTES,
  toAspectRatio,
  toImage,
  toInline,
  toModeEvent,
  toPixels,
  toUsage,
  unsupported,
} from '../images.ts'
import { geminiErrors } from './errors.ts'
import { toMethodPath, toResource } from './request.ts'
import { toUsage as readUsage } from './usage.ts'
import type { GenerateContent, Part } from './wire.ts'

/** Imagen makes several images from text. Gemini's models make one, from text and images. */
const isImagen = ({ upstreamModel }: Target) => /(^|\/)imagen/.test(upstreamModel)

export const images: EndpointFormat<ImagesRequest> = {
  request: (asked, target) => (isImagen(target) ? toPrediction(asked, target) : toGeneration(asked, target)),

  accept: () => 'application/json',

  maxWholeBytes: MAX_WHOLE_BYTES,

  whole(json, asked, target) {
    const answer = asObject(json) ?? {}
    const error = geminiErrors.find(answer)
    if (error) throw geminiErrors.read(null, error, target)
    const made = isImagen(target) ? readPredictions(answer) : readParts(answer)
    if (made.length === 0) throw toNoImage(answer)
    return [
      { kind: 'result', result: { of: 'images', images: made, facts: {}, created: null } },
      { kind: 'usage', usage: toUsage(readUsage(answer.usageMetadata), 0, made.length) },
      toModeEvent(asked),
      { kind: 'done' },
    ] satisfies AnswerEvent[]
  },
}

function toGeneration({ asked, edited }: ImagesRequest, target: Target) {
  if (asked.count > 1) throw unsupported('makes one image per request', 'n')
  if (edited?.mask) throw unsupported('does not accept masks', 'mask')
  const inputs = (edited?.images ?? []).map((image): Part => {
    const { mediaType, base64 } = toInline(image)
    return { inlineData: { mimeType: mediaType, data: base64 } }
  })
  const { seed } = asked.own
  const aspectRatio = toAspectRatio(asked.size) ?? undefined
  const imageSize = toImageSize(asked.size)
  const body: GenerateContent = {
    contents: [{ role: 'user', parts: [...inputs, { text: asked.prompt }] }],
    generationConfig: {
      responseModalities: ['TEXT', 'IMAGE'],
      ...(aspectRatio || imageSize ? { imageConfig: { aspectRatio, imageSize } } : {}),
      ...(typeof seed === 'number' ? { seed } : {}),
    },
  }
  return { path: toMethodPath(target, false), body: JSON.stringify(body) }
}

/** Undefined for sizes below 2K, because earlier models have only one size. */
function toImageSize(size: string | null): string | undefined {
  const { width = 0, height = 0 } = toPixels(size) ?? {}
  const longest = Math.max(width, height)
  if (longest < 2_048) return undefined
  return longest < 3_840 ? '2K' : '4K'
}

/** Aspect ratios that Imagen supports. */
const IMAGEN_RATIOS: ReadonlySet<string | null> = new Set(['1:1', '3:4', '4:3', '9:16', '16:9'])

function toPrediction({ asked, edited }: ImagesRequest, { upstreamModel }: Target) {
  if (edited) throw unsupported('does not edit images', 'image')
  const ratio = toAspectRatio(asked.size)
  if (ratio !== null && !IMAGEN_RATIOS.has(ratio)) throw unsupported('has no images of this shape', 'size')
  const parameters = { sampleCount: asked.count, aspectRatio: ratio ?? undefined }
  const body = JSON.stringify({ instances: [{ prompt: asked.prompt }], parameters })
  return { path: `/${toResource(upstreamModel)}:predict`, body }
}

const readPredictions = ({ predictions }: JsonObject): Image[] =>
  asList(predictions).flatMap((each) => {
    const data = asText(asObject(each)?.bytesBase64Encoded)
    return data === '' ? [] : [toImage(data, null)]
  })

/** Skips drafts of reasoning models, which are marked as thoughts. */
const readParts = ({ candidates }: JsonObject): Image[] =>
  asList(asObject(asObject(asList(candidates)[0])?.content)?.parts).flatMap((each) => {
    const part = asObject(each)
    const blob = asObject(part?.inlineData)
    const data = asText(blob?.data)
    const isImage = part?.thought !== true && asText(blob?.mimeType).startsWith('image/')
    return isImage && data !== '' ? [toImage(data, null)] : []
  })

/** Google's reasons are constants, such as `IMAGE_SAFETY`. */
const REASON = /^[A-Z_]{2,64}$/
const ENDED = new Set(['STOP', 'MAX_TOKENS', 'NO_IMAGE'])

function toNoImage({ promptFeedback, candidates, predictions }: JsonObject): UpstreamError {
  const candidate = asObject(asList(candidates)[0])
  const filtered = asText(asObject(asList(predictions)[0])?.raiFilteredReason) === '' ? '' : 'SAFETY'
  const reason = asText(asObject(promptFeedback)?.blockReason) || asText(candidate?.finishReason) || filtered
  if (!REASON.test(reason) || ENDED.has(reason)) return new UpstreamError('broken', 'returned 200 without an image')
  return new UpstreamError('status', `The image was refused: ${reason}.`, { status: 400, code: 'moderation_blocked' })
}
