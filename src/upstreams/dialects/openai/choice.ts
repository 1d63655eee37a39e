/**
 * Reads one choice of an answer, streamed or whole, whatever its upstream makes of the format (contract, section 8), and
 * says it again as deltas of the contract: one thing a delta, in the order thought, text, refusal, calls. A whole
 * message is one delta that says everything. Pure.
 */
import type { Delta, FinishReason } from '../../../domain/answer.ts'
import { asObject, type JsonObject } from '../../../domain/json.ts'
import { isCutShort, toFinishReason, toFinishWord } from './finish.ts'
import { createLegacyCall, type LegacyCall } from './function-call.ts'
import { isFinish } from './is-finish.ts'
import { createAnnotations, createDetails } from './items.ts'
import { createJoiner, type Joiner } from './join.ts'
import { toTexts } from './texts.ts'
import { createThinkSplitter } from './think.ts'
import { createToolCalls, type ToolCalls } from './tool-deltas.ts'

export interface ChoiceReader {
  /** Returns what may go out now. */
  take(delta: unknown): Delta[]
  /** Notes an upstream's finish reason; false where it is none. The first one that means something counts. */
  finish(reason: unknown): boolean
  /** What was held back, once nothing more comes. */
  end(): Delta[]
  /** Why it ended, by what was said; after `end`. */
  finishReason(): FinishReason
  /** Whether a piece of content goes out exactly as it comes. */
  passes(content: string): boolean
}

export interface ChoiceShape {
  thinkTags: boolean
  /** Gives the id of the tool call at a position, if it has none. */
  mintToolId(position: number): string
}

export function createChoiceReader({ thinkTags, mintToolId }: ChoiceShape): ChoiceReader {
  const think = thinkTags ? createThinkSplitter() : null
  const content = createJoiner()
  // Made where they are needed: most choices are content alone, and there may be a thousand streams.
  let reasoning: Joiner | null = null
  let refusal: Joiner | null = null
  let tools: ToolCalls | null = null
  let legacy: LegacyCall | null = null
  let toDetails: ((list: unknown) => object[]) | null = null
  let toAnnotations: ((list: unknown) => object[]) | null = null
  let word: FinishReason | null = null

  const joinReasoning = (text: string): string => {
    if (text !== '') reasoning ??= createJoiner()
    return reasoning?.take(text) ?? ''
  }
  const joinRefusal = (text: string): string => {
    if (text !== '') refusal ??= createJoiner()
    return refusal?.take(text) ?? ''
  }

  const thought = (text: string, details: object[]): Delta[] => {
    if (text === '' && details.length === 0) return []
    return [
      {
        ...(text === '' ? {} : { reasoning: text, reasoning_content: text }),
        ...(details.length === 0 ? {} : { reasoning_details: details }),
      },
    ]
  }
  const said = (text: string): Delta[] => (text === '' ? [] : [{ content: text }])
  const refused = (text: string): Delta[] => (text === '' ? [] : [{ refusal: text }])

  const takeTexts = (delta: JsonObject, calls: boolean): Delta[] => {
    const texts = toTexts(delta)
    if (think) {
      const parts = [think.take(texts.content), ...(calls ? [think.end()] : [])]
      texts.reasoning += parts.map((part) => part.reasoning).join('')
      texts.content = parts.map((part) => part.content).join('')
    }
    return [
      ...thought(joinReasoning(texts.reasoning), toDetails?.(delta.reasoning_details) ?? []),
      ...said(content.take(texts.content)),
      ...refused(joinRefusal(texts.refusal)),
    ]
  }

  return {
    take(value) {
      const delta = asObject(value)
      if (!delta) return []
      if (delta.tool_calls) tools ??= createToolCalls(mintToolId)
      if (delta.function_call) legacy ??= createLegacyCall()
      if (delta.annotations) toAnnotations ??= createAnnotations()
      if (delta.reasoning_details) toDetails ??= createDetails()
      const calls = tools?.take(delta.tool_calls) ?? []
      const called = legacy?.take(delta.function_call) ?? []
      const audio = asObject(delta.audio)
      const annotations = toAnnotations?.(delta.annotations) ?? []
      return [
        ...takeTexts(delta, calls.length > 0),
        ...(audio ? [{ audio: withoutNulls(audio) }] : []),
        ...(annotations.length > 0 ? [{ annotations }] : []),
        ...calls.map((call) => ({ tool_calls: [call] })),
        ...called.map((call) => ({ function_call: call })),
      ]
    },
    finish(reason) {
      word ??= toFinishWord(reason)
      return isFinish(reason)
    },
    end() {
      const rest = think?.end() ?? { reasoning: '', content: '' }
      const complete = !isCutShort(word)
      return [
        ...thought(joinReasoning(rest.reasoning) + (reasoning?.end() ?? ''), []),
        ...said(content.take(rest.content) + content.end()),
        ...refused(refusal?.end() ?? ''),
        ...(tools?.end(complete) ?? []).map((call) => ({ tool_calls: [call] })),
        ...(legacy?.end(complete) ?? []).map((call) => ({ function_call: call })),
      ]
    },
    finishReason: () => toFinishReason(word, tools?.any() ? 'tools' : legacy?.any() ? 'function' : 'nothing'),
    passes: (text) => text !== '' && (think?.past() ?? true) && content.idle() && text.isWellFormed(),
  }
}

const withoutNulls = (value: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null))
