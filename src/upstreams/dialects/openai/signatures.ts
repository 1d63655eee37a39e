/**
 * Thought signatures of Gemini models behind Google's OpenAI format, where they hang on the calls of tools, as
 * `extra_content.google.thought_signature`; without them a model since Gemini 3 refuses its own calls
 * (ai.google.dev/gemini-api/docs/thought-signatures, "OpenAI compatibility"). To clients they are items of `reasoning_details`, as
 * those of Google's own format are, and go back from there to where they were. Pure.
 */
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { AssistantMessage } from '../../../domain/request.ts'

/** Under whose name it may stand; the latter at some gateways before Vertex (github.com/earendil-works/pi/issues/6733). */
const PLACES = ['google', 'vertex'] as const

const TYPE = 'reasoning.encrypted'

/** Items for a call that carries a signature; `extra_content` in one says where it stood. @param id of the call. */
export function toDetails(extra: JsonObject, id: string, signer: string): JsonObject[] {
  return PLACES.flatMap((place) => {
    const data = asText(asObject(extra[place])?.thought_signature)
    if (data === '' || !data.isWellFormed()) return []
    return { type: TYPE, data, id, format: 'google-gemini-v1', signer, extra_content: place }
  })
}

/** Takes such items, which are this upstream's own, out of a message, and hangs what they hold on its calls. */
export function withSignatures(message: AssistantMessage): AssistantMessage {
  const byCall = new Map<string, JsonObject>()
  const rest = (message.reasoning_details ?? []).filter((detail) => {
    const { extra_content: place, id, data } = asObject(detail) ?? {}
    if (!PLACES.some((one) => one === place)) return true
    byCall.set(asText(id), { [asText(place)]: { thought_signature: data } })
    return false
  })
  if (byCall.size === 0) return message
  const { reasoning_details: _, ...bare } = message
  // What a client has hung there itself stays.
  const calls = message.tool_calls?.map((call) => {
    const extra_content = byCall.get(call.id)
    return extra_content && !('extra_content' in call) ? { ...call, extra_content } : call
  })
  return { ...bare, ...(rest.length > 0 ? { reasoning_details: rest } : {}), ...(calls ? { tool_calls: calls } : {}) }
}
