/**
 * A mix of all client requests, at a steady rate: memory must not depend on its duration. One connection pool, in this
 * process.
 */
import { toChatBody, toLargeChatBody } from './json-load.ts'
import type { Subject } from './subjects.ts'

export interface MixedResult {
  requests: number
  ok: number
  firstError: string | null
}

interface Kind {
  /** Out of 100 requests. */
  share: number
  body(model: string): string
  /** Disconnects after this many reads. */
  reads?: number
}

const MEGABYTE = 'One of a hundred thousand words in a document that a client attaches whole. '.repeat(13_500)

const KINDS: readonly Kind[] = [
  { share: 57, body: (model) => toChatBody(model) },
  { share: 20, body: (model) => toChatBody(model, { stream: true, max_tokens: 40, pace_ms: 20 }) },
  { share: 10, body: toLargeChatBody },
  { share: 5, body: (model) => toChatBody(model, { answer_tokens: 20_000 }) },
  { share: 2, body: (model) => toChatBody(model, { messages: [{ role: 'user', content: MEGABYTE }] }) },
  { share: 1, body: (model) => toChatBody(model, { stream: true, max_tokens: 1_000, pace_ms: 2 }) },
  { share: 5, body: (model) => toChatBody(model, { stream: true, max_tokens: 200, pace_ms: 20 }), reads: 10 },
]

const DEAL = 37

/** Waits for the last responses. Never throws for the server's failures. */
export async function loadMixed(subject: Subject, seconds: number, perSecond: number): Promise<MixedResult> {
  const deck = KINDS.flatMap(({ share, body, reads = Number.POSITIVE_INFINITY }) =>
    Array.from({ length: share }, () => ({ body: body(subject.model), reads })),
  )
  const result: MixedResult = { requests: 0, ok: 0, firstError: null }
  const under = new Set<Promise<void>>()
  const began = performance.now()
  for (let atMs = 0; atMs < seconds * 1_000; atMs = performance.now() - began) {
    while (result.requests < (atMs * perSecond) / 1_000) {
      // A step that has no common divisor with the deck's size deals every card once, in mixed order.
      const card = deck[(result.requests++ * DEAL) % deck.length]
      if (card === undefined) break
      const asking: Promise<void> = ask(subject, card.body, card.reads)
        .then(
          () => {
            result.ok += 1
          },
          (error) => {
            result.firstError ??= String(error).slice(0, 400)
          },
        )
        .finally(() => under.delete(asking))
      under.add(asking)
    }
    await Bun.sleep(5)
  }
  await Promise.all(under)
  return result
}

async function ask(subject: Subject, body: string, reads: number): Promise<void> {
  const client = new AbortController()
  const response = await fetch(`${subject.origin}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${subject.key}` },
    body,
    signal: client.signal,
  })
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
  if (reads === Number.POSITIVE_INFINITY) {
    await response.arrayBuffer()
    return
  }
  const reader = response.body?.getReader()
  for (let read = 0; read < reads; read++) await reader?.read()
  client.abort()
}
