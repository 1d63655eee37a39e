/**
 * Translates Anthropic conversations to chat messages: a user's tool results become tool messages before the rest of the turn, and
 * consecutive turns of one role are merged, as the API does.
 */

import { type Decision, GatewayError } from '../../domain/error.ts'
import { asObject, asText } from '../../domain/json.ts'
import type { Message } from '../../domain/request.ts'
import {
  decodeReasoning,
  decodeState,
  isEncodedState,
  type Reasoning,
} from '../../upstreams/dialects/reasoning-state.ts'
import { invalid } from './errors.ts'
import type { Block, MessagesBody, SaidBlock, Source, ToolResultBlock } from './schema.ts'

/** A part with a prompt cache mark, for dialects that support marks. */
interface Marked {
  cache_control?: object
}
type TextPart = Marked & { type: 'text'; text: string }
type ImagePart = Marked & { type: 'image_url'; image_url: { url: string } }
type FilePart = Marked & {
  type: 'file'
  file: { filename?: string; file_data?: string; file_url?: string; file_id?: string }
}
type Part = TextPart | ImagePart | FilePart

export const toMark = ({ cache_control: mark }: { cache_control?: object | null }): Marked =>
  mark ? { cache_control: mark } : {}

/** Content parts of a block; none if it is empty or unknown. */
function toParts(block: SaidBlock): Part[] {
  const parts = toBare(block)
  const last = parts.at(-1)
  if (last && 'cache_control' in block) Object.assign(last, toMark(block))
  return parts
}

function toBare(block: SaidBlock): Part[] {
  switch (block.type) {
    case 'text':
      return toText(block.text)
    case 'image':
      return toImage(block.source)
    case 'document':
      return toDocument(block.source, block.title ?? '', block.context ?? '')
    case 'search_result':
      return toText(toTagged('search_result', block, block.content.map((each) => each.text ?? '').join('\n')))
    default:
      return []
  }
}

const toText = (text: string): Part[] => (text === '' ? [] : [{ type: 'text', text }])

function toImage(source: Source): Part[] {
  const { type, media_type: mediaType, data, url, file_id: id } = source
  if (type === 'base64' && data)
    return [{ type: 'image_url', image_url: { url: `data:${mediaType ?? 'image/png'};base64,${data}` } }]
  if (type === 'url' && url) return [{ type: 'image_url', image_url: { url } }]
  return toStored(id)
}

/** A file stored at a provider; routing decides who may get it. */
const toStored = (id: string | null | undefined): Part[] => (id ? [{ type: 'file', file: { file_id: id } }] : [])

function toDocument(source: Source, title: string, context: string): Part[] {
  const { type, media_type: mediaType, data, url, content, file_id: id } = source
  const about = toText(context)
  if (type === 'text' && data) return toText(toTagged('document', { title, context }, data))
  if (type === 'base64' && data) {
    const filename = title || 'document.pdf'
    return [...about, { type: 'file', file: { filename, file_data: `data:${mediaType ?? PDF};base64,${data}` } }]
  }
  if (type === 'url' && url)
    return [...about, { type: 'file', file: { filename: title || 'document.pdf', file_url: url } }]
  if (type !== 'content') return toStored(id)
  if (typeof content === 'string') return toText(toTagged('document', { title, context }, content))
  return [...about, ...(content ?? []).flatMap(toInner)]
}

const PDF = 'application/pdf'

function toInner(block: { type: string; text?: string | null; source?: object | null }): Part[] {
  if (block.type === 'text') return toText(block.text ?? '')
  const source = asObject(block.source)
  if (block.type !== 'image' || !source) return []
  const { type, media_type, data, url } = source
  return toImage({ type: asText(type), media_type: asText(media_type), data: asText(data), url: asText(url) })
}

/** Text in a tag with its attributes, which any vendor's model understands. */
function toTagged(tag: string, about: object, text: string): string {
  const { title, source, context }: { title?: unknown; source?: unknown; context?: unknown } = about
  const said = Object.entries({ title, source, context }).filter(([, value]) => asText(value) !== '')
  const attributes = said.map(([name, value]) => ` ${name}=${JSON.stringify(value)}`).join('')
  return `<${tag}${attributes}>\n${text}\n</${tag}>`
}

type Thought = Extract<Block, { type: 'thinking' | 'redacted_thinking' }>

/** The name that other gateways use for this format of reasoning. */
const CLAUDE = 'anthropic-claude-v1'

function toReasoning(blocks: readonly Thought[]): {
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
    // Upstreams know either name.
    ...(text === '' ? {} : { reasoning: text, reasoning_content: text }),
    ...(details.length === 0 ? {} : { reasoning_details: details }),
  }
}

/** Null for a signature that only looks like our encoding. */
function toShown({ thinking, signature }: Thought & { type: 'thinking' }, index: number): Reasoning | null {
  const text = thinking ?? ''
  if (!signature) return { text, details: [] }
  if (!isEncodedState(signature))
    return { text, details: [{ type: 'reasoning.text', text, signature, format: CLAUDE, index }] }
  const details = decodeState(signature, text)
  return details && { text, details }
}

const toRedacted = (data: string, index: number): Reasoning | null =>
  isEncodedState(data)
    ? decodeReasoning(data, '')
    : { text: '', details: [{ type: 'reasoning.encrypted', data, format: CLAUDE, index }] }

type Role = 'user' | 'assistant' | 'system'

interface Placed {
  block: Block
  at: string
}

interface Turn {
  role: Role
  at: string
  blocks: Placed[]
}

/** Prefix by which Claude Code identifies itself to Anthropic: useless to others, and different in every release. */
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
      // Nothing may come between a call and its result.
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
  return out.length > 0 ? out : invalid('messages', 'at least one message must have content.')
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

/** A single plain text becomes a string, since many upstreams accept nothing else. */
function toContent<Each extends Part>(parts: Each[]): string | Each[] {
  const [only] = parts
  return parts.length === 1 && only?.type === 'text' && !only.cache_control ? only.text : parts
}

const toSaid = (block: Block): Part[] =>
  block.type === 'tool_use' || block.type === 'tool_result' || isThought(block) ? [] : toParts(block)

const isThought = (block: Block): block is Thought => block.type === 'thinking' || block.type === 'redacted_thinking'

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

const MAX_NAMED = 20

/** Checks that each call is answered once, immediately. Returns the refusal, or null. */
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
    `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open.slice(0, MAX_NAMED).join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  )
}

/** Adds a tool message. Returns documents, which tool messages can't have and which follow all results. */
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
