/** Requests of the Messages API that go on as they came, and their answers. Pure. */
import type { AnswerEvent } from '../../../domain/events.ts'
import { asObject } from '../../../domain/json.ts'
import { toCapEdit, toNativeHeader, toNativeText, toOwnFields } from '../../../domain/native.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { Edits } from '../../../domain/splice.ts'
import type { NativeRequest } from '../../../domain/task.ts'
import type { NativeLane, WireRequest } from '../../backend.ts'
import type { SseEvent } from '../../sse.ts'
import { PassingDecoder, type Told, toRaw, typeOf } from '../passing.ts'
import { PlainDeltas } from '../plain-deltas.ts'
import { toSigner } from '../signer.ts'
import { AnswerDecoder } from './decoder.ts'
import { isVertex, toMessagesPath, VERTEX_VERSION } from './hosts.ts'
import { unsealMessages } from './unseal.ts'

const OWN = toOwnFields(
  'model messages max_tokens system metadata stop_sequences stream temperature top_k top_p tools tool_choice thinking output_config cache_control context_management service_tier container',
)

/** A piece of text as the API writes it: it puts blanks into the JSON. */
const TEXT = new PlainDeltas({
  before:
    /event: content_block_delta\ndata: \{"type":"content_block_delta","index":\d{1,6},"delta":\{"type":"text_delta","text":"/y,
  after: /"\} {0,64}\} {0,64}\n\n/y,
})

export const messages: NativeLane = {
  request: toRequest,

  whole: (json, expected, text = JSON.stringify(json)) => [
    toRaw(null, text, { origin: '' }),
    ...new AnswerDecoder(expected).whole(asObject(json) ?? {}),
  ],

  decoder(expected) {
    let isBegun = false
    const inner = new AnswerDecoder(expected)
    const tellOf = (event: SseEvent, read: readonly AnswerEvent[]) => {
      const type = typeOf(event)
      if (type !== 'message_start') return tell(type, event, read)
      // Some repeat it, which clients take for another answer.
      if (isBegun) return null
      isBegun = true
      return { origin: 'message' }
    }
    return new PassingDecoder(inner, tellOf, TEXT)
  },
}

function toRequest(native: NativeRequest, body: CanonicalRequest, target: Target): WireRequest {
  const { upstream } = target
  const edits: Record<string, string | null> = toCapEdit(native, body, 'max_tokens')
  const unsealed = unsealMessages(native, toSigner(target))
  if (unsealed !== null) edits.messages = unsealed
  const ofHost: Edits = isVertex(upstream) ? { model: null, anthropic_version: JSON.stringify(VERTEX_VERSION) } : {}
  return {
    path: toMessagesPath(target, body.stream === true),
    body: toNativeText(native, target, OWN, { ...edits, ...ofHost }),
    headers: toHeaders(native, target),
  }
}

/** The client's own version and betas, and those that the upstream is always asked for. */
function toHeaders(native: NativeRequest, { upstream }: Target): Record<string, string> {
  const headers: Record<string, string> = {}
  const version = toNativeHeader(native, 'anthropic-version')
  if (version !== null && !isVertex(upstream)) headers['anthropic-version'] = version
  const betas = toNativeHeader(native, 'anthropic-beta')
  if (betas !== null)
    headers['anthropic-beta'] = [...new Set([...betas.split(/[, ]+/), ...(upstream.options.betas ?? [])])]
      .filter((beta) => beta !== '')
      .join(',')
  return headers
}

/** Blocks of words begin without any, and so does a thought: the others are all there, or work at the provider has begun. */
const OF_WORDS = /"content_block"\s*:\s*\{\s*"type"\s*:\s*"(?:text|thinking)"/

function tell(type: string, { data }: SseEvent, read: readonly AnswerEvent[]): Told {
  if (read.at(-1)?.kind === 'done') return { isTail: true }
  return {
    isContent: type === 'content_block_start' && read.every(({ kind }) => kind === 'working') && !OF_WORDS.test(data),
  }
}
