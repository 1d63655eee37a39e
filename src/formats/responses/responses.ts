/** OpenAI's Responses API as a client format; stateless. */
import type { AnswerEvent, AnswerOrigin } from '../../domain/events.ts'
import type { ChatTask } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { openAiErrors } from '../chat/chat.ts'
import { type CountingFormat, type Format, type Identity, KEEP_ALIVE } from '../format.ts'
import { namesWith, toPassthroughWriters } from '../passthrough.ts'
import { Output, ResponsesWriter, toPassthroughFailure, toResponseJson } from './answer.ts'
import { toOwnParam } from './errors.ts'
import { optionsOf, toCountingTask, toTask } from './request.ts'

export const responses = {
  ...openAiErrors,
  error(refused) {
    const { error } = refused.toBody()
    return { error: { ...error, param: toOwnParam(error.param) } }
  },
  toTask,
  passthrough: toPassthroughWriters({
    toNames: namesWith('resp_'),
    keepAlive: KEEP_ALIVE,
    failure: toPassthroughFailure,
  }),
  whole: toWholeJson,
  writer: (task: ChatTask, identity) => new ResponsesWriter(task, identity),
} satisfies Format

export const responsesCounting: CountingFormat = {
  ids: responses.ids,
  answer: (input_tokens) => ({ object: 'response.input_tokens', input_tokens }),
  toTask: toCountingTask,
}

function toWholeJson(task: ChatTask, identity: Identity, events: readonly AnswerEvent[], receipt: Receipt): string {
  const options = optionsOf(task)
  const output = new Output(identity.id, options, () => {})
  let origin: AnswerOrigin = {}
  for (const event of events) {
    if (event.kind === 'origin') origin = event.origin
    output.take(event)
  }
  return toResponseJson(options, identity, { output: output.done, origin, reason: output.reason, receipt })
}
