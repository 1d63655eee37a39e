/** The parts of a message's content as blocks: texts, images and documents. Throws what `unsupportedValue` makes. Pure. */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Message } from '../../../domain/request.ts'
import { unsupportedValue } from '../refuse.ts'
import { toCacheControl } from './cache.ts'
import type { DocumentBlock, ImageBlock, ImageSource, SaidBlock, TextBlock } from './wire.ts'

type Content = Message['content']

/** Blocks of a content; blank texts, which the API refuses, are left out. `at` is its path. */
export function toSaid(content: Content, at: string): SaidBlock[] {
  if (typeof content === 'string') return toTexts(content)
  return (content ?? []).flatMap((part, index): SaidBlock[] => {
    const found = toBlock({ ...part }, `${at}[${index}]`)
    if (found === null) return []
    const cache = toCacheControl(part)
    return [cache ? { ...found, cache_control: cache } : found]
  })
}

/** The texts of a content alone. */
export const toTextBlocks = (content: Content, at: string): TextBlock[] =>
  toSaid(content, at).flatMap((block) => (block.type === 'text' ? [block] : []))

export const toTexts = (text: string): TextBlock[] => (text.trim() === '' ? [] : [{ type: 'text', text }])

function toBlock(part: JsonObject, at: string): SaidBlock | null {
  switch (part.type) {
    case 'text':
      return toTexts(asText(part.text))[0] ?? null
    case 'refusal':
      return toTexts(asText(part.refusal))[0] ?? null
    case 'image_url':
      return toImage(asText(asObject(part.image_url)?.url), `${at}.image_url.url`)
    case 'file':
      return toDocument(asObject(part.file) ?? {}, `${at}.file`)
    case 'image':
    case 'document':
    case 'search_result':
      return toNative(part, at)
    default:
      throw unsupportedValue(at, `it takes no part of the type '${asText(part.type)}'.`)
  }
}

/** A block as this format itself writes it: what the API has to say about the rest of it, it says best. */
function toNative({ cache_control: _, ...part }: JsonObject, at: string): SaidBlock {
  if (part.type === 'search_result') {
    const content = asList(part.content).flatMap((each) => toTexts(asText(asObject(each)?.text)))
    if (content.length === 0) throw unsupportedValue(`${at}.content`, 'a search result needs texts.')
    return { ...part, type: 'search_result', source: asText(part.source), title: asText(part.title), content }
  }
  const source = asObject(part.source)
  if (source === null || typeof source.type !== 'string')
    throw unsupportedValue(`${at}.source`, 'a block needs its source.')
  if (source.type === 'text' && typeof source.data !== 'string')
    throw unsupportedValue(`${at}.source.data`, 'a text needs its data.')
  if (source.type !== 'content' || typeof source.content === 'string')
    return { ...part, source } as unknown as SaidBlock
  // Copied, for marks may go from it (`cache.ts`), and the request is its client's.
  const content = asList(source.content).flatMap((each) => (asObject(each) ? { ...asObject(each) } : []))
  return { ...part, source: { ...source, content } } as unknown as SaidBlock
}

const IMAGES = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'] as const

function toImage(url: string, at: string): ImageBlock | DocumentBlock {
  if (/^https?:/i.test(url)) return { type: 'image', source: { type: 'url', url } }
  const { mediaType, data } = readDataUrl(url, at)
  if (mediaType === 'application/pdf') return toPdf(data, '')
  const known = IMAGES.find((one) => one === mediaType.replace('image/jpg', 'image/jpeg'))
  if (!known) throw unsupportedValue(at, `images are JPEG, PNG, GIF or WebP, and not '${mediaType}'.`)
  const source: ImageSource = { type: 'base64', media_type: known, data }
  return { type: 'image', source }
}

function toDocument(file: JsonObject, at: string): DocumentBlock | ImageBlock {
  const title = asText(file.filename)
  const named = title === '' ? {} : { title }
  const [id, data] = [asText(file.file_id), asText(file.file_data)]
  // OpenRouter's clients write the address in place of the data.
  const url = asText(file.file_url) || (/^https?:\/\//i.test(data) ? data : '')
  if (id !== '') return { type: 'document', source: { type: 'file', file_id: id }, ...named }
  if (url !== '') return { type: 'document', source: { type: 'url', url }, ...named }
  if (data === '') throw unsupportedValue(at, 'a file needs its file_data.')
  if (!data.startsWith('data:')) return toPdf(data, title)
  const read = readDataUrl(data, `${at}.file_data`)
  if (read.mediaType === 'application/pdf') return toPdf(read.data, title)
  if (IMAGES.some((one) => one === read.mediaType)) return toImage(data, at)
  if (!/^(text\/|application\/(json|xml|yaml|x-yaml)$)/.test(read.mediaType))
    throw unsupportedValue(`${at}.file_data`, `files are PDF or text, and not '${read.mediaType}'.`)
  const text = Buffer.from(read.data, 'base64').toString('utf8')
  return { type: 'document', source: { type: 'text', media_type: 'text/plain', data: text }, ...named }
}

const toPdf = (data: string, title: string): DocumentBlock => ({
  type: 'document',
  source: { type: 'base64', media_type: 'application/pdf', data },
  ...(title === '' ? {} : { title }),
})

/** Reads a `data:` URL in base64. It may be megabytes long. */
function readDataUrl(url: string, at: string): { mediaType: string; data: string } {
  const comma = url.indexOf(',')
  const [mediaType = '', ...parameters] = url.slice('data:'.length, Math.max(0, comma)).toLowerCase().split(';')
  if (!url.startsWith('data:') || !parameters.includes('base64'))
    throw unsupportedValue(
      at,
      'it takes addresses that begin with https:// and data in base64 (data:image/png;base64,…).',
    )
  return { mediaType, data: url.slice(comma + 1) }
}
