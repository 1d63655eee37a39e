/** Passthrough of generateContent requests and responses. */
import type { AnswerEvent } from '../../../domain/events.ts'
import { toPlainName } from '../../../domain/fields.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import { type Edits, findMembers, splice } from '../../../domain/json-text.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { PassthroughRequest } from '../../../domain/task.ts'
import type { PassthroughFormat, WireRequest } from '../dialect.ts'
import { isSinceGemini3 } from '../dialects.ts'
import { toCapEdit, toOwnFields, toPassthroughReaders, toPassthroughText } from '../passthrough.ts'
import { decodeReasoning, SIGNATURE_PREFIX, toReasoningIssuer, toState } from '../reasoning-state.ts'
import { NONE_TO_HAND, signatureBy } from './conversation.ts'
import { AnswerDecoder } from './decoder.ts'
import { toMethodPath } from './request.ts'

const OWN = toOwnFields(
  'contents systemInstruction system_instruction tools toolConfig tool_config generationConfig generation_config safetySettings safety_settings cachedContent cached_content serviceTier service_tier',
)

/** Fields that limit the output, on which the reservation is based. */
const COUNTED: ReadonlySet<string> = new Set(['maxoutputtokens', 'candidatecount'])
const COUNTED_NAMES: ReadonlySet<string> = new Set([
  ...['maxOutputTokens', 'max_output_tokens', 'candidateCount', 'candidate_count'],
])

export const generate: PassthroughFormat = {
  request: toRequest,

  ...toPassthroughReaders(
    (expected) => new AnswerDecoder(expected),
    (inner) =>
      ({ data }, read) => ({ origin: '', isTail: inner.isComplete, isContent: isUnparsed(data, read) }),
  ),
}

/** True for output of Google's own tools, for which there are no canonical events. */
const isUnparsed = (data: string, read: readonly AnswerEvent[]) =>
  (data.includes('"executableCode"') || data.includes('"codeExecutionResult"')) &&
  read.every(({ kind }) => kind === 'usage')

function toRequest(passthrough: PassthroughRequest, body: CanonicalRequest, target: Target): WireRequest {
  const { text, json } = passthrough
  const edits: Record<string, string | null> = { model: null, ...toConfigEdit(passthrough, body) }
  if (text.includes(SIGNATURE_PREFIX)) edits.contents = JSON.stringify(withSignatures(json.contents, target))
  return { path: toMethodPath(target, body.stream === true), body: toPassthroughText(passthrough, target, OWN, edits) }
}

/** Sets the cap, and removes its other spellings. */
function toConfigEdit(passthrough: PassthroughRequest, body: CanonicalRequest): Edits {
  const { text, json } = passthrough
  const name = 'generation_config' in json ? 'generation_config' : 'generationConfig'
  const config = asObject(json[name]) ?? {}
  const capName = 'max_output_tokens' in config ? 'max_output_tokens' : 'maxOutputTokens'
  const edits: Record<string, string | null> = toCapEdit({ ...passthrough, json: config }, body, capName)
  for (const each in config) if (COUNTED.has(toPlainName(each)) && !COUNTED_NAMES.has(each)) edits[each] = null
  if (Object.keys(edits).length === 0) return {}
  const held = asObject(json[name]) && findMembers(text)?.findLast((member) => member.name === name)
  return { [name]: splice(held ? text.slice(held.from, held.to) : '{}', edits) }
}

/** Decodes Tollgate's signatures for the upstream that issued them, and removes them for all others. */
const withSignatures = (contents: unknown, target: Target): unknown =>
  asList(contents).map((each) => {
    const content = asObject(each)
    return (
      content && { ...content, parts: asList(content.parts).map((part) => withSignature(asObject(part) ?? {}, target)) }
    )
  })

function withSignature(part: JsonObject, target: Target): JsonObject {
  const name = 'thought_signature' in part ? 'thought_signature' : 'thoughtSignature'
  const state = toState(asText(part[name]))
  if (state === null) return part
  const { [name]: _, ...rest } = part
  const signature = signatureBy(decodeReasoning(state, '')?.details ?? [], toReasoningIssuer(target))
  if (signature !== '') return { ...rest, [name]: signature }
  const isCall = 'functionCall' in part || 'function_call' in part
  return isCall && isSinceGemini3(target) ? { ...rest, [name]: NONE_TO_HAND } : rest
}
