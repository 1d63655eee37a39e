/**
 * The output cap of a request that has none, which the API wants: as much as the model writes, but no more than its context has
 * room for beside the prompt, for models before Claude 4.5 refuse a request whose prompt and cap together are too long. Pure.
 */
import type { Target } from '../../../domain/snapshot.ts'
import type { Block, TextBlock, Turn, WireTool } from './wire.ts'

/** UTF-8 bytes of words for a token, at least: what is estimated is rather too much. */
const BYTES_PER_TOKEN = 3
/** About what an image of the largest size has. */
const IMAGE_TOKENS = 1_600
/** However long the prompt is: the estimate may be wrong, and the API says best what does not fit. */
const LEAST = 4_096

interface Prompt {
  system: readonly TextBlock[]
  turns: readonly Turn[]
  tools: readonly WireTool[]
}

export function toCap({ system, turns, tools }: Prompt, { contextLength, maxOutputLength }: Target): number {
  if (maxOutputLength <= LEAST) return maxOutputLength
  const all = [...system, ...turns.flatMap(({ content }) => content)]
  const bytes = all.reduce((sum, block) => sum + bytesOf(block), Buffer.byteLength(JSON.stringify(tools)))
  const room = contextLength - Math.ceil(bytes / BYTES_PER_TOKEN)
  return Math.min(maxOutputLength, Math.max(LEAST, room))
}

function bytesOf(block: Block): number {
  switch (block.type) {
    case 'text':
      return Buffer.byteLength(block.text)
    case 'thinking':
      return Buffer.byteLength(block.thinking)
    case 'tool_use':
      return Buffer.byteLength(JSON.stringify(block.input))
    case 'tool_result': {
      const { content = [] } = block
      if (typeof content === 'string') return Buffer.byteLength(content)
      return content.reduce((sum, each) => sum + bytesOf(each), 0)
    }
    case 'search_result':
      return block.content.reduce((sum, each) => sum + bytesOf(each), 0)
    case 'document':
      return block.source.type === 'text' ? Buffer.byteLength(block.source.data) : 0
    case 'image':
      return IMAGE_TOKENS * BYTES_PER_TOKEN
    case 'redacted_thinking':
      return 0
  }
}
