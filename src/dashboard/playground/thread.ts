/**
 * The thread: rounds, each of them what is asked and the answers to it, of one model or of two side by side. Everything here makes a new
 * thread of an old one. Pure.
 */

export type Side = 0 | 1

export interface Picture {
  name: string
  /** A `data:` URL. */
  url: string
}

export interface Call {
  id: string
  kind: 'function' | 'custom'
  name: string
  /** Or its input: JSON as the model wrote it, or any text. */
  input: string
  /** What the tool has returned, as somebody typed it; null before. */
  result: string | null
}

/** `cut`: it broke off by itself. `failed`: nothing of it came. */
export type AnswerState = 'waiting' | 'streaming' | 'done' | 'stopped' | 'cut' | 'failed'

export interface Answer {
  id: number
  /** Null: written by hand. */
  model: string | null
  state: AnswerState
  text: string
  reasoning: string
  refusal: string
  calls: readonly Call[]
  /** Why it ended, as the API says it: `stop`, `length` … */
  finish: string | null
  /** Why there is no more of it, or what to know of it, in a sentence. */
  problem: string | null
  requestId: string | null
  /** How many tokens the request has, by its bytes. */
  promptTokens: number
  /** Of all that was written, in UTF-8. */
  bytes: number
  usage: AnswerUsage | null
  /** By one clock, whichever. */
  startedMs: number
  firstMs: number | null
  endedMs: number | null
}

export interface AnswerUsage {
  promptTokens: number
  completionTokens: number
  reasoningTokens: number
  costNanoUsd: number
}

export interface Round {
  id: number
  text: string
  pictures: readonly Picture[]
  answers: readonly [readonly Answer[], readonly Answer[]]
}

export type Thread = readonly Round[]

export const newRound = (id: number, text: string, pictures: readonly Picture[]): Round => ({
  ...{ id, text, pictures },
  answers: [[], []],
})

/** @param model null for one that is written by hand. */
export const newAnswer = (id: number, model: string | null, startedMs: number, promptTokens = 0): Answer => ({
  ...{ id, model, state: model === null ? 'done' : 'waiting', text: '', reasoning: '', refusal: '', calls: [] },
  ...{ finish: null, problem: null, requestId: null, promptTokens, bytes: 0, usage: null },
  ...{ startedMs, firstMs: null, endedMs: null },
})

export const isRunning = ({ state }: Answer): boolean => state === 'waiting' || state === 'streaming'

/** Whether there is anything in it that a model could be told again. */
export const hasContent = ({ text, refusal, calls, state }: Answer): boolean =>
  text !== '' || refusal !== '' || (calls.length > 0 && state === 'done')

export const changeRound = (thread: Thread, id: number, change: (round: Round) => Round): Thread =>
  thread.map((round) => (round.id === id ? change(round) : round))

export const removeRound = (thread: Thread, id: number): Thread => thread.filter((round) => round.id !== id)

const withSide = (round: Round, side: Side, answers: readonly Answer[]): Round => ({
  ...round,
  answers: side === 0 ? [answers, round.answers[1]] : [round.answers[0], answers],
})

/** Behind those that are there; what failed gives way to it. */
export const addAnswer = (thread: Thread, roundId: number, side: Side, answer: Answer): Thread =>
  changeRound(thread, roundId, (round) =>
    withSide(round, side, [...round.answers[side].filter((one) => hasContent(one) || isRunning(one)), answer]),
  )

/** Puts another in the place of one, and of all that came behind it in its round. */
export function replaceAnswer(thread: Thread, id: number, answer: Answer): Thread {
  const place = findAnswer(thread, id)
  if (!place) return thread
  const { round, side, at } = place
  return changeRound(thread, round.id, (one) => withSide(one, side, [...one.answers[side].slice(0, at), answer]))
}

export function changeAnswer(thread: Thread, id: number, change: (answer: Answer) => Answer): Thread {
  const place = findAnswer(thread, id)
  if (!place) return thread
  const { round, side } = place
  return changeRound(thread, round.id, (one) =>
    withSide(
      one,
      side,
      one.answers[side].map((answer) => (answer.id === id ? change(answer) : answer)),
    ),
  )
}

/** Each of them. */
export const changeAnswers = (thread: Thread, change: (answer: Answer) => Answer): Thread =>
  thread.map((round) => ({ ...round, answers: [round.answers[0].map(change), round.answers[1].map(change)] }))

export function removeAnswer(thread: Thread, id: number): Thread {
  const place = findAnswer(thread, id)
  if (!place) return thread
  return changeRound(thread, place.round.id, (round) =>
    withSide(
      round,
      place.side,
      round.answers[place.side].filter((answer) => answer.id !== id),
    ),
  )
}

interface Place {
  round: Round
  side: Side
  /** Among the answers of its side. */
  at: number
}

function findAnswer(thread: Thread, id: number): Place | null {
  for (const round of thread)
    for (const side of [0, 1] as const) {
      const at = round.answers[side].findIndex((answer) => answer.id === id)
      if (at >= 0) return { round, side, at }
    }
  return null
}

/** Without the answers to a round, before it is asked anew. */
export const dropAnswers = (thread: Thread, roundId: number): Thread =>
  changeRound(thread, roundId, (round) => ({ ...round, answers: [[], []] }))

/**
 * With what was said to the first model as the past of the second one, where that has none of its own, but for the last round: that is for
 * it to answer.
 */
export const beginSecond = (thread: Thread, newId: () => number): Thread =>
  thread.map((round, at) =>
    at === thread.length - 1 || round.answers[1].length > 0
      ? round
      : withSide(
          round,
          1,
          round.answers[0].map((answer) => ({ ...answer, id: newId() })),
        ),
  )

/** Without the side of one model; the other one is the first then. */
export const dropSide = (thread: Thread, dropped: Side): Thread =>
  thread.map((round) => ({ ...round, answers: [round.answers[dropped === 0 ? 1 : 0], []] }))

export const answersOf = (thread: Thread): Answer[] => thread.flatMap(({ answers }) => answers.flat())

/** The last thing on a side that a model was told or has said. */
export const lastAnswer = (thread: Thread, side: Side): Answer | null =>
  thread.at(-1)?.answers[side].findLast(hasContent) ?? null

/** Calls of tools whose result nobody has typed yet. */
export const openCalls = (answer: Answer | null): readonly Call[] =>
  answer?.state === 'done' ? answer.calls.filter(({ result }) => result === null) : []

/** Whether it is a model's turn on this side: something was asked, or all of its tools have answered. */
export function isDue(thread: Thread, side: Side): boolean {
  if (thread.length === 0 || thread.at(-1)?.answers[side].some(isRunning)) return false
  const last = lastAnswer(thread, side)
  return last === null || (last.state === 'done' && last.calls.length > 0 && openCalls(last).length === 0)
}
