/** Converts images between OpenAI's requests and responses and those of upstreams. Shared by all dialects. */
import { UpstreamError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import {
  Base64Pieces,
  type Image,
  type ImagesRequest,
  type InputImage,
  TOKENS_PER_PARTIAL,
} from '../../domain/images.ts'
import { asText, type JsonObject } from '../../domain/json.ts'
import type { Target } from '../../domain/snapshot.ts'
import { NO_USAGE, type Usage } from '../../domain/usage.ts'

/** Ten large images in base64. They count against the memory of requests in flight. */
export const MAX_WHOLE_BYTES = 256 * 1024 * 1024

/** @param what such as `does not accept masks` */
export const unsupported = (what: string, param: string) =>
  new UpstreamError('status', `This model ${what}.`, { status: 400, code: 'unsupported_parameter', param })

const DATA_URL = /^data:([^;,]*)(?:;[^,]{0,200})?;base64,/i

export function toDataUrl(image: InputImage): string {
  if ('url' in image) return image.url
  const { mediaType, base64 } = toInline(image)
  return `data:${mediaType};base64,${base64}`
}

/** Throws an UpstreamError for a URL, since Tollgate doesn't fetch URLs for clients. */
export function toInline(image: InputImage): { mediaType: string; base64: string } {
  if ('bytes' in image) return { mediaType: toMediaType(image), base64: Buffer.from(image.bytes).toString('base64') }
  const [head, mediaType = ''] = DATA_URL.exec(image.url.slice(0, 512)) ?? []
  if (head === undefined)
    throw unsupported('does not accept the URLs of images. Send the image itself, as a file or data URL', 'images')
  return { mediaType: mediaType || 'image/png', base64: image.url.slice(head.length) }
}

/** The stated type, or else the type by the first bytes, since clients often state none. */
export function toMediaType({ type, bytes }: { type: string; bytes: Uint8Array }): string {
  if (/^image\/[\w.+-]+$/i.test(type)) return type
  const head = Buffer.from(bytes.subarray(0, 12)).toString('latin1')
  if (head.startsWith('\xff\xd8')) return 'image/jpeg'
  if (head.startsWith('GIF8')) return 'image/gif'
  return head.startsWith('RIFF') && head.endsWith('WEBP') ? 'image/webp' : 'image/png'
}

/** Converts a `data:` URL to base64, which all clients can read. */
export function toImage(
  b64: string | Base64Pieces | null,
  url: string | null,
  revisedPrompt: string | null = null,
): Image {
  if (b64 instanceof Base64Pieces) return { b64, url, revisedPrompt }
  const found = b64 ?? url ?? ''
  const [head] = DATA_URL.exec(found.slice(0, 512)) ?? []
  if (found === '') throw new UpstreamError('broken', 'returned an image without data')
  if (head !== undefined) return { b64: found.slice(head.length), url: null, revisedPrompt }
  return { b64, url, revisedPrompt }
}

const SIZE = /^(\d{2,5})x(\d{2,5})$/

export interface PixelSize {
  width: number
  height: number
}

/** Null for `auto` and other names. */
export function toPixels(size: string | null): PixelSize | null {
  const [, width, height] = SIZE.exec(size ?? '') ?? []
  return width === undefined || height === undefined ? null : { width: Number(width), height: Number(height) }
}

const RATIOS = ['1:1', '2:3', '3:2', '3:4', '4:3', '4:5', '5:4', '9:16', '16:9', '21:9']

/** The nearest ratio that all providers with aspect ratios support. */
export function toAspectRatio(size: string | null): string | null {
  const pixels = toPixels(size)
  if (pixels === null) return null
  const wanted = Math.log(pixels.width / pixels.height)
  const distance = (ratio: string) => {
    const [width = 1, height = 1] = ratio.split(':').map(Number)
    return Math.abs(Math.log(width / height) - wanted)
  }
  return RATIOS.reduce((best, ratio) => (distance(ratio) < distance(best) ? ratio : best))
}

/** Fields that clients get unchanged. */
const FACTS = ['background', 'output_format', 'quality', 'size'] as const

export const toFacts = (answer: JsonObject): Record<string, string> =>
  Object.fromEntries(FACTS.flatMap((name) => (asText(answer[name]) ? [[name, asText(answer[name])]] : [])))

/** The requested size and quality count only if the upstream doesn't report the actual ones. */
export function toModeEvent({ asked }: ImagesRequest, { size, quality }: Record<string, string> = {}): AnswerEvent {
  return { kind: 'mode', mode: null, size: size ?? toNamed(asked.size), quality: quality ?? toNamed(asked.quality) }
}

const toNamed = (word: string | null) => (word === 'auto' ? null : word)

/** Output counts as image tokens unless the upstream reports text apart. @param said null if nothing is reported. */
export function toUsage(said: Usage | null, estimated: number, count: number): Usage {
  if (said === null)
    return { ...NO_USAGE, completion: estimated, imageCompletion: estimated, images: count, countedBy: 'answer' }
  const imageCompletion = said.imageCompletion > 0 ? said.imageCompletion : said.completion - said.reasoning
  return { ...said, imageCompletion, images: count, countedBy: 'upstream' }
}

/** GPT image models refuse `response_format` and return only base64. Recognized by the upstream's name of the model. */
export const isGptImage = (upstreamModel: string) => /(^|\/)(gpt-image|chatgpt-image)/.test(upstreamModel)

/** Output tokens by size (developers.openai.com, "Image generation"), read 2026-08-21. */
const TOKENS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  low: { '1024x1024': 272, '1024x1536': 408, '1536x1024': 400 },
  medium: { '1024x1024': 1_056, '1024x1536': 1_584, '1536x1024': 1_568 },
  high: { '1024x1024': 4_160, '1024x1536': 6_240, '1536x1024': 6_208 },
}
const SQUARE = 1_024 * 1_024
/** gpt-image-2 has a calculator instead of a table: a square image of high quality has about 7,030 tokens. */
const TIMES_OF_2 = 7_030 / 4_160

/**
 * Output tokens of a GPT image model that reports none, by the size and quality of its images. 0 if output tokens have no price, or images
 * have one. Unknown sizes and qualities count as the most expensive ones of the table.
 */
export function estimateTokens(
  { asked }: ImagesRequest,
  { pricing, upstreamModel }: Target,
  made: Record<string, string>,
  count: number,
  partials = 0,
): number {
  const isByToken = pricing.some(({ completion, image_token_completion: image }) => isPriced(image ?? completion))
  if (!isGptImage(upstreamModel) || !isByToken || pricing.some((item) => item.generated_image !== undefined)) return 0
  const bySize = TOKENS[made.quality ?? asked.quality ?? ''] ?? TOKENS.high ?? {}
  const size = made.size ?? asked.size ?? ''
  const pixels = toPixels(size)
  const byArea = pixels && Math.ceil(((bySize['1024x1024'] ?? 0) * pixels.width * pixels.height) / SQUARE)
  const perImage = bySize[size] ?? byArea ?? Math.max(...Object.values(bySize))
  const times = upstreamModel.includes('image-2') ? TIMES_OF_2 : 1
  return Math.ceil(perImage * times) * count + partials * TOKENS_PER_PARTIAL
}

const isPriced = (price: string | undefined) => price !== undefined && /[1-9]/.test(price)
