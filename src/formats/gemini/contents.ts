/**
 * Translates Gemini's contents to chat messages: consecutive turns of one role are merged, and function responses become tool messages
 * before the rest of their turn. Calls without IDs are matched by name, in order.
 */
import type { GatewayError } from '../../domain/error.ts'
import type { JsonObject } from '../../domain/json.ts'
import type { Message } from '../../domain/request.ts'
import { decodeReasoning, toState } from '../../upstreams/dialects/reasoning-state.ts'
import { invalid } from './errors.ts'
import type { Content, GeminiBody, Part } from './schema.ts'

type TextPart = { type: 'text'; text: string }
type MediaPart =
  | { type: 'image_url'; image_url: { url: string } }
  | { type: 'video_url'; video_url: { url: string } }
  | { type: 'input_audio'; input_audio: { data: string; format: 'wav' | 'mp3' } }
  | { type: 'file'; file: { filename: string; file_data?: string; file_url?: string } }
type ContentPart = TextPart | MediaPart

const toText = (text: string | null | undefined): TextPart[] => (text ? [{ type: 'text', text }] : [])

const AUDIO: Readonly<Record<string, 'wav' | 'mp3'>> = {
  ...{ 'audio/wav': 'wav', 'audio/x-wav': 'wav', 'audio/wave': 'wav' },
  ...{ 'audio/mp3': 'mp3', 'audio/mpeg': 'mp3' },
}

function toMedia({ inlineData: blob, fileData: file }: Part): ContentPart[] {
  if (blob) {
    const type = blob.mimeType?.toLowerCase() ?? ''
    const url = `data:${type};base64,${blob.data}`
    const format = AUDIO[type]
    if (format) return [{ type: 'input_audio', input_audio: { data: blob.data, format } }]
    return [toLinked(type, url) ?? { type: 'file', file: { filename: toFileName(type), file_data: url } }]
  }
  if (!file) return []
  const type = file.mimeType?.toLowerCase() ?? ''
  const { fileUri: url } = file
  return [toLinked(type, url) ?? { type: 'file', file: { filename: toFileName(type), file_url: url } }]
}

function toLinked(type: string, url: string): MediaPart | null {
  if (type.startsWith('image/')) return { type: 'image_url', image_url: { url } }
  return type.startsWith('video/') ? { type: 'video_url', video_url: { url } } : null
}

/** Upstreams derive the type from the file extension. */
const toFileName = (type: string) => `file.${/^[\w-]+\/(?:x-)?([\w-]{1,20})/.exec(type)?.[1] ?? 'pdf'}`

/** Code and output of Google's code execution become text, for other models. */
const toSaid = (part: Part): ContentPart[] =>
  part.thought
    ? []
    : [...toText(part.text ?? part.executableCode?.code ?? part.codeExecutionResult?.output), ...toMedia(part)]

interface Placed {
  part: Part
  at: string
}

interface Turn {
  isModel: boolean
  parts: Placed[]
}

function toTurns(contents: readonly Content[]): Turn[] {
  const turns: Turn[] = []
  for (const [index, { role, parts }] of contents.entries()) {
    const isModel = role === 'model' || role === 'assistant'
    const placed = (parts ?? []).map((part, place) => ({ part, at: `contents[${index}].parts[${place}]` }))
    const last = turns.at(-1)
    if (last?.isModel === isModel) for (const each of placed) last.parts.push(each)
    else turns.push({ isModel, parts: placed })
  }
  return turns
}

export function toMessages({ systemInstruction, contents }: Pick<GeminiBody, 'systemInstruction' | 'contents'>) {
  const instructions = (systemInstruction?.parts ?? []).flatMap(({ text }) => toText(text))
  const out: Message[] = instructions.length > 0 ? [{ role: 'system', content: toContent(instructions) }] : []
  let calls: Call[] = []
  for (const [index, turn] of toTurns(contents).entries()) {
    if (turn.isModel) {
      calls = toCalls(turn, index)
      out.push(...toAssistant(turn, calls))
      continue
    }
    const wrong = answer(calls, turn, out)
    if (wrong) return wrong
    calls = []
    const said = turn.parts.flatMap(({ part }) => toSaid(part))
    if (said.length > 0) out.push({ role: 'user', content: toContent(said) } as Message)
  }
  if (calls.length > 0) return unanswered()
  return out.length > 0 ? out : invalid('contents', 'at least one content must have a part that is not empty.')
}

/** A single text becomes a string, since many upstreams accept nothing else. */
function toContent<Each extends ContentPart>(parts: Each[]): string | Each[] {
  const [only] = parts
  return parts.length === 1 && only?.type === 'text' ? only.text : parts
}

