/** How chaos upstreams play the faults of `faults.ts`. */
import { type Behaviour, type StreamStep, toDelta } from '../../support/upstream-answers.ts'
import type { Tokens } from './catalog.ts'
import type { Asked, Fault, Said } from './faults.ts'

/** At least two, so that some output comes before an interruption. */
export const toPieces = (text: string) => text.match(/[^ ,]+[ ,]*|[ ,]+/g) ?? []

export function toBehaviour(
  random: () => number,
  fault: Fault,
  asked: Asked,
  said: readonly Said[],
  usage: Tokens | null,
): Behaviour {
  if (fault === 'reset' || fault === 'refuse') return { kind: 'reset' }
  if (fault === 'silent') return { kind: 'silent' }
  const status = toStatusAnswer(random, fault, asked)
  if (status) return status
  const delayMs = fault === 'quiet' ? 1_300 + Math.floor(random() * 300) : Math.floor(random() ** 3 * 60)
  if (!asked.stream) return toWhole(fault, delayMs, said, usage)
  const all = toSteps(said, usage)
  const words = all.slice(0, said.length + 1 + Math.floor(random() * 2))
  const last = BREAKS[fault]
  const stream = { kind: 'stream', delayMs, paceMs: Math.floor(random() * 6) } as const
  if (last)
    return { ...stream, steps: [...(last.after === 'words' ? words : []), ...(last.steps ?? [])], end: last.end }
  if (fault === 'hang_role') return { ...stream, steps: all.slice(0, said.length), end: 'hang' }
  if (fault === 'bare') return { ...stream, steps: [] }
  if (fault === 'lull') return { ...stream, steps: [...words, { waitMs: 1_350 }, ...all.slice(words.length)] }
  const isLarge = said.some(({ text }) => text.length > 100_000)
  return {
    ...stream,
    ...(isLarge ? { paceMs: 0 } : {}),
    steps: all,
    ...(fault === 'bytes' ? { bytesPerWrite: 3 } : {}),
  }
}

const toError = (message: string, type: string) => ({ error: { message, type, param: null, code: null } })
const FRAME_500 = toError('scripted breakdown', 'server_error')
const FRAME_503 = toError('scripted overload', 'overloaded_error')
const HALF_FRAME = 'data: {"choices": [{"index":0,"del\n\n'

interface Break {
  after: 'nothing' | 'words'
  steps?: readonly StreamStep[]
  end: 'done' | 'eof' | 'cut' | 'reset' | 'hang'
}

const BREAKS: Partial<Record<Fault, Break>> = {
  empty: { after: 'nothing', end: 'eof' },
  garbage: { after: 'nothing', steps: [HALF_FRAME], end: 'done' },
  frame_500: { after: 'nothing', steps: [FRAME_500], end: 'done' },
  frame_503: { after: 'nothing', steps: [FRAME_503], end: 'done' },
  cut: { after: 'words', end: 'cut' },
  cut_reset: { after: 'words', end: 'reset' },
  cut_eof: { after: 'words', end: 'eof' },
  cut_hang: { after: 'words', end: 'hang' },
  cut_500: { after: 'words', steps: [FRAME_500], end: 'done' },
  cut_503: { after: 'words', steps: [FRAME_503], end: 'done' },
  cut_garbage: { after: 'words', steps: [HALF_FRAME], end: 'done' },
}

/** An upstream's 400, which clients should read. */
export const REJECTION = {
  message: 'scripted refusal',
  type: 'invalid_request_error',
  param: 'messages',
  code: 'scripted_reject',
}

