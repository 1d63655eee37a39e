/**
 * What a request that goes on as it came holds beyond its canonical form, by which it is estimated and counted: its upstream may
 * read it all the same, and charge for it. Kept beside the messages, which every copy of a request shares. Pure.
 */
import { asList, asObject, asText } from '../domain/json.ts'
import type { CanonicalRequest } from '../domain/request.ts'

type Messages = CanonicalRequest['messages']

const unread = new WeakMap<Messages, number>()

/** Notes how many bytes there are, by the text that the request came as, and returns that. */
export function noteUnread(body: CanonicalRequest, text: string): number {
  const read = bytesOfJson(body) - repeatedBytes(body)
  const bytes = Math.max(0, Buffer.byteLength(text) - read)
  unread.set(body.messages, bytes)
  return bytes
}

const bytesOfJson = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '')

/** What the canonical form says more often than its client, behind which as much could be hidden: thoughts, and escapes of arguments. */
function repeatedBytes({ messages }: CanonicalRequest): number {
  let bytes = 0
  for (const message of messages) {
    if (message.role !== 'assistant') continue
    const { reasoning, reasoning_content: again, reasoning_details: details, tool_calls: calls } = message
    const texts = asList(details).map((detail) => asText(asObject(detail)?.text))
    if (reasoning) for (const text of [asText(again), ...texts]) if (text !== '') bytes += bytesOfJson(text)
    for (const call of calls ?? [])
      if (call.type === 'function') {
        const { arguments: json } = call.function
        bytes += bytesOfJson(json) - Buffer.byteLength(json)
      }
  }
  return bytes
}

export const unreadBytes = ({ messages }: Pick<CanonicalRequest, 'messages'>): number => unread.get(messages) ?? 0