interface Call {
  id: string
  /** The client's ID. */
  given: string | null
  name: string
  args: JsonObject
}

function toCalls({ parts }: Turn, index: number): Call[] {
  const calls: Call[] = []
  for (const { part } of parts) {
    const { functionCall: call } = part
    if (!call) continue
    const given = call.id || null
    calls.push({ id: given ?? `call_${index}_${calls.length}`, given, name: call.name, args: call.args ?? {} })
  }
  return calls
}

/** Adds tool messages. Each call is answered once, in the next turn. */
function answer(calls: readonly Call[], { parts }: Turn, out: Message[]): GatewayError | null {
  const open = new Set(calls)
  for (const { part, at } of parts) {
    const { functionResponse: response } = part
    if (!response) continue
    const call = findCall(open, response.id || null, response.name || null)
    if (!call)
      return invalid(`${at}.functionResponse`, `${EQUAL} No call of the previous turn is left for this response.`)
    open.delete(call)
    out.push(toToolMessage(call.id, response))
  }
  return open.size > 0 ? unanswered() : null
}

/** Google's message. */
const EQUAL =
  'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.'
const unanswered = () => invalid('contents', EQUAL)

function findCall(open: ReadonlySet<Call>, id: string | null, name: string | null): Call | null {
  let found: Call | null = null
  for (const call of open) {
    if (id !== null && call.given === id) return call
    const fits = (id === null || call.given === null) && (name === null || call.name === name)
    if (fits) found ??= call
  }
  return found
}

type Response = NonNullable<Part['functionResponse']>

function toToolMessage(id: string, { response, parts }: Response): Message {
  const images = (parts ?? []).flatMap((part) => toMedia(part)).filter((part) => part.type === 'image_url')
  const { text, isError } = toResult(response ?? {})
  return {
    role: 'tool',
    tool_call_id: id,
    content: images.length > 0 ? [{ type: 'text', text }, ...images] : text,
    ...(isError ? { is_error: true } : {}),
  }
}

/** The text, if the only field is `output`, `result`, or `error` with a text. Otherwise the whole object as JSON. */
function toResult(response: JsonObject): { text: string; isError: boolean } {
  const names = Object.keys(response)
  const [name = ''] = names
  const value = response[name]
  const isAlone = names.length === 1 && typeof value === 'string'
  const isText = isAlone && (name === 'output' || name === 'result' || name === 'error')
  return { text: isText ? value : JSON.stringify(response), isError: name === 'error' && names.length === 1 }
}

function toAssistant({ parts }: Turn, calls: readonly Call[]): Message[] {
  const all = parts.map(({ part }) => part)
  const said = all.flatMap(toSaid)
  const texts = said.filter((part) => part.type === 'text')
  const images = said.filter((part) => part.type === 'image_url')
  const reasoning = toReasoning(all, calls)
  if (said.length === 0 && calls.length === 0 && Object.keys(reasoning).length === 0) return []
  return [
    {
      role: 'assistant',
      content: texts.length > 0 ? toContent(texts) : calls.length > 0 ? null : '',
      ...reasoning,
      ...(images.length > 0 ? { images } : {}),
      ...(calls.length > 0 ? { tool_calls: calls.map(toToolCall) } : {}),
    },
  ]
}

const toToolCall = ({ id, name, args }: Call) => ({
  id,
  type: 'function' as const,
  function: { name, arguments: JSON.stringify(args) },
})

function toReasoning(parts: readonly Part[], calls: readonly Call[]) {
  let shown = ''
  let stated = ''
  let place = 0
  const details: object[] = []
  for (const part of parts) {
    if (part.thought) shown += part.text ?? ''
    const call = part.functionCall ? calls[place++] : undefined
    const { thoughtSignature: signature } = part
    if (!signature) continue
    const state = toState(signature)
    if (state === null) details.push(toDetail(signature, details.length, call?.id))
    else {
      const found = decodeReasoning(state, '')
      stated += found?.text ?? ''
      details.push(...(found?.details ?? []))
    }
  }
  // Our state repeats the text, with its signatures.
  const text = stated === '' ? shown : stated
  return {
    ...(text === '' ? {} : { reasoning: text, reasoning_content: text }),
    ...(details.length === 0 ? {} : { reasoning_details: details }),
  }
}

/** The detail as the Gemini dialect writes it, but without a signer, since the signature is Google's own. */
const toDetail = (data: string, index: number, id: string | undefined): object => ({
  ...{ type: 'reasoning.encrypted', data, format: 'google-gemini-v1', index },
  ...(id === undefined ? {} : { id }),
})
