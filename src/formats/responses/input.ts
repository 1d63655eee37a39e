/**
 * Translates input items to messages: a model's reasoning, text and calls in one turn become one message, followed by the calls' results.
 * Unknown items are dropped.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { quote } from '../../domain/explain.ts'
import type { AssistantMessage, Message } from '../../domain/request.ts'
import { decodeReasoning, type Reasoning } from '../../upstreams/dialects/reasoning-state.ts'
import { unsupported } from './errors.ts'
import type { Content, Item, Part, ResponsesRequest } from './schema.ts'
import type { ToolNames } from './tools.ts'

/** Refuses calls without results, results without calls, and references to stored items. */
export function toMessages({ input, instructions }: ResponsesRequest, names: ToolNames): Decision<Message[]> {
  const messages: Message[] = instructions ? [{ role: 'developer', content: instructions }] : []
  if (typeof input === 'string') return [...messages, { role: 'user', content: input }]
  try {
    return [...messages, ...new Conversation(input, names).read()]
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
}

type Call = NonNullable<AssistantMessage['tool_calls']>[number]

interface Result {
  content: Content
  at: string
}

class Turn {
  readonly texts: string[] = []
  readonly thoughts: string[] = []
  readonly details: object[] = []
  readonly calls: Call[] = []

  /** Null if nothing is left that another model could read. */
  toMessage(): AssistantMessage | null {
    const { texts, calls, details } = this
    if (texts.length === 0 && calls.length === 0) return null
    const thought = this.thoughts.join('\n\n')
    return {
      role: 'assistant',
      content: texts.length === 0 ? null : toContent(texts.map((text) => ({ type: 'text' as const, text }))),
      ...(thought === '' ? {} : { reasoning: thought, reasoning_content: thought }),
      ...(details.length === 0 ? {} : { reasoning_details: details }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    }
  }
}

class Conversation {
  readonly #messages: Message[] = []
  /** Results by call ID, in order, since some servers repeat IDs in every turn. */
  readonly #results = new Map<string, Result[]>()
  #turn = new Turn()

  constructor(
    private readonly input: readonly Item[],
    private readonly names: ToolNames,
  ) {}

  read(): Message[] {
    const shells = new Map<string, string>()
    for (const item of this.input)
      if (item.type === 'local_shell_call' && item.id && item.call_id) shells.set(item.id, item.call_id)
    this.input.forEach((item, index) => {
      const id = resultOf(item, shells)
      if (id === null || !('output' in item)) return
      const result = { content: item.output, at: `input[${index}].output` }
      this.#results.getOrInsertComputed(id, () => []).push(result)
    })
    for (const [index, item] of this.input.entries()) this.#take(item, `input[${index}]`)
    this.#endTurn()
    for (const [id, [left]] of this.#results)
      if (left)
        throw new GatewayError(
          'invalid_request',
          `No tool call found for function call output with call_id ${shown(id)}.`,
          { param: 'input' },
        )
    return this.#messages
  }

  #take(item: Item, at: string): void {
    const { calls } = this.#turn
    switch (item.type) {
      case 'message':
        this.#say(item, `${at}.content`)
        return
      case 'reasoning': {
        const { text, details } = toThought(item)
        if (text !== '') this.#turn.thoughts.push(text)
        this.#turn.details.push(...details)
        return
      }
      case 'function_call':
        calls.push(toCall(item.call_id, this.names.nameOf({ ...item, type: 'function' }), item.arguments))
        return
      case 'custom_tool_call':
        calls.push(
          toCall(item.call_id, this.names.nameOf({ ...item, type: 'custom' }), JSON.stringify({ input: item.input })),
        )
        return
      case 'local_shell_call': {
        const { type: _, ...action } = item.action
        const id = item.call_id ?? item.id ?? ''
        calls.push(toCall(id, this.names.nameOf({ type: 'local_shell' }), JSON.stringify(action)))
        return
      }
      case 'function_call_output':
      case 'custom_tool_call_output':
      case 'local_shell_call_output':
        this.#endTurn()
        return
      case 'item_reference':
        throw unsupported(at, 'Tollgate does not store items. Send the item itself, with store: false.')
      default:
        return
    }
  }

  #say({ role, content }: Extract<Item, { type: 'message' }>, at: string): void {
    if (role === 'assistant') {
      // Two texts in a row are two messages, except between calls.
      if (this.#turn.texts.length > 0 && this.#turn.calls.length === 0) this.#endTurn()
      this.#turn.texts.push(...toTexts(content).map(({ text }) => text))
      return
    }
    this.#endTurn()
    if (role !== 'user') {
      const texts = toTexts(content)
      if (texts.length > 0) this.#messages.push({ role, content: toContent(texts) })
      return
    }
    const parts = toUserParts(content, at)
    if (parts.length > 0) this.#messages.push({ role, content: toContent(parts) })
  }

  #endTurn(): void {
    const message = this.#turn.toMessage()
    this.#turn = new Turn()
    if (message === null) return
    this.#messages.push(message)
    for (const { id } of message.tool_calls ?? []) {
      const result = this.#results.get(id)?.shift()
      if (!result)
        throw new GatewayError('invalid_request', `No tool output found for function call ${shown(id)}.`, {
          param: 'input',
        })
      this.#messages.push({ role: 'tool', tool_call_id: id, content: toResult(toUserParts(result.content, result.at)) })
    }
  }
}

/** An ID, shortened for messages. */
const shown = (id: string) => quote(id).slice(1, -1)

function resultOf(item: Item, shells: ReadonlyMap<string, string>): string | null {
  if (item.type === 'function_call_output' || item.type === 'custom_tool_call_output') return item.call_id
  if (item.type !== 'local_shell_call_output') return null
  return item.call_id ?? shells.get(item.id ?? '') ?? item.id ?? ''
}

const toCall = (id: string, name: string, args: string): Call => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})

