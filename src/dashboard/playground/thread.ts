/**
 * The thread: rounds, each of them what is asked and the answers to it, of one model or of two side by side. Everything here makes a new
 * thread of an old one. Pure.
 */
import type { PricingItem } from '../../domain/usage.ts'
import { toPrices } from '../figures/figures.ts'

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

/** With other answers on the sides of its rounds. */
const changeSides = (
  thread: Thread,
  change: (answers: readonly Answer[], round: Round, side: Side) => readonly Answer[],
) =>
  thread.map((round): Round => {
    const [first, second] = round.answers
    return { ...round, answers: [change(first, round, 0), change(second, round, 1)] }
  })

/** Behind those that are there; what failed gives way to it. */
export const addAnswer = (thread: Thread, roundId: number, of: Side, answer: Answer): Thread =>
  changeSides(thread, (answers, { id }, side) =>
    id === roundId && side === of ? [...answers.filter((one) => hasContent(one) || isRunning(one)), answer] : answers,
  )

/** Puts another in the place of one, and of all that came behind it in its round. */
export const replaceAnswer = (thread: Thread, id: number, answer: Answer): Thread =>
  changeSides(thread, (answers) => {
    const at = answers.findIndex((one) => one.id === id)
    return at < 0 ? answers : [...answers.slice(0, at), answer]
  })

/** Each of them. */
export const changeAnswers = (thread: Thread, change: (answer: Answer) => Answer): Thread =>
  changeSides(thread, (answers) => answers.map(change))

export const changeAnswer = (thread: Thread, id: number, change: (answer: Answer) => Answer): Thread =>
  changeAnswers(thread, (answer) => (answer.id === id ? change(answer) : answer))

export const removeAnswer = (thread: Thread, id: number): Thread =>
  changeSides(thread, (answers) => answers.filter((answer) => answer.id !== id))

/** Without the answers to a round, before it is asked anew. */
export const dropAnswers = (thread: Thread, roundId: number): Thread =>
  changeSides(thread, (answers, { id }) => (id === roundId ? [] : answers))

/**
 * With what was said to the first model as the past of the second one, where that has none of its own, but for the last round: that is for
 * it to answer.
 */
export const beginSecond = (thread: Thread, newId: () => number): Thread =>
  changeSides(thread, (answers, round, side) =>
    side === 1 && answers.length === 0 && round !== thread.at(-1)
      ? round.answers[0].map((answer) => ({ ...answer, id: newId() }))
      : answers,
  )

/** Without the side of one model; the other one is the first then. */
export const dropSide = (thread: Thread, dropped: Side): Thread =>
  changeSides(thread, (_, { answers }, side) => (side === 0 ? answers[dropped === 0 ? 1 : 0] : []))

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

/** What the gateway takes. */
const MAX_BODY_BYTES = 32 * 1024 ** 2
/** As much becomes four thirds of it on its way into text. */
const MAX_PICTURE_BYTES = 23 * 1024 ** 2
/** Which pictures models take. */
export const PICTURE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']

type Message = Record<string, unknown>

/** @param before an answer: only what stands before it is said; null for all of it. */
export function toMessages(system: string, thread: Thread, side: Side, before: number | null = null): Message[] {
  const messages: Message[] = system.trim() === '' ? [] : [{ role: 'system', content: system }]
  for (const round of thread) {
    messages.push(toQuestion(round))
    for (const answer of round.answers[side]) {
      if (answer.id === before) return messages
      if (hasContent(answer)) messages.push(...toAnswer(answer))
    }
  }
  return messages
}

function toQuestion({ text, pictures }: Pick<Round, 'text' | 'pictures'>): Message {
  if (pictures.length === 0) return { role: 'user', content: text }
  const parts = pictures.map(({ url }) => ({ type: 'image_url', image_url: { url } }))
  return { role: 'user', content: [...(text === '' ? [] : [{ type: 'text', text }]), ...parts] }
}

