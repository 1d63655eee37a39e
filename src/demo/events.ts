/**
 * Puts a reply of the demo model into the events of an answer: for a stream one batch for each token, with the choices
 * side by side; for a whole answer each part at once. Pure.
 */
import type { AnswerEvent, Logprobs, TokenLogprob } from '../domain/events.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { CallPart, Part, Reply } from './reply.ts'

/** What the model might have written instead; one more than a request may ask for besides the token itself. */
const ALTERNATIVES =
  ' the, a, demo, model, it, is, and, says, what, you, wrote, token, gate, this, that, of, to, in, not, or'.split(',')

/**
 * Converts a reply to batches of events, of which the last has each choice's finish, the usage and `done`. A whole
 * answer's are in two batches: what is said, and that last one. `toId` names the call at a place of a choice.
 */
export function toEvents(
  { choices, usage }: Reply,
  request: Pick<CanonicalRequest, 'stream' | 'logprobs' | 'top_logprobs'>,
  toId: (choice: number, index: number) => string,
): AnswerEvent[][] {
  const steps = choices.map(({ parts }, choice) => {
    let index = -1
    return parts.flatMap((part) => {
      if (isCall(part)) index += 1
      const pieces = request.stream && part.tokens.length > 0 ? part.tokens.map((token) => [token]) : [part.tokens]
      return pieces.map((tokens, at): AnswerEvent[] => {
        const text = tokens.join('')
        if (!isCall(part)) return [{ kind: part.kind, choice, text, ...toLogprobs(request, part, tokens) }]
        const { kind: type, name } = part
        const begun: AnswerEvent[] =
          at === 0 ? [{ kind: 'tool', choice, index, id: toId(choice, index), name, type }] : []
        return text === '' ? begun : [...begun, { kind: 'arguments', choice, index, text }]
      })
    })
  })
  const longest = Math.max(0, ...steps.map(({ length }) => length))
  const said = Array.from({ length: longest }, (_, at) => steps.flatMap((step) => step[at] ?? []))
  const ends = choices.map(({ finish }, choice): AnswerEvent => ({ kind: 'finish', choice, reason: finish }))
  return [...(request.stream ? said : [said.flat()]), [...ends, { kind: 'usage', usage }, { kind: 'done' }]]
}

const isCall = (part: Part): part is CallPart => 'name' in part

/** The figures are made up and add up: each token had a chance of one half, the next likeliest one of a quarter, and so on. */
function toLogprobs(
  { logprobs, top_logprobs }: Pick<CanonicalRequest, 'logprobs' | 'top_logprobs'>,
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
