/** Parts of an item's content as those of a message. What only the provider that keeps it could read is refused. Pure. */
import type { GatewayError } from '../../domain/error.ts'
import type { Message } from '../../domain/request.ts'
import type { Content, Part } from './schema.ts'
import { unsupported } from './validate.ts'

type UserContent = Extract<Message, { role: 'user' }>['content']
export type UserPart = Exclude<UserContent, string>[number]
type TextPart = Extract<UserPart, { type: 'text' }>

/** What users say, or tools answer with. Parts of unknown types are left out. Throws a refusal. */
export function toUserParts(content: Content, at: string): UserPart[] {
  if (typeof content === 'string') return [toText(content)]
  return content.flatMap((part, index) => toUserPart(part, `${at}[${index}]`) ?? [])
}

/** The texts alone. */
export const toTexts = (content: Content): TextPart[] =>
  typeof content === 'string' ? [toText(content)] : content.flatMap((part) => textOf(part) ?? [])

const toText = (text: string): TextPart => ({ type: 'text', text })

function textOf(part: Part): TextPart | null {
  if (part.type === 'refusal') return toText(part.refusal)
  return part.type === 'input_text' || part.type === 'output_text' || part.type === 'text' ? toText(part.text) : null
}

function toUserPart(part: Part, at: string): UserPart | null {
  switch (part.type) {
    case 'input_image': {
      const { image_url: url, detail } = part
      if (!url) throw stored(`${at}.file_id`, 'image_url')
      return { type: 'image_url', image_url: { url, ...(detail ? { detail } : {}) } }
    }
    case 'input_file': {
      const { filename, file_data, file_url } = part
      if (!file_data && !file_url) throw stored(`${at}.file_id`, 'file_data')
      const file = { ...(filename ? { filename } : {}), ...(file_data ? { file_data } : { file_url }) }
      return { type: 'file', file }
    }
    case 'input_audio':
      return { type: 'input_audio', input_audio: part.input_audio }
    default:
      return textOf(part)
  }
}

/** Files that lie with a provider lie in one account, whichever key asks. */
const stored = (param: string, instead: string): GatewayError =>
  unsupported(param, `This gateway keeps no files: send the content itself, as ${instead}.`)

/** One text as itself, which more servers take than a list of parts. */
export function toContent<P extends UserPart>(parts: readonly P[]): string | P[] {
  const [only] = parts
  return parts.length === 1 && only?.type === 'text' ? only.text : [...parts]
}
