/** Turns a whole answer into the events of a stream, for a client that asked for one: the relay's and `fanOut`'s. Pure. */
import type { AnswerEvent, ChunkChoice, Completion, Origin } from '../wire/chat.ts'
import { toChoices } from './choices.ts'

/** One chunk a choice, in order, whose delta is its whole message; then `done`. Usage is the call's own and not among them. */
export function toEvents(completion: Completion): AnswerEvent[] {
  const { choices, ...origin } = completion
  const events = toChoices(choices).map((choice, index): AnswerEvent => {
    return {
      chunk: {
        ...(origin as Origin),
        choices: [
          {
            index,
            delta: choice.message,
            finish_reason: choice.finish_reason,
            logprobs: choice.logprobs,
          } as ChunkChoice,
        ],
      },
    }
  })
  return [...events, { done: true }]
}
