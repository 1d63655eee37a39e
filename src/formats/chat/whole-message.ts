/** Puts the deltas of one choice together into the message of a whole answer (contract, section 3a). Pure. */
import type { ChatMessage, Delta, ToolCall, ToolCallDelta } from '../../domain/answer.ts'

export function toMessage(deltas: readonly Delta[]): ChatMessage {
  let content = ''
  let refusal = ''
  const calls: ToolCall[] = []
  const message: ChatMessage = { role: 'assistant', content: null, refusal: null }
  for (const delta of deltas) {
    content += delta.content ?? ''
    refusal += delta.refusal ?? ''
    for (const call of delta.tool_calls ?? []) addCall(calls, call)
    if (delta.function_call) addFunctionCall(message, delta.function_call)
    if (delta.reasoning) {
      message.reasoning = (message.reasoning ?? '') + delta.reasoning
      message.reasoning_content = message.reasoning
    }
    if (delta.reasoning_details) {
      message.reasoning_details = [...(message.reasoning_details ?? []), ...delta.reasoning_details]
    }
    if (delta.annotations) {
      message.annotations = [...(message.annotations ?? []), ...delta.annotations.map(withoutIndex)]
    }
    if (delta.audio) message.audio = delta.audio
  }
  if (calls.length > 0) message.tool_calls = calls
  if (refusal !== '') message.refusal = refusal
  const instead = calls.length > 0 || message.function_call || message.audio || refusal !== ''
  message.content = content === '' && instead ? null : content
  return message
}

function addCall(calls: ToolCall[], { index, id, type, function: called, custom }: ToolCallDelta): void {
  const call = calls[index]
  if (call?.type === 'function') call.function.arguments += called?.arguments ?? ''
  else if (call?.type === 'custom') call.custom.input += custom?.input ?? ''
  else if (type === 'custom') {
    calls[index] = { id: id ?? '', type, custom: { name: custom?.name ?? '', input: custom?.input ?? '' } }
  } else {
    calls[index] = {
      id: id ?? '',
      type: 'function',
      function: { name: called?.name ?? '', arguments: called?.arguments ?? '' },
    }
  }
}

function addFunctionCall(message: ChatMessage, { name, arguments: text }: { name?: string; arguments?: string }): void {
  message.function_call ??= { name: name ?? '', arguments: '' }
  message.function_call.arguments += text ?? ''
}

/** Only a stream needs it. */
function withoutIndex(annotation: object): object {
  const { index: _, ...rest } = annotation as { index?: unknown }
  return rest
}
