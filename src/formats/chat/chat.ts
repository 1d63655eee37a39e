/** Chat completions, as a format that clients speak. Pure. */
import { allow } from '../../domain/error.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import type { Task } from '../../domain/task.ts'
import { estimatePrompt } from '../../tokens/estimate.ts'
import type { Format } from '../format.ts'
import { toAffinity } from './affinity.ts'
import { validate } from './validate.ts'
import { ChatWriter } from './writer.ts'

export const chat: Format = {
  endpoint: 'chat',
  toTask(body) {
    const request = validate(body)
    return request.ok ? allow(toTask(request.value)) : request
  },
  writer: (task, identity) => new ChatWriter(task, identity),
}

const MAX_USER_CHARS = 256

/** The task of a request that was checked. */
export const toTask = (body: CanonicalRequest): Task => ({
  endpoint: 'chat',
  model: body.model,
  body,
  stream: body.stream === true,
  choices: body.n ?? 1,
  cap: body.max_completion_tokens ?? body.max_tokens ?? null,
  promptTokens: estimatePrompt(body),
  user: body.user?.slice(0, MAX_USER_CHARS) ?? null,
  affinity: () => toAffinity(body.messages),
})
