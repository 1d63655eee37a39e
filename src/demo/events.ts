/**
 * Puts a reply of the demo model into the events of an answer: for a stream one batch for each token, with the choices
 * side by side; for a whole answer each part at once. Pure.
 */
import type { AnswerEvent, Logprobs, TokenLogprob } from '../domain/events.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Part, Reply } from './reply.ts'

/** What the model might have written instead; one more than a request may ask for besides the token itself. */
const ALTERNATIVES =
  ' the, a, demo, model, it, is, and, says, what, you, wrote, token, gate, this, that, of, to, in, not, or'.split(',')

type Request = Pick<CanonicalRequest, 'stream' | 'logprobs' | 'top_logprobs'>

/** Names the call at a place of a choice. */
type ToId = (choice: number, index: number) => string

/**
 * Converts a reply to batches of events: one for each token of a stream, one for all of a whole answer. The last ends in
 * each choice's finish, the usage and `done`.
 */
export function toEvents({ choices, usage }: Reply, request: Request, toId: ToId): AnswerEvent[][] {
  const steps = choices.map(({ parts }, choice) => toSteps(parts, choice, request, toId))
  const longest = Math.max(0, ...steps.map(({ length }) => length))
  const batches = Array.from({ length: longest }, (_, at) => steps.flatMap((step) => step[at] ?? []))
  const ends = choices.map(({ finish }, choice): AnswerEvent => ({ kind: 'finish', choice, reason: finish }))
  batches.push([...ends, { kind: 'usage', usage }, { kind: 'done' }])
  return request.stream ? batches : [batches.flat()]
}

/** What one choice says, step by step. What begins a call goes with the first of its arguments. */
function toSteps(parts: readonly Part[], choice: number, request: Request, toId: ToId): AnswerEvent[][] {
  let index = -1
  return parts.flatMap((part) => {
    const written = part.tokens.map((token) => token.toWellFormed())
    const pieces = request.stream ? written.map((token) => [token]) : written.length > 0 ? [written] : []
    if (!('name' in part))
      return pieces.map((tokens): AnswerEvent[] => [
        { kind: part.kind, choice, text: tokens.join(''), ...toLogprobs(request, part, tokens) },
      ])
    index += 1
    const { kind: type, name } = part
    const begun: AnswerEvent = { kind: 'tool', choice, index, id: toId(choice, index), name, type }
    const [first = [], ...rest] = pieces.map((tokens): AnswerEvent[] => [
      { kind: 'arguments', choice, index, text: tokens.join('') },
    ])
    return [[begun, ...first], ...rest]
  })
}

/** The figures are made up and add up: each token had a chance of one half, the next likeliest one of a quarter, and so on. */
function toLogprobs(
  { logprobs, top_logprobs }: Request,
  { kind }: Part,
  tokens: readonly string[],
): { logprobs?: Logprobs } {
  if (!logprobs || tokens.length === 0) return {}
  const rated = tokens.map((token) => rate(token, top_logprobs ?? 0))
  if (kind === 'text') return { logprobs: { content: rated, refusal: null } }
  return kind === 'refusal' ? { logprobs: { content: null, refusal: rated } } : {}
}

function rate(token: string, count: number): TokenLogprob {
  const likeliest = [token, ...ALTERNATIVES.filter((other) => other !== token)].slice(0, count)
  return { ...toRanked(token, 0), top_logprobs: likeliest.map(toRanked) }
}

const toRanked = (token: string, rank: number) => ({
  token,
  logprob: -(rank + 1) * Math.LN2,
  bytes: [...Buffer.from(token)],
})
