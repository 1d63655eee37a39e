/**
 * A conversation as turns. Instructions that begin it stand apart; all results of one turn's tools open the user turn that
 * follows it; turns of one role are one; nothing blank is said. The API refuses whatever is otherwise. Pure.
 */
import { asObject } from '../../../domain/json.ts'
import type { AssistantMessage, Message } from '../../../domain/request.ts'
import { ANTHROPIC_IDS, ToolIds } from '../tool-ids.ts'
import { markLast, toCacheControl } from './cache.ts'
import { toSaid, toTextBlocks, toTexts } from './content.ts'
import { toThoughts } from './thoughts.ts'
import type { Block, TextBlock, ToolResultBlock, ToolUseBlock, Turn } from './wire.ts'

export interface Conversation {
  system: TextBlock[]
  turns: Turn[]
}

/** What is said where nobody says anything: the API takes no conversation without words of a user at its beginning. */
const NOTHING = '.'

/** For whom a conversation is written. */
export interface Reader {
  /** Whether it takes instructions later on in turns of their own. */
  keepsSystem: boolean
  /** Who knows what it has signed (`toSigner`). */
  signer: string
}

export function toConversation(messages: readonly Message[], { keepsSystem, signer }: Reader): Conversation {
  const begins = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  const leading = messages.slice(0, begins === -1 ? messages.length : begins)
  const system = leading.flatMap((message, index) =>
    marked(message, toTextBlocks(message.content, `messages[${index}].content`)),
  )
  const turns: Turn[] = []
  const before: Before = { call: null, signer, ids: new ToolIds(ANTHROPIC_IDS, messages) }
  for (let index = leading.length; index < messages.length; index++) {
    const message = messages[index] as Message
    const role = toRole(message, keepsSystem)
    const blocks = marked(message, toBlocks(message, index, before, role))
    const last = turns.at(-1)
    if (blocks.length === 0) continue
    if (last?.role === role) last.content.push(...blocks)
    else turns.push({ role, content: blocks })
  }
  if (turns[0]?.role !== 'user') turns.unshift({ role: 'user', content: toTexts(NOTHING) })
  trimEnd(turns)
  return { system, turns }
}

interface Before {
  /** The last call of a legacy function, which has no id. */
  call: string | null
  signer: string
  ids: ToolIds
}

function toRole({ role }: Message, keepsSystem: boolean): Turn['role'] {
  if (role === 'assistant') return role
  return keepsSystem && (role === 'system' || role === 'developer') ? 'system' : 'user'
}

function toBlocks(message: Message, index: number, before: Before, as: Turn['role']): Block[] {
  const at = `messages[${index}].content`
  switch (message.role) {
    case 'assistant':
      return toAnswer(message, index, before)
    case 'tool':
      return [toResult(before.ids.result(message.tool_call_id), message.content, at, message)]
    case 'function':
      return before.call === null
        ? toTexts(`${message.name}: ${message.content ?? ''}`)
        : [toResult(before.call, message.content, at, message)]
    case 'system':
    case 'developer': {
      const said = toTextBlocks(message.content, at)
      return as === 'system' ? said : said.map((block) => ({ ...block, text: `<system>\n${block.text}\n</system>` }))
    }
    case 'user':
      return toSaid(message.content, at)
  }
}

/** Thoughts come before what they led to, and calls last. */
function toAnswer(message: AssistantMessage, index: number, before: Before): Block[] {
  const said = toSaid(message.content, `messages[${index}].content`)
  const refusal = toTexts(message.refusal ?? '')
  const uses: ToolUseBlock[] = (message.tool_calls ?? []).map((call) =>
    call.type === 'custom'
      ? { type: 'tool_use', id: before.ids.call(call.id), name: call.custom.name, input: { input: call.custom.input } }
      : {
          type: 'tool_use',
          id: before.ids.call(call.id),
          name: call.function.name,
          input: toInput(call.function.arguments),
        },
  )
  const { function_call: called } = message
  if (called) {
    before.call = `function_${index}`
    uses.push({ type: 'tool_use', id: before.call, name: called.name, input: toInput(called.arguments) })
  }
  return [...toThoughts(message.reasoning_details ?? [], before.signer), ...said, ...refusal, ...uses]
}

/** The input of a tool is an object; a text that is none is handed on within one. */
function toInput(text: string): object {
  if (text.trim() === '') return {}
  try {
    const input = asObject(JSON.parse(text))
    if (input) return input
  } catch {}
  return { rawInvalidInput: text }
}

function toResult(id: string, content: Message['content'], at: string, message: object): ToolResultBlock {
  const said = typeof content === 'string' ? content : toSaid(content, at)
  return {
    type: 'tool_result',
    tool_use_id: id,
    ...(said.length === 0 ? {} : { content: said }),
    ...(Reflect.get(message, 'is_error') === true ? { is_error: true } : {}),
  }
}

/** The blocks of a message that is marked for the cache are marked at their end. */
function marked<Each extends Block>(message: Message, blocks: Each[]): Each[] {
  const cache = toCacheControl(message)
  if (cache) markLast(blocks, cache)
  return blocks
}

/** What an assistant is to go on with must not end in blank space. */
function trimEnd(turns: readonly Turn[]): void {
  const last = turns.at(-1)
  const end = last?.role === 'assistant' ? last.content.at(-1) : undefined
  if (end?.type === 'text') end.text = end.text.trimEnd()
}
