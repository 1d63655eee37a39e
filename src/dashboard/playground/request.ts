/** The thread as the body of a chat request. Pure. */
import { type Answer, type Call, hasContent, type Round, type Side, type Thread } from './thread.ts'

/** What the gateway takes. */
const MOST_BODY_BYTES = 32 * 1024 ** 2
/** As much becomes four thirds of it on its way into text. */
const MOST_PICTURE_BYTES = 23 * 1024 ** 2
/** Which pictures models take. */
export const PICTURE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']

type Message = Record<string, unknown>

/** @param before an answer: only what stands before it is said; null for all of it. */
export function toMessages(system: string, thread: Thread, side: Side, before: number | null = null): Message[] {
  const messages: Message[] = system.trim() === '' ? [] : [{ role: 'system', content: system }]
  for (const round of thread) {
    messages.push(toQuestion(round))
    for (const answer of round.answers[side]) {
      if (answer.id === before) return messages
      if (hasContent(answer)) messages.push(...toAnswer(answer))
    }
  }
  return messages
}

function toQuestion({ text, pictures }: Pick<Round, 'text' | 'pictures'>): Message {
  if (pictures.length === 0) return { role: 'user', content: text }
  const parts = pictures.map(({ url }) => ({ type: 'image_url', image_url: { url } }))
  return { role: 'user', content: [...(text === '' ? [] : [{ type: 'text', text }]), ...parts] }
}

function toAnswer({ text, reasoning, refusal, calls, state }: Answer): Message[] {
  const isCalling = calls.length > 0 && state === 'done'
  const message: Message = { role: 'assistant', content: text === '' && (isCalling || refusal !== '') ? null : text }
  if (refusal !== '') message.refusal = refusal
  if (!isCalling) return [message]
  message.tool_calls = calls.map(toCall)
  // Some models go on thinking where they were, once their tools have answered.
  if (reasoning !== '') message.reasoning_content = reasoning
  return [message, ...calls.map(({ id, result }) => ({ role: 'tool', tool_call_id: id, content: result ?? '' }))]
}

const toCall = ({ id, kind, name, input }: Call): object =>
  kind === 'custom'
    ? { id, type: kind, custom: { name, input } }
    : { id, type: kind, function: { name, arguments: input } }

export const toBody = (model: string, messages: readonly Message[], fields: Readonly<Record<string, unknown>>) => ({
  ...{ model, messages, stream: true, stream_options: { include_usage: true } },
  ...fields,
})

/** The request as somebody would make it who goes on from here: with what is being typed, or else the one that was asked last. */
export function toCodeBody(
  model: string,
  { system, thread, side }: { system: string; thread: Thread; side: Side },
  draft: Pick<Round, 'text' | 'pictures'>,
  fields: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const messages = toMessages(system, thread, side)
  const isTyping = draft.text.trim() !== '' || draft.pictures.length > 0
  if (isTyping) messages.push(toQuestion(draft))
  while (messages.at(-1)?.role === 'assistant') messages.pop()
  if (!messages.some(({ role }) => role !== 'system')) messages.push({ role: 'user', content: 'Hello' })
  return { model, messages, stream: true, ...fields }
}

/** Why a file is no picture for a model; null where it is one. */
export function checkPicture({ name, type, size }: { name: string; type: string; size: number }): string | null {
  if (!PICTURE_TYPES.includes(type)) return `${name} is no picture that models take: PNG, JPEG, WebP or GIF.`
  if (size <= MOST_PICTURE_BYTES) return null
  return `${name} has ${Math.ceil(size / 1024 ** 2)} MB, and a request has room for 23 MB of pictures. Make it smaller.`
}

/** Why a body is not even sent; null where it may be. */
export function toTooLong(json: string): string | null {
  // No character takes fewer bytes than one.
  const bytes = json.length > MOST_BODY_BYTES ? json.length : new TextEncoder().encode(json).length
  if (bytes <= MOST_BODY_BYTES) return null
  return `This request has ${Math.ceil(bytes / 1024 ** 2)} MB, and 32 MB is the most that is taken. Remove pictures or text.`
}
