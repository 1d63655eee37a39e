/** Chat completions as a client format. */
import { GatewayError } from '../../domain/error.ts'
import type { CanonicalRequest, Message } from '../../domain/request.ts'
import type { ChatTask } from '../../domain/task.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { toReasoningRequest } from '../../upstreams/dialects/reasoning.ts'
import type { ErrorFormat, Format } from '../format.ts'
import { ChatWriter, HiddenReasoning, toCompletionJson } from './answer.ts'
import { findBeyondStrict, validate } from './request.ts'

/** OpenAI's error format. */
export const openAiErrors: ErrorFormat = {
  error: (error) => error.toBody(),
  ids: (requestId) => ({ 'x-request-id': requestId }),
}

export const chat = {
  ...openAiErrors,
  toTask(body) {
    const request = validate(body)
    return request instanceof GatewayError ? request : toTask(request)
  },
  whole({ body }: ChatTask, identity, events, receipt) {
    const said = toReasoningRequest(body).isHidden ? new HiddenReasoning().take(events) : events
    return toCompletionJson(identity, said, receipt)
  },
  writer: (task: ChatTask, identity) => new ChatWriter(task, identity),
} satisfies Format

const MAX_USER_CHARS = 256

export function toTask(body: CanonicalRequest): ChatTask {
  const beyondStrict = findBeyondStrict(body)
  const { promptTokens, maxPromptTokens } = measurePrompt(body)
  const task: ChatTask = {
    endpoint: 'chat',
    model: body.model,
    body,
    stream: body.stream === true,
    cap: body.max_completion_tokens ?? body.max_tokens ?? null,
    promptTokens,
    maxPromptTokens,
    user: body.user?.slice(0, MAX_USER_CHARS) ?? null,
    affinity: () => toAffinity(body.messages),
  }
  if (beyondStrict) task.beyondStrict = beyondStrict
  return task
}

/** Length of the beginning that identifies a conversation. */
const MAX_CHARS = 16_384

/** The constant part of a conversation: instructions and first question. */
export function toAffinity(messages: readonly Message[]): string {
  let text = ''
  for (const message of messages) {
    const { role } = message
    if (role === 'system' || role === 'developer' || role === 'user') text += `${role}\n${textOf(message)}\n`
    if (role === 'user') break
  }
  return text
}

function textOf({ content }: Message): string {
  const text = typeof content === 'string' ? content : (content ?? []).map(toMark).join('\n')
  return text.length > MAX_CHARS ? text.slice(0, MAX_CHARS) : text
}

type Part = Exclude<Message['content'], string | null | undefined>[number]

/** Images are identified by their end, since many have the same beginning. */
function toMark(part: Part): string {
  if (part.type === 'text') return part.text
  return part.type === 'image_url' ? part.image_url.url.slice(-256) : part.type
}
