/**
 * Parts of content of types that are not known here, such as `video_url`: nobody knows what an upstream makes of them. Data
 * counts by its bytes, an address as a file, and all else as text, so that nothing in them is free. Pure.
 */
import type { OtherPart } from '../domain/request.ts'
import { type Data, fromDataUrl, TOKENS_PER_FILE, tokensOfData } from './media.ts'
import { isText } from './text-files.ts'

export interface OtherContent {
  /** Its JSON, without the data in it. */
  text: string
  /** Text files in it, in base64. */
  files: string[]
  /** Tokens of all other data, and of what stands behind addresses. */
  tokens: number
  /** What they are, as far as the part or its data says it. */
  kind: 'audio' | 'images' | 'others'
}

/** Takes a part apart. */
export function toOtherContent(part: OtherPart): OtherContent {
  const content: OtherContent = { text: '', files: [], tokens: 0, kind: kindOf(part.type) ?? 'others' }
  content.text = JSON.stringify(part, (name, value: unknown) => {
    if (typeof value !== 'string') return value
    const data = fromDataUrl(value) ?? toBareData(name, value)
    if (data === null) {
      if (ADDRESS.test(value)) content.tokens += TOKENS_PER_FILE
      return value
    }
    if (isText(data, null)) content.files.push(data.base64)
    else content.tokens += tokensOfData(data.base64)
    content.kind = kindOf(data.mediaType) ?? content.kind
    return ''
  })
  return content
}

const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i

/** Base64 under the name that most formats have for it. */
const toBareData = (name: string, value: string): Data | null =>
  name === 'data' && /^[A-Za-z0-9+/_-]{256}/.test(value) ? { mediaType: '', base64: value } : null

/** @param type of a part, or a media type. */
function kindOf(type: string): OtherContent['kind'] | null {
  if (type.includes('audio')) return 'audio'
  return type.includes('image') ? 'images' : null
}
