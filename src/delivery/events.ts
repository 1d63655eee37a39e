/**
 * Reads an answer as what was asked for: a whole one as the events of a stream where the client wants a stream. The
 * relay, `fanOut` and `enforce` read answers through it. Pure.
 */
import type { AnswerEvent, BackendAnswer, ChunkChoice, Completion, Origin } from '../domain/answer.ts'
import { toChoices } from '../upstreams/dialects/openai/choices.ts'

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

/** The events of an answer, streamed or whole. */
export function eventsOf(answer: BackendAnswer): AsyncIterable<AnswerEvent[]> {
  if (answer.kind === 'stream') return answer.events
  const { completion } = answer
  return {
    async *[Symbol.asyncIterator]() {
      yield toEvents(completion)
    },
  }
}

export type WholeAnswer = BackendAnswer & { kind: 'whole' }

/** For an answer that was asked for whole. Any other is a mistake of our own, and thrown as one. */
export function asWhole(answer: BackendAnswer): WholeAnswer {
  if (answer.kind === 'whole') return answer
  throw new Error('a whole answer was asked for, and a stream came')
}
