/** What blocks say, as parts of a message: texts, pictures and documents. Blocks that are not known say nothing here. Pure. */
import { asObject, asText } from '../../domain/json.ts'
import type { SaidBlock, Source } from './schema.ts'

/** With where the prompt cache begins anew: dialects read it where their API has such a thing. */
interface Marked {
  cache_control?: object
}
export type TextPart = Marked & { type: 'text'; text: string }
type ImagePart = Marked & { type: 'image_url'; image_url: { url: string } }
type FilePart = Marked & {
  type: 'file'
  file: { filename?: string; file_data?: string; file_url?: string; file_id?: string }
}
export type Part = TextPart | ImagePart | FilePart

/** The cache mark of a block, to be spread over what the block becomes. */
export const toMark = ({ cache_control: mark }: { cache_control?: object | null }): Marked =>
  mark ? { cache_control: mark } : {}

/** The parts that a block says; none where it is empty or not known. */
export function toParts(block: SaidBlock): Part[] {
  const parts = toBare(block)
  const last = parts.at(-1)
  if (last && 'cache_control' in block) Object.assign(last, toMark(block))
  return parts
}

function toBare(block: SaidBlock): Part[] {
  switch (block.type) {
    case 'text':
      return toText(block.text)
    case 'image':
      return toImage(block.source)
    case 'document':
      return toDocument(block.source, block.title ?? '', block.context ?? '')
    case 'search_result':
      return toText(toTagged('search_result', block, block.content.map((each) => each.text ?? '').join('\n')))
    default:
      return []
  }
}

const toText = (text: string): Part[] => (text === '' ? [] : [{ type: 'text', text }])

function toImage(source: Source): Part[] {
  const { type, media_type: mediaType, data, url, file_id: id } = source
  if (type === 'base64' && data)
    return [{ type: 'image_url', image_url: { url: `data:${mediaType ?? 'image/png'};base64,${data}` } }]
  if (type === 'url' && url) return [{ type: 'image_url', image_url: { url } }]
  return toStored(id)
}

/** What lies with a provider: routing says who may be sent it. */
const toStored = (id: string | null | undefined): Part[] => (id ? [{ type: 'file', file: { file_id: id } }] : [])

function toDocument(source: Source, title: string, context: string): Part[] {
  const { type, media_type: mediaType, data, url, content, file_id: id } = source
  const about = toText(context)
  if (type === 'text' && data) return toText(toTagged('document', { title, context }, data))
  if (type === 'base64' && data) {
    const filename = title || 'document.pdf'
    return [...about, { type: 'file', file: { filename, file_data: `data:${mediaType ?? PDF};base64,${data}` } }]
  }
  if (type === 'url' && url)
    return [...about, { type: 'file', file: { filename: title || 'document.pdf', file_url: url } }]
  if (type !== 'content') return toStored(id)
  if (typeof content === 'string') return toText(toTagged('document', { title, context }, content))
  return [...about, ...(content ?? []).flatMap(toInner)]
}

const PDF = 'application/pdf'

/** What a document is made of: texts and pictures. */
function toInner(block: { type: string; text?: string | null; source?: object | null }): Part[] {
  if (block.type === 'text') return toText(block.text ?? '')
  const source = asObject(block.source)
  if (block.type !== 'image' || !source) return []
  const { type, media_type, data, url } = source
  return toImage({ type: asText(type), media_type: asText(media_type), data: asText(data), url: asText(url) })
}

/** A text with what is said about it: models of any vendor read such tags. */
function toTagged(tag: string, about: object, text: string): string {
  const { title, source, context }: { title?: unknown; source?: unknown; context?: unknown } = about
  const said = Object.entries({ title, source, context }).filter(([, value]) => asText(value) !== '')
  const attributes = said.map(([name, value]) => ` ${name}=${JSON.stringify(value)}`).join('')
  return `<${tag}${attributes}>\n${text}\n</${tag}>`
}
