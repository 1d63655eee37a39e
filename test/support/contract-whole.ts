/** The rules of a whole choice, as a client of the stream would accumulate it. */
import type { ToolCall } from '../../src/formats/chat/answer.ts'
import { type ChoiceReport, emptyChoice } from './contract-choice.ts'
import {
  checkFinish,
  checkKeys,
  checkLogprobs,
  checkReasoning,
  isObject,
  type Json,
  type JsonObject,
  must,
  SAID_KEYS,
} from './contract-parts.ts'

export function toWholeChoice(choice: Json, position: number): ChoiceReport {
  must(17, isObject(choice), 'a choice is an object')
  const required = ['index', 'finish_reason', 'message', 'logprobs']
  checkKeys(choice, 'a whole answer', required, ['finish_reason', 'logprobs'])
  for (const key of required) must(17, key in choice, `a choice always has "${key}"`)
  const { index, message } = choice
  must(21, index === position, `choices stand in the order of their index: ${JSON.stringify(index)} is at ${position}`)
  must(17, isObject(message), 'a choice has a message')
  checkKeys(message, 'a whole answer', SAID_KEYS, ['content', 'refusal'])
  must(7, message.role === 'assistant', 'the role is "assistant"')
  const report = emptyChoice(position)
  report.content = toText(message, 'content')
  report.refusal = toText(message, 'refusal')
  must(17, Array.isArray(message.annotations), 'a message always has annotations')
  report.reasoning = checkReasoning(message, false)
  report.toolCalls = toToolCalls(message.tool_calls)
  report.functionCall = toFunctionCall(message.function_call)
  report.logprobs = checkLogprobs(choice.logprobs)
  report.finish = checkFinish(choice.finish_reason, report)
  return report
}

function toText(message: JsonObject, key: string): string {
  const value = message[key]
  must(17, value !== undefined, `a message always has "${key}"`)
  must(17, value === null || typeof value === 'string', `${key} is a string or null`)
  return value ?? ''
}

function toToolCalls(calls: Json | undefined): ToolCall[] {
  if (calls === undefined) return []
  must(2, Array.isArray(calls) && calls.length > 0, 'tool_calls are left out rather than empty')
  const ids = new Set<string>()
  return calls.map((call): ToolCall => {
    must(2, isObject(call), 'a tool call is an object')
    const { id, type } = call
    must(2, typeof id === 'string' && id !== '' && !ids.has(id), 'a tool call has an id of its own')
    ids.add(id)
    must(2, type === 'function' || type === 'custom', `a tool call has its type, not ${JSON.stringify(type)}`)
    const called = call[type]
    must(2, isObject(called), `a tool call has a ${type} object`)
    const { name } = called
    must(2, typeof name === 'string' && name !== '', 'a tool call has a name')
    const text = type === 'custom' ? called.input : called.arguments
    must(2, typeof text === 'string', 'arguments are a string')
    return type === 'custom'
      ? { id, type, custom: { name, input: text } }
      : { id, type, function: { name, arguments: text } }
  })
}

function toFunctionCall(call: Json | undefined): ChoiceReport['functionCall'] {
  if (call === undefined) return null
  must(2, isObject(call), 'function_call is an object')
  const { name, arguments: text } = call
  must(2, typeof name === 'string' && name !== '' && typeof text === 'string', 'a function call has name and arguments')
  return { name, arguments: text }
}
