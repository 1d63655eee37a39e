/**
 * What a model thought, as it comes back from a client: blocks that were sealed here are the details of whichever vendor thought
 * them; what has another signature was thought by Claude, outside of this server. Dialects leave out what is not their vendor's. Pure.
 */
import {
  decodeState,
  decodeThought,
  isEncodedState,
  type Thought as Sealed,
} from '../../upstreams/dialects/thought-state.ts'
import type { Block } from './schema.ts'

type Thought = Extract<Block, { type: 'thinking' | 'redacted_thinking' }>

/** Whose thoughts they are, in the word that gateways have for it. */
const CLAUDE = 'anthropic-claude-v1'

/** What an assistant's message has of its thoughts; nothing where there are none. */
export function toReasoning(blocks: readonly Thought[]): {
  reasoning?: string
  reasoning_content?: string
  reasoning_details?: object[]
} {
  let text = ''
  const details: object[] = []
  for (const block of blocks) {
    const found = block.type === 'thinking' ? toShown(block, details.length) : toRedacted(block.data, details.length)
    if (found === null) continue
    details.push(...found.details)
    text += found.text
  }
  return {
    // Upstreams know one name or the other.
    ...(text === '' ? {} : { reasoning: text, reasoning_content: text }),
    ...(details.length === 0 ? {} : { reasoning_details: details }),
  }
}

/** Null for one that says it was sealed here, and was not: nothing is known of it. */
function toShown({ thinking, signature }: Thought & { type: 'thinking' }, index: number): Sealed | null {
  const text = thinking ?? ''
  if (!signature) return { text, details: [] }
  if (!isEncodedState(signature))
    return { text, details: [{ type: 'reasoning.text', text, signature, format: CLAUDE, index }] }
  const details = decodeState(signature, text)
  return details && { text, details }
}

const toRedacted = (data: string, index: number): Sealed | null =>
  isEncodedState(data)
    ? decodeThought(data, '')
    : { text: '', details: [{ type: 'reasoning.encrypted', data, format: CLAUDE, index }] }
