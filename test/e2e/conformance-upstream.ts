/** An upstream that combines the mistakes of real servers: clients that call it directly fail. */
import type { Script } from '../support/upstream.ts'
import type { Behaviour, StreamStep } from '../support/upstream-answers.ts'

export const SLOPPY = 'acme/sloppy'

export interface Turn {
  reasoning?: string
  text?: string
  calls?: { name: string; input: Record<string, unknown> }[]
}

export const SLOPPY_USAGE = {
  prompt_tokens: 40,
  completion_tokens: 12,
  prompt_tokens_details: { cached_tokens: 8 },
  completion_tokens_details: { reasoning_tokens: 5 },
}

/** Plays the next turn after each tool result. */
export const sayBadly =
  (...turns: Turn[]): Script =>
  ({ json }) => {
    const messages: unknown[] = Array.isArray(json?.messages) ? json.messages : []
    const done = messages.filter((message) => JSON.stringify(message).includes('"tool_calls"')).length
    const turn = turns[done] ?? {}
    return json?.stream === true ? toStream(turn) : toWhole(turn)
  }

function toWhole({ reasoning, text, calls }: Turn): Behaviour {
  const message = {
    role: 'assistant',
    ...(text === undefined ? {} : { content: text }),
    ...(reasoning === undefined ? {} : { reasoning }),
    // Arguments as an object, without IDs and types.
    ...(calls ? { tool_calls: calls.map(({ name, input }) => ({ function: { name, arguments: input } })) } : {}),
  }
  const choices = [{ message, finish_reason: 'stop' }]
  return { kind: 'whole', body: { id: null, error: null, choices, usage: SLOPPY_USAGE } }
}

/** No index and no `[DONE]`; role in each delta, usage in each chunk; finish with the last words. */
function toStream({ reasoning, text, calls = [] }: Turn): Behaviour {
  const deltas: Record<string, unknown>[] = [
    ...toPieces(reasoning).map((piece) => ({ content: null, reasoning: piece })),
    ...toPieces(text).map((piece) => ({ content: piece })),
    ...calls.flatMap(({ name, input }) => [
      { content: '', tool_calls: [{ id: `call_${name}`, type: 'function', function: { name, arguments: '' } }] },
      ...toPieces(JSON.stringify(input)).map((piece) => ({ tool_calls: [{ function: { arguments: piece } }] })),
    ]),
  ]
  const steps: StreamStep[] = deltas.map((delta, at) => ({
    id: `chunk-${at}`,
    object: 'chat.completion.chunk',
    created: 1_700_000_000.5,
    model: 'sloppy-v1',
    error: null,
    choices: [{ delta: { role: 'assistant', ...delta }, finish_reason: at === deltas.length - 1 ? 'stop' : '' }],
    usage: { ...SLOPPY_USAGE, completion_tokens: Math.min(at + 1, SLOPPY_USAGE.completion_tokens) },
  }))
  const usage: StreamStep = { choices: null, usage: SLOPPY_USAGE }
  return { kind: 'stream', steps: [': still thinking\r\n\r\n', { choices: null }, ...steps, usage], end: 'eof' }
}

function toPieces(text = ''): string[] {
  const size = Math.ceil(text.length / 3)
  return [text.slice(0, size), text.slice(size, 2 * size), text.slice(2 * size)].filter((piece) => piece !== '')
}
