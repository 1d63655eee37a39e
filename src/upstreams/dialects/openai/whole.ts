/** Reads a whole answer of the OpenAI format as events, in the order in which a stream says them. Pure. */
import type { AnswerEvent } from '../../../domain/events.ts'
import type { JsonObject } from '../../../domain/json.ts'
import type { Expected } from '../../backend.ts'
import { ChoiceDecoder } from './choice.ts'
import { toChoices } from './choices.ts'
import { toFinishReason, toKnownReason } from './finish.ts'
import { toLogprobs } from './logprobs.ts'
import { addOrigin } from './origin.ts'
import { toPlainText } from './texts.ts'
import { findUsage } from './usage.ts'

const NOTHING_FOUND = {}

/** All of its events, up to `done`. Choices beyond those that were asked for are left out. */
export function toEvents(answer: JsonObject, expected: Expected): AnswerEvent[] {
  const out: AnswerEvent[] = []
  const origin = addOrigin(NOTHING_FOUND, answer)
  if (origin !== NOTHING_FOUND) out.push({ kind: 'origin', origin })
  const choices = toChoices(answer.choices).slice(0, expected.choices)
  choices.forEach((choice, index) => {
    takeChoice(choice, index, expected, out)
  })
  const usage = findUsage(answer)
  if (usage) out.push({ kind: 'usage', usage })
  out.push({ kind: 'done' })
  return out
}

function takeChoice(choice: JsonObject, index: number, expected: Expected, out: AnswerEvent[]): void {
  const { message, finish_reason: reason } = choice
  const logprobs = expected.logprobs ? toLogprobs(choice.logprobs) : null
  const text = logprobs || expected.target.upstream.options.think_tags ? null : toPlainText(message)
  if (text?.isWellFormed()) {
    if (text !== '') out.push({ kind: 'text', choice: index, text })
    out.push({ kind: 'finish', choice: index, reason: toFinishReason(toKnownReason(reason), 'nothing') })
    return
  }
  const decoder = new ChoiceDecoder(expected, index)
  decoder.take(message, logprobs, out)
  decoder.finish(reason)
  decoder.end(out)
}
