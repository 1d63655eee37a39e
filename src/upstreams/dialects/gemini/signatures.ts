/**
 * Thought signatures: what a Gemini model needs to see of an answer of its own to know its thoughts again. They travel with the
 * answer, as `reasoning_details`, and come back with it; nothing of them is kept here. From Gemini 3 on each step of the
 * current turn that calls functions is refused without one, on its first call
 * (ai.google.dev/gemini-api/docs/thought-signatures). Pure.
 */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { AssistantMessage } from '../../../domain/request.ts'
import type { Content } from './wire.ts'

const TYPE = 'reasoning.encrypted'
const FORMAT = 'google-gemini-v1'

/** What Google has a client send that has no signature: one that dropped it, or a history that another vendor has written. */
const NONE_TO_HAND = 'skip_thought_signature_validator'

/** An item of `reasoning_details` that carries a signature: of the call with that id, or of the text. */
export const toDetail = (signature: string, signer: string, index: number, callId: string | null): object => ({
  type: TYPE,
  data: signature,
  ...(callId === null ? {} : { id: callId }),
  format: FORMAT,
  signer,
  index,
})

/** A signature as it hangs on something in the way of Google's own OpenAI endpoint. */
export const toExtra = (signature: string, signer: string) => ({
  extra_content: { google: { thought_signature: signature, signer } },
})

/** Reads that back; '' where there is none that this signer knows. */
export function extraSignature(value: unknown, signer: string): string {
  const google = asObject(asObject(asObject(value)?.extra_content)?.google)
  return google && isBy(google, signer) ? asText(google.thought_signature) : ''
}

const isBy = (item: JsonObject, signer: string) => item.signer === undefined || item.signer === signer

export interface Signatures {
  /** Of the text; '' where there is none. */
  text: string
  /** By the ids of the calls. */
  calls: ReadonlyMap<string, string>
}

/** Reads the signatures that a client sends back with an answer. Those of other vendors, and of others here, are none. */
export function readSignatures(message: AssistantMessage, signer: string): Signatures {
  const { reasoning_details: details, tool_calls: calls } = message
  const byCall = new Map<string, string>()
  let text = ''
  for (const each of asList(details)) {
    const item = asObject(each)
    if (item?.type !== TYPE || item.format !== FORMAT || !isBy(item, signer)) continue
    const id = asText(item.id)
    if (id === '') text = asText(item.data) || text
    else byCall.set(id, asText(item.data))
  }
  for (const call of calls ?? []) {
    const signature = extraSignature(call, signer)
    if (signature !== '' && !byCall.has(call.id)) byCall.set(call.id, signature)
  }
  return { text, calls: byCall }
}

/** Puts the sentinel on the first call of each step of the current turn that has no signature. Changes `contents`. */
export function signCurrentTurn(contents: Content[]): void {
  for (const { role, parts } of contents.slice(currentTurn(contents))) {
    if (role !== 'model') continue
    const first = parts.find((part) => part.functionCall)
    if (first) first.thoughtSignature ??= NONE_TO_HAND
  }
}

/** The turn begins with the last content of a user that says more than what functions have answered. */
const currentTurn = (contents: readonly Content[]) =>
  Math.max(
    0,
    contents.findLastIndex(({ role, parts }) => role === 'user' && parts.some((part) => !part.functionResponse)),
  )
