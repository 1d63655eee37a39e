/** OpenAI, which stores reasoning, and OpenRouter, which returns it to be sent back; both strict. */
import { findWrongIds, IDS } from '../../gateway/vendors.ts'
import { findUnknown, STRICT } from '../../support/strict-openai.ts'
import type { Script } from '../../support/upstream.ts'
import { type Behaviour, errorAnswer, type StreamStep, toDelta } from '../../support/upstream-answers.ts'
import type { Turn } from './speakers.ts'

const OPENAI = STRICT.openai as (typeof STRICT)[string]
const OPENROUTER = {
  ...OPENAI,
  fields: `${OPENAI.fields} reasoning usage`,
  messages: {
    ...OPENAI.messages,
    assistant: `${OPENAI.messages.assistant} reasoning reasoning_content reasoning_details`,
    tool: `${OPENAI.messages.tool} cache_control`,
  },
  parts: `${OPENAI.parts} cache_control`,
}

const USAGE = {
  prompt_tokens: 40,
  completion_tokens: 12,
  total_tokens: 52,
  prompt_tokens_details: { cached_tokens: 8 },
  completion_tokens_details: { reasoning_tokens: 5 },
}

const playing =
  (rules: typeof OPENAI) =>
  (turns: readonly Turn[]): Script =>
  ({ json }) => {
    const wrong = findUnknown(json, rules) ?? findWrongIds(json, IDS.openai)
    if (wrong !== null) return errorAnswer(400, wrong)
    const said: unknown[] = Array.isArray(json?.messages) ? json.messages : []
    const at = said.filter((message) => JSON.stringify(message).includes('"tool_calls"')).length
    const turn = turns[at] ?? {}
    return json?.stream === true ? toStream(turn, at) : toWhole(turn, at)
  }

export const playOpenai = playing(OPENAI)
export const playOpenrouter = playing(OPENROUTER)

const toDetails = (reasoning: string, at: number) => [
  { type: 'reasoning.text', text: reasoning, signature: `signed-${at}`, format: 'anthropic-claude-v1', index: 0 },
  { type: 'reasoning.encrypted', data: `encrypted-${at}`, id: `rs_${at}`, format: 'openai-responses-v1', index: 1 },
]

const finishOf = ({ calls = [] }: Turn) => (calls.length > 0 ? 'tool_calls' : 'stop')

const toCall = (name: string, at: number, place: number, json: string) => ({
  index: place,
  id: `call_${at}_${place}`,
  type: 'function',
  function: { name, arguments: json },
})

function toWhole(turn: Turn, at: number): Behaviour {
  const { reasoning, text = null, calls = [] } = turn
  const message = {
    role: 'assistant',
    content: text,
    ...(reasoning === undefined ? {} : { reasoning, reasoning_details: toDetails(reasoning, at) }),
    ...(calls.length === 0
      ? {}
      : { tool_calls: calls.map(({ name, input }, place) => toCall(name, at, place, JSON.stringify(input))) }),
  }
  const choices = [{ index: 0, message, finish_reason: finishOf(turn) }]
  return { kind: 'whole', body: { id: 'x', object: 'chat.completion', created: 1, model: 'o', choices, usage: USAGE } }
}

/** Pieces of parallel calls alternate in the stream. */
function toStream(turn: Turn, at: number): Behaviour {
  const { reasoning, text = '', calls = [] } = turn
  const halves = calls.map(({ input }) => JSON.stringify(input).match(/^.{1,9}|.+$/gsu) ?? [])
  const pieces = [0, 1].flatMap((piece) =>
    halves.map((half, index) => ({ tool_calls: [{ index, function: { arguments: half[piece] ?? '' } }] })),
  )
  const deltas: Record<string, unknown>[] = [
    { role: 'assistant', content: '' },
    ...(reasoning === undefined
      ? []
      : toDetails(reasoning, at).map((detail, index) => ({
          ...(index === 0 ? { reasoning } : {}),
          reasoning_details: [detail],
        }))),
    ...(text === '' ? [] : [{ content: text.slice(0, 2) }, { content: text.slice(2) }]),
    ...calls.map(({ name }, place) => ({ tool_calls: [toCall(name, at, place, '')] })),
    ...pieces,
  ]
  const usage: StreamStep = { id: 'x', object: 'chat.completion.chunk', choices: [], usage: USAGE }
  return { kind: 'stream', steps: [...deltas.map((delta) => toDelta(delta)), toDelta({}, finishOf(turn)), usage] }
}