function toStatusAnswer(random: () => number, fault: Fault, { credential }: Asked): Behaviour | null {
  const answer = (status: number, body: unknown, headers: Record<string, string> = {}): Behaviour => ({
    kind: 'whole',
    status,
    body,
    headers,
  })
  // Some echo the request, which clients must not get.
  if (fault === 's400')
    return answer(400, { error: { ...REJECTION, message: `${REJECTION.message} of ${credential}` } })
  if (fault === 's401')
    return answer(401, toError(`Incorrect API key provided: ${credential}`, 'invalid_request_error'))
  if (fault === 's404') return answer(404, toError('no such model', 'invalid_request_error'))
  if (fault === 's429')
    return answer(429, toError('slow down', 'requests'), { 'retry-after': random() < 0.5 ? '1' : '20' })
  if (fault === 's500') return answer(500, toError('scripted breakdown', 'server_error'))
  if (fault === 's503') return answer(503, toError('scripted overload', 'server_error'), { 'retry-after': '2' })
  if (fault === 'html') return answer(200, '<html><body>It works!</body></html>')
  return null
}

/** Half of a body, if a response without a stream is interrupted. */
const WHOLE_ENDS: Partial<Record<Fault, Break['end']>> = {
  cut: 'cut',
  cut_reset: 'reset',
  cut_eof: 'eof',
  cut_hang: 'hang',
  hang_role: 'hang',
  garbage: 'eof',
  empty: 'eof',
}
const WHOLE_ERRORS: Partial<Record<Fault, object>> = {
  frame_500: FRAME_500,
  frame_503: FRAME_503,
  cut_500: FRAME_500,
  cut_503: FRAME_503,
  cut_garbage: { object: 'chat.completion' },
}

function toWhole(fault: Fault, delayMs: number, said: readonly Said[], usage: Tokens | null): Behaviour {
  const end = WHOLE_ENDS[fault]
  const body = {
    id: 'chatcmpl-upstream',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'upstream-model',
    choices: said.map((each, index) => ({
      index,
      message: { role: 'assistant', refusal: null, ...toMessage(each, index) },
      finish_reason: each.tool ? 'tool_calls' : 'stop',
      logprobs: null,
    })),
    ...(usage ? { usage: toWire(usage) } : {}),
  }
  if (!end) return { kind: 'whole', delayMs, body: WHOLE_ERRORS[fault] ?? body }
  const text = JSON.stringify(body)
  const steps = fault === 'empty' ? [] : [text.slice(0, text.length / 2)]
  return { kind: 'stream', headers: { 'content-type': 'application/json' }, delayMs, steps, end }
}

const toMessage = ({ tool, text }: Said, index: number) =>
  tool
    ? {
        content: null,
        tool_calls: [{ id: `call_${index}`, type: 'function', function: { name: 'lookup', arguments: text } }],
      }
    : { content: text }

const toWire = ({ prompt, cached, completion }: Tokens) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: { cached_tokens: cached },
})

/** Roles, the words of all choices in turn, their ends, and the usage. */
function toSteps(said: readonly Said[], usage: Tokens | null): StreamStep[] {
  const roles = said.map((_, index) => toDelta({ role: 'assistant', content: '' }, null, index))
  const pieces = said.map(({ text }) => toPieces(text))
  const words: StreamStep[] = []
  for (let at = 0; pieces.some((each) => at < each.length); at++) {
    for (const [index, each] of pieces.entries()) {
      const piece = each[at]
      if (piece !== undefined) words.push(toWord(said[index]?.tool === true, piece, at === 0, index))
    }
  }
  const ends = said.map(({ tool }, index) => toDelta({}, tool ? 'tool_calls' : 'stop', index))
  const last = usage ? [{ object: 'chat.completion.chunk', choices: [], usage: toWire(usage) }] : []
  return [...roles, ...words, ...ends, ...last]
}

function toWord(tool: boolean, piece: string, first: boolean, index: number): StreamStep {
  if (!tool) return toDelta({ content: piece }, null, index)
  const head = first ? { id: `call_${index}`, type: 'function' } : {}
  const named = first ? { name: 'lookup' } : {}
  return toDelta({ tool_calls: [{ index: 0, ...head, function: { ...named, arguments: piece } }] }, null, index)
}