type ResultPart = Extract<UserPart, { type: 'text' | 'image_url' }>

/** Tool results are text and images; of a file only the name is sent. */
function toResult(parts: readonly UserPart[]): string | ResultPart[] {
  const told = parts.flatMap((part): ResultPart[] => {
    if (part.type === 'text' || part.type === 'image_url') return [part]
    return part.type === 'file' ? [{ type: 'text', text: `(a file: ${part.file.filename ?? 'without a name'})` }] : []
  })
  return told.length === 0 ? '' : toContent(told)
}

type UserContent = Extract<Message, { role: 'user' }>['content']
type UserPart = Exclude<UserContent, string>[number]
type TextPart = Extract<UserPart, { type: 'text' }>

/** Content of users and tool results. Unknown parts are dropped. Throws a refusal. */
function toUserParts(content: Content, at: string): UserPart[] {
  if (typeof content === 'string') return [toText(content)]
  return content.flatMap((part, index) => toUserPart(part, `${at}[${index}]`) ?? [])
}

const toTexts = (content: Content): TextPart[] =>
  typeof content === 'string' ? [toText(content)] : content.flatMap((part) => textOf(part) ?? [])

const toText = (text: string): TextPart => ({ type: 'text', text })

function textOf(part: Part): TextPart | null {
  if (part.type === 'refusal') return toText(part.refusal)
  return part.type === 'input_text' || part.type === 'output_text' || part.type === 'text' ? toText(part.text) : null
}

function toUserPart(part: Part, at: string): UserPart | null {
  switch (part.type) {
    case 'input_image': {
      const { image_url: url, detail } = part
      if (!url) throw stored(`${at}.file_id`, 'image_url')
      return { type: 'image_url', image_url: { url, ...(detail ? { detail } : {}) } }
    }
    case 'input_file': {
      const { filename, file_data, file_url } = part
      if (!file_data && !file_url) throw stored(`${at}.file_id`, 'file_data')
      const file = { ...(filename ? { filename } : {}), ...(file_data ? { file_data } : { file_url }) }
      return { type: 'file', file }
    }
    case 'input_audio':
      return { type: 'input_audio', input_audio: part.input_audio }
    default:
      return textOf(part)
  }
}

/** Refuses stored files, since all keys share one provider account. */
const stored = (param: string, instead: string): GatewayError =>
  unsupported(param, `Tollgate does not store files. Send the content as ${instead}.`)

/** A single text becomes a string, which more servers accept. */
function toContent<P extends UserPart>(parts: readonly P[]): string | P[] {
  const [only] = parts
  return parts.length === 1 && only?.type === 'text' ? only.text : [...parts]
}

/** Reads a reasoning item; of state encrypted by others, only the readable text is kept. */
function toThought({ encrypted_content: state, content, summary }: Extract<Item, { type: 'reasoning' }>): Reasoning {
  const own = state ? decodeReasoning(state, toWords(summary, '')) : null
  return { text: own?.text || toWords(content) || toWords(summary), details: own?.details ?? [] }
}

const toWords = (parts: readonly { text: string }[] | null | undefined, between = '\n\n') =>
  (parts ?? []).map(({ text }) => text).join(between)