function toAnswer({ text, reasoning, refusal, calls, state }: Answer): Message[] {
  const isCalling = calls.length > 0 && state === 'done'
  const message: Message = { role: 'assistant', content: text === '' && (isCalling || refusal !== '') ? null : text }
  if (refusal !== '') message.refusal = refusal
  if (!isCalling) return [message]
  message.tool_calls = calls.map(toCall)
  // Some models go on thinking where they were, once their tools have answered.
  if (reasoning !== '') message.reasoning_content = reasoning
  return [message, ...calls.map(({ id, result }) => ({ role: 'tool', tool_call_id: id, content: result ?? '' }))]
}

const toCall = ({ id, kind, name, input }: Call): object =>
  kind === 'custom'
    ? { id, type: kind, custom: { name, input } }
    : { id, type: kind, function: { name, arguments: input } }

export const toBody = (model: string, messages: readonly Message[], fields: Readonly<Record<string, unknown>>) => ({
  ...{ model, messages, stream: true, stream_options: { include_usage: true } },
  ...fields,
})

/** The request as somebody would make it who goes on from here: with what is being typed, or else the one that was asked last. */
export function toCodeBody(
  model: string,
  { system, thread, side }: { system: string; thread: Thread; side: Side },
  draft: Pick<Round, 'text' | 'pictures'>,
  fields: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const messages = toMessages(system, thread, side)
  const isTyping = draft.text.trim() !== '' || draft.pictures.length > 0
  if (isTyping) messages.push(toQuestion(draft))
  while (messages.at(-1)?.role === 'assistant') messages.pop()
  if (!messages.some(({ role }) => role !== 'system')) messages.push({ role: 'user', content: 'Hello' })
  return { model, messages, stream: true, ...fields }
}

/** Why a file is no picture for a model; null where it is one. */
export function checkPicture({ name, type, size }: { name: string; type: string; size: number }): string | null {
  if (!PICTURE_TYPES.includes(type)) return `${name} is no picture that models take: PNG, JPEG, WebP or GIF.`
  if (size <= MAX_PICTURE_BYTES) return null
  return `${name} has ${Math.ceil(size / 1024 ** 2)} MB, and a request has room for 23 MB of pictures. Make it smaller.`
}

/** Why a body is not even sent; null where it may be. */
export function toTooLong(json: string): string | null {
  // No character takes fewer bytes than one.
  const bytes = json.length > MAX_BODY_BYTES ? json.length : new TextEncoder().encode(json).length
  if (bytes <= MAX_BODY_BYTES) return null
  return `This request has ${Math.ceil(bytes / 1024 ** 2)} MB, and 32 MB is the most that is taken. Remove pictures or text.`
}

interface Offer {
  slug: string
  pricing: readonly PricingItem[]
  is_ready: boolean | null
}

const DEMO = 'tollgate/demo'

/** What the address names, whether it is there or not; else one that is ready, and the demo where there is no other. */
export function chooseModels(models: readonly Offer[], model: string | null, beside: string | null): string[] {
  const ready = models.filter(({ is_ready }) => is_ready !== false)
  const usual = ready.find(({ slug }) => slug !== DEMO) ?? ready[0] ?? models[0]
  const first = model ?? usual?.slug
  if (first === undefined) return []
  return beside === null ? [first] : [first, beside]
}

/** Another one than is chosen, to stand beside it; the same where there is no other. */
export const chooseSecond = (models: readonly Offer[], first: string): string =>
  models.find(({ slug, is_ready }) => slug !== first && is_ready !== false)?.slug ?? first

/** As a list names it: with its price for a million tokens, and what keeps it from answering. */
export const toOfferText = ({ slug, pricing, is_ready }: Offer): string =>
  `${slug} · ${toPrices(pricing).replace(' per million', '')}${is_ready === false ? ' · not ready' : ''}`
