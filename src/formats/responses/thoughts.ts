/**
 * What a model thought, between items of reasoning and `reasoning_details`. What must come back unchanged travels in
 * `encrypted_content`; a summary is the text of the thoughts themselves, for nobody here writes another one. Pure.
 */
import { decodeThought, type Thought } from '../../upstreams/dialects/thought-state.ts'
import type { Item } from './schema.ts'

/** Reads an item of reasoning that a client sends back. Of what others have encrypted, what can be read is left. */
export function toThought({
  encrypted_content: sealed,
  content,
  summary,
}: Extract<Item, { type: 'reasoning' }>): Thought {
  const own = sealed ? decodeThought(sealed, toWords(summary, '')) : null
  return { text: own?.text || toWords(content) || toWords(summary), details: own?.details ?? [] }
}

const toWords = (parts: readonly { text: string }[] | null | undefined, between = '\n\n') =>
  (parts ?? []).map(({ text }) => text).join(between)
