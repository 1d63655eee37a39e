/**
 * Turns as the API requires them: leading instructions are separate, all tool results start the next user turn, roles alternate, and no
 * content is blank.
 */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { AssistantMessage, CacheMarked, Message } from '../../../domain/request.ts'
import { unsupportedValue } from '../errors.ts'
import { ANTHROPIC_IDS, ToolIds, toInputObject } from '../tool-calls.ts'
import type {
  Block,
  CacheControl,
  DocumentBlock,
  ImageBlock,
  ImageSource,
  SaidBlock,
  TextBlock,
  ThoughtBlock,
  ToolResultBlock,
  ToolUseBlock,
  Turn,
  WireBody,
} from './wire.ts'

export interface Conversation {
  system: TextBlock[]
  turns: Turn[]
}

/** Text of an empty user turn, since a conversation has to begin with user text. */
const NOTHING = '.'

export interface Reader {
  /** True if the model accepts later instructions in their own turns. */
  keepsSystem: boolean
  /** Issuer of the signatures it accepts (`toReasoningIssuer`). */
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

/** Reasoning comes first, and calls last. */
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
          input: toInputObject(call.function.arguments),
        },
  )
  const { function_call: called } = message
  if (called) {
    before.call = `function_${index}`
    uses.push({ type: 'tool_use', id: before.call, name: called.name, input: toInputObject(called.arguments) })
  }
  return [...toThoughts(message.reasoning_details ?? [], before.signer), ...said, ...refusal, ...uses]
}

function toResult(id: string, content: Message['content'], at: string, message: Message): ToolResultBlock {
  const said = typeof content === 'string' ? content : toSaid(content, at)
  return {
    type: 'tool_result',
    tool_use_id: id,
    ...(said.length === 0 ? {} : { content: said }),
    ...(message.role === 'tool' && message.is_error === true ? { is_error: true } : {}),
  }
}

/** A cache mark of a message goes to its last block. */
function marked<Each extends Block>(message: Message, blocks: Each[]): Each[] {
  const cache = toCacheControl(message)
  if (cache) markLast(blocks, cache)
  return blocks
}

/** An assistant's text to continue must not end in blank space. */
function trimEnd(turns: readonly Turn[]): void {
  const last = turns.at(-1)
  const end = last?.role === 'assistant' ? last.content.at(-1) : undefined
  if (end?.type === 'text') end.text = end.text.trimEnd()
}

/** Content parts as blocks: text, images and documents. Throws `unsupportedValue`. */
type Content = Message['content']

export function toSaid(content: Content, at: string): SaidBlock[] {
  if (typeof content === 'string') return toTexts(content)
  return (content ?? []).flatMap((part, index): SaidBlock[] => {
    const found = toBlock({ ...part }, `${at}[${index}]`)
    if (found === null) return []
    const cache = toCacheControl(part)
    return [cache ? { ...found, cache_control: cache } : found]
  })
}

const toTextBlocks = (content: Content, at: string): TextBlock[] =>
  toSaid(content, at).flatMap((block) => (block.type === 'text' ? [block] : []))

export const toTexts = (text: string): TextBlock[] => (text.trim() === '' ? [] : [{ type: 'text', text }])

function toBlock(part: JsonObject, at: string): SaidBlock | null {
  switch (part.type) {
    case 'text':
      return toTexts(asText(part.text))[0] ?? null
    case 'refusal':
      return toTexts(asText(part.refusal))[0] ?? null
    case 'image_url':
      return toImage(asText(asObject(part.image_url)?.url), `${at}.image_url.url`)
    case 'file':
      return toDocument(asObject(part.file) ?? {}, `${at}.file`)
    case 'image':
    case 'document':
    case 'search_result':
      return toOwnBlock(part, at)
    default:
      throw unsupportedValue(at, `content parts of type '${asText(part.type)}' are not supported.`)
  }
}

/** A block that is already in Anthropic's format. The API validates the rest. */
function toOwnBlock({ cache_control: _, ...part }: JsonObject, at: string): SaidBlock {
  if (part.type === 'search_result') {
    const content = asList(part.content).flatMap((each) => toTexts(asText(asObject(each)?.text)))
    if (content.length === 0) throw unsupportedValue(`${at}.content`, 'a search result needs text.')
    return { ...part, type: 'search_result', source: asText(part.source), title: asText(part.title), content }
  }
  const source = asObject(part.source)
  if (source === null || typeof source.type !== 'string')
    throw unsupportedValue(`${at}.source`, 'a block needs a source.')
  if (source.type === 'text' && typeof source.data !== 'string')
    throw unsupportedValue(`${at}.source.data`, 'a text source needs data.')
  if (source.type !== 'content' || typeof source.content === 'string')
    return { ...part, source } as unknown as SaidBlock
  // A copy, since cache marks may be removed from it and the request belongs to the client.
  const content = asList(source.content).flatMap((each) => (asObject(each) ? { ...asObject(each) } : []))
  return { ...part, source: { ...source, content } } as unknown as SaidBlock
}

const IMAGES = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'] as const

function toImage(url: string, at: string): ImageBlock | DocumentBlock {
  if (/^https?:/i.test(url)) return { type: 'image', source: { type: 'url', url } }
  const { mediaType, data } = readDataUrl(url, at)
  if (mediaType === 'application/pdf') return toPdf(data, '')
  const known = IMAGES.find((one) => one === mediaType.replace('image/jpg', 'image/jpeg'))
  if (!known) throw unsupportedValue(at, `images must be JPEG, PNG, GIF or WebP (got '${mediaType}').`)
  const source: ImageSource = { type: 'base64', media_type: known, data }
  return { type: 'image', source }
}

