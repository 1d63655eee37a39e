/** Anthropic's Messages API as a client format. */
import { GatewayError } from '../../domain/error.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import type { ChatTask } from '../../domain/task.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { toPassthroughRequest } from '../../upstreams/dialects/passthrough.ts'
import { toAffinity } from '../chat/chat.ts'
import type { CountingFormat, Format } from '../format.ts'
import { namesWith, toPassthroughWriters, withPassthrough } from '../passthrough.ts'
import { MessagesWriter, PING, toErrorFrame, toMessageJson } from './answer.ts'
import { anthropicErrors } from './errors.ts'
import { toCanonical, toPromptOnly, validateCount, validateMessages } from './request.ts'

export const messages = {
  ...anthropicErrors,
  toTask(body, raw) {
    const request = validateMessages(body)
    if (request instanceof GatewayError) return request
    const canonical = toCanonical(request)
    if (canonical instanceof GatewayError) return canonical
    return withPassthrough(toTask(canonical), toPassthroughRequest('messages', body, raw))
  },
  passthrough: toPassthroughWriters({ toNames: namesWith('msg_'), keepAlive: PING, failure: toErrorFrame }),
  whole: (task: ChatTask, identity, events, receipt) => toMessageJson(task, identity, events, receipt),
  writer: (task: ChatTask, identity) => new MessagesWriter(task, identity),
} satisfies Format

export const messagesCounting: CountingFormat = {
  ids: messages.ids,
  answer: (input_tokens) => ({ input_tokens }),
  toTask(body) {
    const request = validateCount(body)
    if (request instanceof GatewayError) return request
    const canonical = toPromptOnly(request)
    return canonical instanceof GatewayError ? canonical : toTask(canonical)
  },
}

const toTask = (body: CanonicalRequest): ChatTask => ({
  endpoint: 'messages',
  model: body.model,
  body,
  stream: body.stream === true,
  cap: body.max_tokens ?? null,
  ...measurePrompt(body),
  user: body.user ?? null,
  affinity: () => toAffinity(body.messages),
  isForAnyModel: true,
})
