/** What tells one conversation from another, so that its requests stay with one target and that one's prompt cache. Pure. */
import type { Message } from '../../domain/request.ts'

/** A conversation is told from another by this much of how it begins. */
const MAX_CHARS = 16_384

/** What does not change as a conversation goes on: its instructions and its first question. */
export function toAffinity(messages: readonly Message[]): string {
  let text = ''
  for (const message of messages) {
    const { role } = message
    if (role === 'system' || role === 'developer' || role === 'user') text += `${role}\n${textOf(message)}\n`
    if (role === 'user') break
  }
  return text
}

function textOf({ content }: Message): string {
  const text = typeof content === 'string' ? content : (content ?? []).map(toMark).join('\n')
  return text.length > MAX_CHARS ? text.slice(0, MAX_CHARS) : text
}

type Part = Exclude<Message['content'], string | null | undefined>[number]

/** Of an image its end, in which two that begin alike differ. */
function toMark(part: Part): string {
  if (part.type === 'text') return part.text
  return part.type === 'image_url' ? part.image_url.url.slice(-256) : part.type
}