function toDocument(file: JsonObject, at: string): DocumentBlock | ImageBlock {
  const title = asText(file.filename)
  const named = title === '' ? {} : { title }
  const [id, data] = [asText(file.file_id), asText(file.file_data)]
  // OpenRouter's clients put a URL in place of the data.
  const url = asText(file.file_url) || (/^https?:\/\//i.test(data) ? data : '')
  if (id !== '') return { type: 'document', source: { type: 'file', file_id: id }, ...named }
  if (url !== '') return { type: 'document', source: { type: 'url', url }, ...named }
  if (data === '') throw unsupportedValue(at, 'a file needs file_data.')
  if (!data.startsWith('data:')) return toPdf(data, title)
  const read = readDataUrl(data, `${at}.file_data`)
  if (read.mediaType === 'application/pdf') return toPdf(read.data, title)
  if (IMAGES.some((one) => one === read.mediaType)) return toImage(data, at)
  if (!/^(text\/|application\/(json|xml|yaml|x-yaml)$)/.test(read.mediaType))
    throw unsupportedValue(`${at}.file_data`, `files must be PDF or text (got '${read.mediaType}').`)
  const text = Buffer.from(read.data, 'base64').toString('utf8')
  return { type: 'document', source: { type: 'text', media_type: 'text/plain', data: text }, ...named }
}

const toPdf = (data: string, title: string): DocumentBlock => ({
  type: 'document',
  source: { type: 'base64', media_type: 'application/pdf', data },
  ...(title === '' ? {} : { title }),
})

/** Reads a base64 `data:` URL, which may have megabytes. */
function readDataUrl(url: string, at: string): { mediaType: string; data: string } {
  const comma = url.indexOf(',')
  const [mediaType = '', ...parameters] = url.slice('data:'.length, Math.max(0, comma)).toLowerCase().split(';')
  if (!url.startsWith('data:') || !parameters.includes('base64'))
    throw unsupportedValue(at, 'use an https:// URL or base64 data (data:image/png;base64,…).')
  return { mediaType, data: url.slice(comma + 1) }
}

/** Prompt cache marks, accepted wherever a client puts them. The API takes four, with one-hour marks before five-minute ones. */
const MAX_MARKS = 4

type MarkHolder = CacheMarked & { prompt_cache_breakpoint?: unknown }

export function toCacheControl(holder: MarkHolder): CacheControl | null {
  const own = asObject(holder.cache_control)
  if (own?.type === 'ephemeral') {
    return own.ttl === '1h' || own.ttl === '5m' ? { type: 'ephemeral', ttl: own.ttl } : { type: 'ephemeral' }
  }
  return asObject(holder.prompt_cache_breakpoint) ? { type: 'ephemeral' } : null
}

type Marked = { cache_control?: CacheControl }

function markLast(blocks: readonly Block[], cache: CacheControl): void {
  const last = blocks.findLast((block) => block.type !== 'thinking' && block.type !== 'redacted_thinking')
  if (last) last.cache_control ??= cache
}

/** Keeps the last marks up to the limit, and no one-hour mark after a five-minute one. */
export function keepMarks(body: WireBody): void {
  const holders: Marked[] = [...(body.tools ?? []), ...(body.system ?? [])]
  for (const { content } of body.messages) for (const block of content) addHolders(block, holders)
  const marked = holders.filter((holder) => holder.cache_control !== undefined)
  const most = MAX_MARKS - (body.cache_control ? 1 : 0)
  for (const holder of marked.slice(0, Math.max(0, marked.length - most))) delete holder.cache_control
  let isShort = false
  for (const holder of [...marked, body]) {
    const { cache_control: cache } = holder
    if (cache === undefined) continue
    if (cache.ttl !== '1h') isShort = true
    else if (isShort) holder.cache_control = { type: 'ephemeral' }
  }
}

/** Adds nested blocks before the block: parts of tool results and documents may be marked, too. */
function addHolders(block: Block, holders: Marked[]): void {
  if (block.type === 'tool_result' && typeof block.content === 'object')
    for (const part of block.content) addHolders(part, holders)
  if (block.type === 'document' && block.source.type === 'content' && typeof block.source.content === 'object')
    for (const part of block.source.content) holders.push(part)
  if ('cache_control' in block) holders.push(block)
}

/**
 * Converts reasoning between the API's blocks and OpenRouter's `reasoning_details`. Signatures must come back unchanged, or the API refuses
 * the request; those of others are dropped.
 */
export const FORMAT = 'anthropic-claude-v1'
const OURS = 'anthropic'

/**
 * Reads reasoning, whole or in streamed pieces.
 * @param signer the receiving upstream (`toReasoningIssuer`).
 */
export function toThoughts(details: readonly unknown[], signer: string): ThoughtBlock[] {
  const joined: JsonObject[] = []
  /** Texts without a signature yet, by index, with the last one under null: clients may send any number. */
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
  return joined.filter((detail) => (detail.signer ?? signer) === signer).flatMap(toThoughtBlock)
}

/** True if a text continues the one before, which a signature ends. */
const isSame = (before: JsonObject, { format }: JsonObject): boolean =>
  !before.signature && (!format || !before.format || format === before.format)

function join(into: JsonObject, { text, signature, format, signer }: JsonObject): void {
  into.text = asText(into.text) + asText(text)
  into.signature = asText(into.signature) + asText(signature)
  into.format ??= format
  into.signer ??= signer
}

function toThoughtBlock({ type, format, text, signature, data }: JsonObject): ThoughtBlock[] {
  if (!asText(format).startsWith(OURS)) return []
  if (type === 'reasoning.encrypted' && asText(data) !== '') return [{ type: 'redacted_thinking', data: asText(data) }]
  if (type !== 'reasoning.text' || asText(signature) === '') return []
  return [{ type: 'thinking', thinking: asText(text), signature: asText(signature) }]
}
