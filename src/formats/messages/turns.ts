/**
 * A conversation of Anthropic's API as chat messages: what an assistant calls becomes `tool_calls`, what a user's turn answers
 * becomes tool messages before the rest of it. Turns of one role that follow each other are one, as the API has it. Pure.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import type { Message } from '../../domain/request.ts'
import { type Part, toMark, toParts } from './content.ts'
import type { Block, MessagesBody, ToolResultBlock } from './schema.ts'
import { toReasoning } from './thoughts.ts'
import { invalid } from './validate.ts'

type Role = 'user' | 'assistant' | 'system'

/** A block and its path. */
interface Placed {
  block: Block
  at: string
}

interface Turn {
  role: Role
  /** Path of its first message. */
  at: string
  blocks: Placed[]
}

/** Where Claude Code tells Anthropic what it is: of no use to anybody else, and different in every release. */
const BILLING = 'x-anthropic-billing-header:'

export function toMessages({ system, messages }: Pick<MessagesBody, 'system' | 'messages'>): Decision<Message[]> {
  const leading = typeof system === 'string' ? [{ type: 'text' as const, text: system }] : (system ?? [])
  const [first] = leading
  const isBilled = first?.type === 'text' && first.text.startsWith(BILLING)
  const instructions = (isBilled ? leading.slice(1) : leading).flatMap((block) => toParts(block))
  const out: Message[] = toInstructions(instructions)
  let calls: Calls | null = null
  let held: Message[] = []
  for (const turn of toTurns(messages)) {
    if (turn.role === 'system') {
      // Between a call and its result nothing else may be said.
      const said = toInstructions(turn.blocks.flatMap(({ block }) => toSaid(block)))
      if (calls) held.push(...said)
      else out.push(...said)
      continue
    }
    const results = turn.role === 'user' ? turn.blocks.filter(isResult) : []
    const wrong = answer(calls, results)
    if (wrong) return wrong
    calls = null
    const rest = results.flatMap(({ block }) => toToolMessage(block, out))
    out.push(...held)
    held = []
    if (turn.role === 'user') {
      out.push(...toUser([...rest, ...turn.blocks.flatMap(({ block }) => toSaid(block))]))
      continue
    }
    const called = toCalls(turn)
    if (called instanceof GatewayError) return called
    calls = called
    out.push(...toAssistant(turn))
  }
  const open = answer(calls, [])
  if (open) return open
  out.push(...held)
  return out.length > 0 ? out : invalid('messages', 'at least one message has to say something.')
}

function toTurns(messages: MessagesBody['messages']): Turn[] {
  const turns: Turn[] = []
  for (const [index, { role: said, content }] of messages.entries()) {
    const role = toRole(said)
    const at = `messages.${index}`
    const blocks: Placed[] =
      typeof content === 'string'
        ? [{ block: { type: 'text', text: content }, at: `${at}.content` }]
        : content.map((block, place) => ({ block, at: `${at}.content.${place}` }))
    const last = turns.at(-1)
    if (last?.role === role) for (const each of blocks) last.blocks.push(each)
    else turns.push({ role, at, blocks })
  }
  return turns
}

function toRole(role: string): Role {
  if (role === 'assistant') return role
  return role === 'system' || role === 'developer' ? 'system' : 'user'
}

const toInstructions = (parts: readonly Part[]): Message[] => {
  const texts = parts.filter((part) => part.type === 'text')
  return texts.length === 0 ? [] : [{ role: 'system', content: toContent(texts) }]
}

const toUser = (parts: Part[]): Message[] => (parts.length === 0 ? [] : [{ role: 'user', content: toContent(parts) }])

/** One plain text is a text: many upstreams know nothing else. */
function toContent<Each extends Part>(parts: Each[]): string | Each[] {
  const [only] = parts
  return parts.length === 1 && only?.type === 'text' && !only.cache_control ? only.text : parts
}

const toSaid = (block: Block): Part[] =>
  block.type === 'tool_use' || block.type === 'tool_result' || isThought(block) ? [] : toParts(block)

type Thought = Extract<Block, { type: 'thinking' | 'redacted_thinking' }>
const isThought = (block: Block): block is Thought => block.type === 'thinking' || block.type === 'redacted_thinking'

/** The calls that a turn makes, by id: whether they have been answered. */
type Calls = Map<string, boolean> & { at?: string }

type Call = Extract<Block, { type: 'tool_use' }>
const isCall = (block: Block): block is Call => block.type === 'tool_use'

function toCalls({ at, blocks }: Turn): Decision<Calls | null> {
  const calls: Calls = new Map()
  for (const { block, at: path } of blocks) {
    if (!isCall(block)) continue
    if (calls.has(block.id)) return invalid(`${path}.id`, '`tool_use` ids must be unique.')
    calls.set(block.id, false)
  }
  calls.at = at
  return calls.size > 0 ? calls : null
}

type Result = Placed & { block: ToolResultBlock }
const isResult = (placed: Placed): placed is Result => placed.block.type === 'tool_result'

const MOST_NAMED = 20

/** Holds results against the calls before them: each is answered once, at once. Returns the refusal, or null. */
function answer(calls: Calls | null, results: readonly Result[]): GatewayError | null {
  for (const { block, at } of results) {
    const id = block.tool_use_id
    if (calls?.get(id) === false) calls.set(id, true)
    else
      return invalid(
        at,
        `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id.slice(0, 100)}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      )
  }
  const open = [...(calls ?? [])].filter(([, isAnswered]) => !isAnswered).map(([id]) => id.slice(0, 100))
  if (open.length === 0) return null
  return invalid(
    calls?.at ?? 'messages',
    `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open.slice(0, MOST_NAMED).join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  )
}

/** Adds what a tool has answered. Returns what has no place in a tool message, to be said behind all of them: documents. */
function toToolMessage(block: ToolResultBlock, out: Message[]): Part[] {
  const { content } = block
  const said = typeof content === 'string' ? content : (content ?? []).flatMap((each) => toParts(each))
  const parts = typeof said === 'string' ? [] : said
  const message = {
    role: 'tool' as const,
    tool_call_id: block.tool_use_id,
    content: typeof said === 'string' ? said : toContent(said.filter((part) => part.type !== 'file')),
    ...(block.is_error ? { is_error: true } : {}),
    ...toMark(block),
  }
  if (message.content.length === 0) message.content = ''
  out.push(message)
  return parts.filter((part) => part.type === 'file')
}

function toAssistant({ blocks }: Turn): Message[] {
  const all = blocks.map(({ block }) => block)
  const calls = all.filter(isCall)
  const texts = all.flatMap(toSaid).filter((part) => part.type === 'text')
  const thought = toReasoning(all.filter(isThought))
  const last = calls.at(-1)
  if (texts.length === 0 && calls.length === 0 && Object.keys(thought).length === 0) return []
  const message = {
    role: 'assistant' as const,
    content: texts.length > 0 ? toContent(texts) : calls.length > 0 ? null : '',
    ...thought,
    ...(calls.length > 0 ? { tool_calls: calls.map(toCall) } : {}),
    ...(last ? toMark(last) : {}),
  }
  return [message]
}

const toCall = ({ id, name, input }: Call) => ({
  id,
  type: 'function' as const,
  function: { name, arguments: JSON.stringify(input ?? {}) },
})
