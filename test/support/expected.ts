/** Compares a client's result with the quirks corpus. */
import { expect } from 'bun:test'
import type { ToolCall } from '../../src/formats/chat/answer.ts'
import type { Answer, Quirk } from '../fixtures/quirks/quirk.ts'
import type { ChoiceReport } from './contract-choice.ts'

const HELLO: readonly Answer[] = [{ content: 'Hello there!' }]

/** A failed response has no finish reason, whatever was sent before. */
export function expectAnswers(choices: readonly ChoiceReport[], { answers = HELLO, trimmed, error }: Quirk): void {
  const tidy = (text: string) => (trimmed ? text.trim() : text)
  const read = choices.map((choice) => ({
    content: tidy(choice.content),
    reasoning: tidy(choice.reasoning),
    refusal: choice.refusal,
    calls: choice.toolCalls.map((call, at) => toTuple(call, answers[choice.index]?.calls?.[at]?.[2] !== undefined)),
    functionCall: choice.functionCall,
    finish: error ? null : choice.finish,
    logprobs: choice.logprobs?.content?.map(({ token, logprob }) => [token, logprob]) ?? null,
  }))
  expect(read).toEqual(
    answers.map((answer) => ({
      content: answer.content ?? '',
      reasoning: answer.reasoning ?? '',
      refusal: answer.refusal ?? '',
      calls: (answer.calls ?? []).map((call) => [...call]),
      functionCall: answer.functionCall ?? null,
      finish: error ? null : (answer.finish ?? 'stop'),
      logprobs: answer.logprobs?.map((pair) => [...pair]) ?? null,
    })) as typeof read,
  )
}

/** The ID only if the upstream sent one. */
function toTuple(call: ToolCall, withId: boolean): string[] {
  const said =
    call.type === 'custom' ? [call.custom.name, call.custom.input] : [call.function.name, call.function.arguments]
  return withId ? [...said, call.id] : said
}
