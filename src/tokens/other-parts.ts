/**
 * Parts of content of types that are not known here, such as `video_url`: nobody knows what an upstream makes of them. Data
 * counts by its bytes, an address as a file, and all else as text, so that nothing in them is free. Pure.
 */
import { valuesWithin } from '../domain/json.ts'
import type { OtherPart } from '../domain/request.ts'
import { bytesOfBase64, type Data, fromDataUrl, isText, TOKENS_PER_FILE, tokensOfData } from './media.ts'

export interface OtherContent {
  /** Its texts, and the names of its fields. */
  texts: string[]
  /** Text files in it, in base64. */
  files: string[]
  /** Tokens of all other data, of what stands behind addresses, and of numbers. */
  tokens: number
  /** Bytes of data that is neither seen nor heard, such as a document: each of them could be a token. */
  bytes: number
  /** What they are, as far as the part or its data says it. */
  kind: 'audio' | 'images' | 'others'
}

/** Takes a part apart. Nothing is copied: it may be as large as a request. */
export function toOtherContent(part: OtherPart): OtherContent {
  const content: OtherContent = { texts: [], files: [], tokens: 0, bytes: 0, kind: kindOf(part.type) ?? 'others' }
  for (const [name, value] of valuesWithin(part)) {
    if (name !== '') content.texts.push(name)
    if (typeof value === 'string') takeText(name, value, part.type, content)
    else if (typeof value !== 'object' || value === null) content.tokens += 1
  }
  return content
}

function takeText(name: string, value: string, type: string, content: OtherContent): void {
  const data = fromDataUrl(value) ?? toBareData(name, value)
  if (data === null) {
    if (value !== '') content.texts.push(value)
    if (ADDRESS.test(value)) content.tokens += TOKENS_PER_FILE
    return
  }
  if (isText(data, null)) content.files.push(data.base64)
  else {
    content.tokens += tokensOfData(data.base64)
    if (!MEDIA.test(data.mediaType || type)) content.bytes += bytesOfBase64(data.base64)
  }
  content.kind = kindOf(data.mediaType) ?? content.kind
}

const MEDIA = /video|audio|image/
const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i

/** Base64 under the name that most formats have for it. */
const toBareData = (name: string, value: string): Data | null =>
  name === 'data' && /^[A-Za-z0-9+/_-]{256}/.test(value) ? { mediaType: '', base64: value } : null

/** @param type of a part, or a media type. */
function kindOf(type: string): OtherContent['kind'] | null {
  if (type.includes('audio')) return 'audio'
  return type.includes('image') ? 'images' : null
}
