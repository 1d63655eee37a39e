/** The parts of a message's content as Gemini takes them: text, bytes in the request, and addresses that it fetches itself. Pure. */
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Part } from './wire.ts'

/** `data:` URL in base64, with whatever parameters its type has. */
const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[^,;]*)*;base64,/i

/** Of what is named by its extension alone. */
const TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  gif: 'image/gif',
  heic: 'image/heic',
  heif: 'image/heif',
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
  json: 'application/json',
  wav: 'audio/wav',
  mp3: 'audio/mp3',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  mp4: 'video/mp4',
  mov: 'video/quicktime',
  webm: 'video/webm',
}

const AUDIO = { wav: 'audio/wav', mp3: 'audio/mp3' } as const

/** Converts one part; null for one that says nothing, undefined for one that Gemini has no place for. */
export function toPart(value: unknown): Part | null | undefined {
  const part = asObject(value) ?? {}
  switch (part.type) {
    case 'text':
      return toText(asText(part.text))
    case 'refusal':
      return toText(asText(part.refusal))
    case 'image_url':
      return toMedia(urlOf(part.image_url), 'image/jpeg')
    case 'video_url':
      return toMedia(urlOf(part.video_url), 'video/mp4')
    case 'input_audio':
      return toAudio(asObject(part.input_audio) ?? {})
    case 'file':
      return toFile(asObject(part.file) ?? {})
    default:
      return undefined
  }
}

/** An empty text is refused, and says nothing. */
export const toText = (text: string): Part | null => (text === '' ? null : { text })

/** Some clients write the address itself in the place of the object around it. */
const urlOf = (value: unknown) => asText(value) || asText(asObject(value)?.url)

function toMedia(url: string, otherwise: string): Part | undefined {
  const inline = toInline(url, otherwise)
  if (inline) return inline
  if (!/^(https?|gs):\/\//i.test(url)) return undefined
  return { fileData: { mimeType: typeOf(url) ?? otherwise, fileUri: url } }
}

function toInline(url: string, otherwise: string): Part | null {
  const found = DATA_URL.exec(url)
  if (!found) return null
  return { inlineData: { mimeType: found[1]?.toLowerCase() ?? otherwise, data: url.slice(found[0].length) } }
}

function toAudio({ data, format }: JsonObject): Part {
  const mimeType = format === 'wav' ? AUDIO.wav : AUDIO.mp3
  return { inlineData: { mimeType, data: asText(data) } }
}

/** The bytes come as a `data:` URL, or bare, or lie at a public URL; what is stored with the provider has an address there. */
function toFile({ filename, file_data: data, file_url: url, file_id: id }: JsonObject): Part | undefined {
  const mimeType = typeOf(asText(filename)) ?? 'application/pdf'
  const bytes = asText(data)
  if (bytes !== '') return toMedia(bytes, mimeType) ?? { inlineData: { mimeType, data: bytes } }
  if (asText(url) !== '') return toMedia(asText(url), mimeType)
  const stored = asText(id)
  return stored === '' ? undefined : { fileData: { mimeType, fileUri: stored } }
}

/** Reads a name's extension, or that of an address's path; undefined where nothing is known of it. */
function typeOf(name: string): string | undefined {
  const [path = ''] = name.split(/[?#]/)
  return TYPES[/\.(\w{2,5})$/.exec(path)?.[1]?.toLowerCase() ?? '']
}
