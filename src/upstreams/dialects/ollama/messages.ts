/** A conversation as Ollama takes it: text, pictures beside it in base64, calls with objects for arguments. Pure. */
import { asText } from '../../../domain/json.ts'
import type { AssistantMessage, Message } from '../../../domain/request.ts'
import { toArguments } from '../arguments.ts'
import { unsupportedValue } from '../refuse.ts'

export interface OllamaMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  thinking?: string
  /** In base64. */
  images?: string[]
  tool_calls?: { id?: string; function: { name: string; arguments: object } }[]
  tool_name?: string
  tool_call_id?: string
}

/** Throws an UpstreamError `status` 400 for a part that has no place there. */
export function toMessages(messages: readonly Message[]): OllamaMessage[] {
  /** What was called, by the ids of calls. */
  const names = new Map<string, string>()
  return messages.map((message, index) => {
    const { content, images } = toContent(message, index)
    const said = { content, ...(images.length > 0 ? { images } : {}) }
    switch (message.role) {
      case 'assistant':
        return toAnswer(message, said, names)
      case 'tool': {
        const { tool_call_id: id } = message
        const name = names.get(id)
        return { role: 'tool', ...said, ...(name === undefined ? {} : { tool_name: name }), tool_call_id: id }
      }
      case 'function':
        return { role: 'tool', ...said, tool_name: message.name }
      case 'user':
        return { role: 'user', ...said }
      default:
        return { role: 'system', ...said }
    }
  })
}

function toAnswer(
  message: AssistantMessage,
  said: Pick<OllamaMessage, 'content' | 'images'>,
  names: Map<string, string>,
): OllamaMessage {
  const thinking = message.reasoning ?? message.reasoning_content ?? ''
  const calls: NonNullable<OllamaMessage['tool_calls']> = []
  for (const call of message.tool_calls ?? []) {
    const { name, args } =
      call.type === 'function'
        ? { name: call.function.name, args: toArguments(call.function.arguments) }
        : { name: call.custom.name, args: { input: call.custom.input } }
    names.set(call.id, name)
    calls.push({ id: call.id, function: { name, arguments: args } })
  }
  const { function_call: legacy } = message
  if (legacy) calls.push({ function: { name: legacy.name, arguments: toArguments(legacy.arguments) } })
  return {
    role: 'assistant',
    ...said,
    content: said.content || (message.refusal ?? ''),
    ...(thinking === '' ? {} : { thinking }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
}

const PICTURE = /^data:[^,]*;base64,/i

function toContent({ content }: Message, index: number): { content: string; images: string[] } {
  if (typeof content === 'string' || !content) return { content: content ?? '', images: [] }
  const texts: string[] = []
  const images: string[] = []
  for (const [at, part] of content.entries()) {
    const param = `messages[${index}].content[${at}]`
    if (part.type === 'text') texts.push(part.text)
    else if (part.type === 'refusal') texts.push(part.refusal)
    else if (part.type === 'image_url') {
      const { url } = part.image_url
      if (!PICTURE.test(url))
        throw unsupportedValue(`${param}.image_url.url`, 'it takes pictures as data: URLs in base64 only.')
      images.push(url.slice(url.indexOf(',') + 1))
    } else throw unsupportedValue(param, `it takes text and pictures, and no ${asText(part.type)}.`)
  }
  return { content: texts.join('\n'), images }
}
