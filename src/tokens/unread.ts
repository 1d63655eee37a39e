/**
 * What a request that goes on as it came holds beyond its canonical form, by which it is estimated and counted: its upstream may
 * read it all the same, and charge for it. Kept beside the messages, which every copy of a request shares. Pure.
 */
import type { CanonicalRequest } from '../domain/request.ts'

type Messages = CanonicalRequest['messages']

const unread = new WeakMap<Messages, number>()

/** Notes how many bytes there are, by the text that the request came as, and returns that. */
export function noteUnread(body: CanonicalRequest, text: string): number {
  const bytes = Math.max(0, Buffer.byteLength(text) - Buffer.byteLength(JSON.stringify(body)))
  unread.set(body.messages, bytes)
  return bytes
}

export const unreadBytes = ({ messages }: Pick<CanonicalRequest, 'messages'>): number => unread.get(messages) ?? 0
