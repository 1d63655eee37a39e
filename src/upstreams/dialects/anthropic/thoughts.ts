/**
 * What a model thought, between its own blocks and `reasoning_details` as OpenRouter writes them: the signature of a thought
 * and what was redacted must come back unchanged, or the API refuses the request. What another vendor's model thought is left
 * out, and so is what another upstream has signed: signatures mean nothing elsewhere. Pure.
 */
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { ThoughtBlock } from './wire.ts'

/** Whose thoughts they are; the same word as other gateways have. */
export const FORMAT = 'anthropic-claude-v1'
const OURS = 'anthropic'

/**
 * Reads thoughts back, whole or in the pieces in which a stream sent them.
 * @param signer to whom they go (`toSigner`).
 */
export function toThoughts(details: readonly unknown[], signer: string): ThoughtBlock[] {
  const joined: JsonObject[] = []
  /** Texts that no signature has ended yet, by their index, and under null the one before: clients send any number of them. */
  const open = new Map<unknown, JsonObject>()
  for (const value of details) {
    const detail = asObject(value)
    if (!detail) continue
    const isText = detail.type === 'reasoning.text'
    const index = Number.isInteger(detail.index) ? detail.index : null
    const before = isText ? open.get(index) : undefined
    const goesOn = before !== undefined && isSame(before, detail)
    const into = goesOn ? before : { ...detail }
    if (goesOn) join(into, detail)
    else joined.push(into)
    if (isText) for (const place of [index, null]) into.signature ? open.delete(place) : open.set(place, into)
  }
  return joined.filter((detail) => (detail.signer ?? signer) === signer).flatMap(toBlock)
}

/** Whether a text goes on where another of its place was, which a signature ends. */
const isSame = (before: JsonObject, { format }: JsonObject): boolean =>
  !before.signature && (!format || !before.format || format === before.format)

function join(into: JsonObject, { text, signature, format, signer }: JsonObject): void {
  into.text = asText(into.text) + asText(text)
  into.signature = asText(into.signature) + asText(signature)
  into.format ??= format
  into.signer ??= signer
}

function toBlock({ type, format, text, signature, data }: JsonObject): ThoughtBlock[] {
  if (!asText(format).startsWith(OURS)) return []
  if (type === 'reasoning.encrypted' && asText(data) !== '') return [{ type: 'redacted_thinking', data: asText(data) }]
  if (type !== 'reasoning.text' || asText(signature) === '') return []
  return [{ type: 'thinking', thinking: asText(text), signature: asText(signature) }]
}
