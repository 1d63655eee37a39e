/** Passthrough of Messages API requests and responses. */
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject, asText } from '../../../domain/json.ts'
import { type Edits, findMembers, spliceItems } from '../../../domain/json-text.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { PassthroughRequest } from '../../../domain/task.ts'
import type { SseEvent } from '../../framing.ts'
import type { PassthroughFormat, WireRequest } from '../dialect.ts'
import {
  PlainDeltas,
  type RawFlags,
  toCapEdit,
  toOwnFields,
  toPassthroughHeader,
  toPassthroughReaders,
  toPassthroughText,
  typeOf,
} from '../passthrough.ts'
import { decodeState, isEncodedState, toReasoningIssuer } from '../reasoning-state.ts'
import { isVertex, toMessagesPath, VERTEX_VERSION } from './anthropic.ts'
import { toThoughts } from './conversation.ts'
import { AnswerDecoder } from './decoder.ts'

const OWN = toOwnFields(
  'model messages max_tokens system metadata stop_sequences stream temperature top_k top_p tools tool_choice thinking output_config cache_control context_management service_tier container',
)

/** A text delta; the API's JSON contains blanks. */
const TEXT = new PlainDeltas({
  before:
    /event: content_block_delta\ndata: \{"type":"content_block_delta","index":\d{1,6},"delta":\{"type":"text_delta","text":"/y,
  after: /"\} {0,64}\} {0,64}\n\n/y,
})

export const messages: PassthroughFormat = {
  request: toRequest,

  ...toPassthroughReaders(
    (expected) => new AnswerDecoder(expected),
    () => {
      let isBegun = false
      return (event, read) => {
        const type = typeOf(event)
        if (type !== 'message_start') return tell(type, event, read)
        // Some servers repeat `message_start`, which clients would take for another response.
        if (isBegun) return null
        isBegun = true
        return { origin: 'message' }
      }
    },
    TEXT,
  ),
}

function toRequest(passthrough: PassthroughRequest, body: CanonicalRequest, target: Target): WireRequest {
  const { upstream } = target
  const edits: Record<string, string | null> = toCapEdit(passthrough, body, 'max_tokens')
  const decoded = decodeMessages(passthrough, toReasoningIssuer(target))
  if (decoded !== null) edits.messages = decoded
  const ofHost: Edits = isVertex(upstream) ? { model: null, anthropic_version: JSON.stringify(VERTEX_VERSION) } : {}
  return {
    path: toMessagesPath(target, body.stream === true),
    body: toPassthroughText(passthrough, target, OWN, { ...edits, ...ofHost }),
    headers: toHeaders(passthrough, target),
  }
}

/** The client's version and betas, plus the upstream's configured betas. */
function toHeaders(passthrough: PassthroughRequest, { upstream }: Target): Record<string, string> {
  const headers: Record<string, string> = {}
  const version = toPassthroughHeader(passthrough, 'anthropic-version')
  if (version !== null && !isVertex(upstream)) headers['anthropic-version'] = version
  const betas = toPassthroughHeader(passthrough, 'anthropic-beta')
  if (betas !== null)
    headers['anthropic-beta'] = [...new Set([...betas.split(/[, ]+/), ...(upstream.options.betas ?? [])])]
      .filter((beta) => beta !== '')
      .join(',')
  return headers
}

/** Text and thinking blocks start empty; other blocks are complete or mean that server-side work has begun. */
const OF_WORDS = /"content_block"\s*:\s*\{\s*"type"\s*:\s*"(?:text|thinking)"/

function tell(type: string, { data }: SseEvent, read: readonly AnswerEvent[]): RawFlags {
  if (read.at(-1)?.kind === 'done') return { isTail: true }
  return {
    isContent: type === 'content_block_start' && read.every(({ kind }) => kind === 'working') && !OF_WORDS.test(data),
  }
}

/** Decodes reasoning state in passthrough requests: restored for the upstream that signed it, and removed for any other. */
/** The text of `messages`, if any contains encoded state; else null. */
function decodeMessages({ text, json }: PassthroughRequest, signer: string): string | null {
  const messages = asList(json.messages)
  const held = messages.some(hasState) && findMembers(text)?.findLast(({ name }) => name === 'messages')
  if (!held) return null
  return spliceItems(text, held.from, (message, at) =>
    hasState(messages[at]) ? decodeOne(message, messages[at], signer) : null,
  )
}

const hasState = (message: unknown): boolean =>
  asList(asObject(message)?.content).some((block) => stateIn(block) !== '')

function stateIn(value: unknown): string {
  const block = asObject(value)
  const held = block?.type === 'thinking' ? block.signature : block?.type === 'redacted_thinking' ? block.data : ''
  return isEncodedState(asText(held)) ? asText(held) : ''
}

function decodeOne(message: string, value: unknown, signer: string): readonly string[] {
  const blocks = asList(asObject(value)?.content)
  const held = findMembers(message)?.findLast(({ name }) => name === 'content')
  if (!held) return [message]
  const content = spliceItems(message, held.from, (_, at) => {
    const state = stateIn(blocks[at])
    if (state === '') return null
    const details = decodeState(state, asText(asObject(blocks[at])?.thinking)) ?? []
    return toThoughts(details, signer).map((block) => JSON.stringify(block))
  })
  if (content === null || content === '[]') return []
  return [message.slice(0, held.from) + content + message.slice(held.to)]
}
