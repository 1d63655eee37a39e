/**
 * What a model thought, between items of reasoning and `reasoning_details`. What must come back unchanged travels in
 * `encrypted_content`; a summary is the text of the thoughts themselves, for nobody here writes another one. Pure.
 */
import { asObject, asText, type JsonObject } from '../../domain/json.ts'
import { seal, unseal } from '../../domain/sealed-thoughts.ts'
import type { Item } from './schema.ts'

export interface Thought {
  text: string
  /** Items of `reasoning_details`. */
  details: object[]
}

/** Reads an item of reasoning that a client sends back. Of what others have encrypted, what can be read is left. */
export function toThought({
  encrypted_content: sealed,
  content,
  summary,
}: Extract<Item, { type: 'reasoning' }>): Thought {
  const shown = toWords(summary, '')
  const details = (sealed ? unseal(sealed, shown) : null) ?? []
  const own = details.map((each) => asText(asObject(each)?.text)).join('')
  return { text: own || toWords(content) || toWords(summary), details: details.filter((each) => !isBare(each)) }
}

const toWords = (parts: readonly { text: string }[] | null | undefined, between = '\n\n') =>
  (parts ?? []).map(({ text }) => text).join(between)

const TEXT = 'reasoning.text'

/** A thought in words that nobody has signed: to any model, that is its text alone. */
const isBare = (detail: object): boolean => {
  const { type, format, signature, signer } = detail as JsonObject
  return type === TEXT && !format && !signature && !signer
}

/**
 * What a client is to send back of a thought, as it came in pieces; null where there is nothing to be known again by.
 * @param shown what it is sent of the thought as a summary.
 */
export function toSealed({ text, details }: Thought, shown: string): string | null {
  const hasText = details.some((each) => asText(asObject(each)?.text) !== '')
  const all = text !== '' && !hasText ? [{ type: TEXT, text, index: 0 }, ...details] : details
  return all.length === 0 ? null : seal(all, shown)
}
