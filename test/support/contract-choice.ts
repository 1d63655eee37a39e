/** What a client accumulates of one streamed choice, and the rules of each delta. */
import type { Logprobs } from '../../src/domain/events.ts'
import type { FunctionCall, ToolCall } from '../../src/formats/chat/answer.ts'
import {
  checkFinish,
  checkKeys,
  checkLogprobs,
  checkReasoning,
  isCount,
  isObject,
  type Json,
  type JsonObject,
  must,
  SAID_KEYS,
} from './contract-parts.ts'

/** The same whole and streamed; missing texts are empty. */
export interface ChoiceReport {
  index: number
  content: string
  reasoning: string
  refusal: string
  toolCalls: ToolCall[]
  functionCall: FunctionCall | null
  /** Null only if the stream was interrupted. */
  finish: string | null
  logprobs: Logprobs | null
}

export const emptyChoice = (index: number): ChoiceReport => ({
  index,
  content: '',
  reasoning: '',
  refusal: '',
  toolCalls: [],
  functionCall: null,
  finish: null,
  logprobs: null,
})

const CHOICE_KEYS = ['index', 'delta', 'finish_reason', 'logprobs']

/** Adds a chunk's choice; `first` if it is the choice's first. */
export function takeChoice(report: ChoiceReport, choice: JsonObject, first: boolean): void {
  checkKeys(choice, 'a chunk', CHOICE_KEYS, ['finish_reason', 'logprobs'])
  const { delta, finish_reason: finish } = choice
  must(4, finish !== undefined, 'finish_reason is in every choice')
  must(4, report.finish === null, 'nothing of a choice follows its finish')
  must('a chunk', isObject(delta), 'delta is an object')
  checkKeys(delta, 'a chunk', SAID_KEYS, first ? ['content', 'refusal'] : [])
  takeRole(delta, first)
  takeLogprobs(report, checkLogprobs(choice.logprobs))
  if (finish !== null) {
    must(7, !first, 'the role comes before the finish')
    must(4, Object.keys(delta).length === 0, 'the delta of the finish is empty')
    report.finish = checkFinish(finish, report)
    return
  }
  report.reasoning += checkReasoning(delta, true)
  report.content += toText(delta.content, 'content')
  report.refusal += toText(delta.refusal, 'refusal')
  if (delta.tool_calls !== undefined) takeToolCalls(report.toolCalls, delta.tool_calls)
  if (delta.function_call !== undefined) takeFunctionCall(report, delta.function_call)
}

function takeRole(delta: JsonObject, first: boolean): void {
  must(7, first || !('role' in delta), 'the role is in the first delta only')
  if (!first) return
  must(7, delta.role === 'assistant', 'the first delta says the role "assistant"')
  must('a chunk', 'content' in delta && 'refusal' in delta, 'the first delta has content and refusal')
  must('a chunk', !delta.content && delta.refusal === null, 'the first delta says nothing yet')
}

function toText(value: Json | undefined, name: string): string {
  must('a chunk', value === undefined || value === null || typeof value === 'string', `${name} is a string`)
  return value ?? ''
}

function takeLogprobs(report: ChoiceReport, logprobs: Logprobs | null): void {
  if (logprobs === null) return
  report.logprobs ??= { content: null, refusal: null }
  for (const key of ['content', 'refusal'] as const) {
    if (logprobs[key]) report.logprobs[key] = [...(report.logprobs[key] ?? []), ...logprobs[key]]
  }
}

function takeToolCalls(calls: ToolCall[], deltas: Json): void {
  must(2, Array.isArray(deltas) && deltas.length > 0, 'tool_calls of a delta are an array that is not empty')
  for (const delta of deltas) {
    must(2, isObject(delta), 'a tool call of a delta is an object')
    const { index } = delta
    must(2, isCount(index), `a tool call of a delta has an integer index, not ${JSON.stringify(index)}`)
    must(2, index <= calls.length, `indexes of tool calls have no gap: ${index} came after ${calls.length} calls`)
    checkKeys(delta, 'check 2', ['index', 'id', 'type', 'function', 'custom', 'extra_content'], [])
    const call = calls[index]
    if (call) takeFragment(call, delta)
    else calls.push(beginCall(delta, calls))
  }
}

function beginCall({ id, type, function: called, custom }: JsonObject, calls: ToolCall[]): ToolCall {
  must(2, typeof id === 'string' && id !== '', 'the first delta of a tool call has its id')
  must(
    2,
    calls.every((call) => call.id !== id),
    `ids of tool calls differ, unlike "${id}"`,
  )
  if (type === 'custom') {
    must(2, isObject(custom) && called === undefined, 'a custom tool call has a custom object')
    const { name, input } = custom
    must(2, typeof name === 'string' && name !== '', 'the first delta of a tool call has its name')
    must(2, typeof input === 'string', 'input is a string')
    return { id, type, custom: { name, input } }
  }
  must(2, type === 'function', `the first delta of a tool call has its type, not ${JSON.stringify(type)}`)
  must(2, isObject(called) && custom === undefined, 'every delta of a tool call has a function object')
  const { name, arguments: text } = called
  must(2, typeof name === 'string' && name !== '', 'the first delta of a tool call has its name')
  must(2, typeof text === 'string', 'arguments are a string')
  return { id, type, function: { name, arguments: text } }
}

function takeFragment(call: ToolCall, delta: JsonObject): void {
  must(2, !('id' in delta) && !('type' in delta), 'id and type of a tool call come once')
  const part = call.type === 'custom' ? delta.custom : delta.function
  must(2, isObject(part), `every delta of a tool call has a ${call.type} object`)
  must(2, !('name' in part), 'the name of a tool call comes once')
  const text = call.type === 'custom' ? part.input : part.arguments
  must(2, typeof text === 'string', 'a fragment of a tool call is a string')
  if (call.type === 'custom') call.custom.input += text
  else call.function.arguments += text
}

function takeFunctionCall(report: ChoiceReport, delta: Json): void {
  must(2, isObject(delta), 'function_call is an object')
  const { name, arguments: text } = delta
  must(2, typeof text === 'string', 'arguments of a function call are a string')
  if (report.functionCall) {
    must(2, name === undefined, 'the name of a function call comes once')
    report.functionCall.arguments += text
    return
  }
  must(2, typeof name === 'string' && name !== '', 'the first delta of a function call has its name')
  report.functionCall = { name, arguments: text }
}
