/** The thread: rounds of a message and its answers from one or two models. All edits return a new thread. */
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
  /** JSON as the model wrote it, or text of a custom tool. */
  input: string
  /** The result entered by the user; null before. */
  result: string | null
}

/** `cut`: interrupted. `failed`: ended before the first token. */
export type AnswerState = 'waiting' | 'streaming' | 'done' | 'stopped' | 'cut' | 'failed'

export interface Answer {
  id: number
  /** Null if written by the user. */
  model: string | null
  state: AnswerState
  text: string
  reasoning: string
  refusal: string
  calls: readonly Call[]
  /** The API's finish reason. */
  finish: string | null
  /** Error or note. */
  problem: string | null
  requestId: string | null
  /** Estimated. */
  promptTokens: number
  /** UTF-8 bytes of all output. */
  bytes: number
  usage: AnswerUsage | null
  /** All times are by the same clock. */
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

/** @param model null if written by the user */
export const newAnswer = (id: number, model: string | null, startedMs: number, promptTokens = 0): Answer => ({
  ...{ id, model, state: model === null ? 'done' : 'waiting', text: '', reasoning: '', refusal: '', calls: [] },
  ...{ finish: null, problem: null, requestId: null, promptTokens, bytes: 0, usage: null },
  ...{ startedMs, firstMs: null, endedMs: null },
})

export const isRunning = ({ state }: Answer): boolean => state === 'waiting' || state === 'streaming'

/** True if it has content to send back to a model. */
export const hasContent = ({ text, refusal, calls, state }: Answer): boolean =>
  text !== '' || refusal !== '' || (calls.length > 0 && state === 'done')

export const changeRound = (thread: Thread, id: number, change: (round: Round) => Round): Thread =>
  thread.map((round) => (round.id === id ? change(round) : round))

export const removeRound = (thread: Thread, id: number): Thread => thread.filter((round) => round.id !== id)

const changeSides = (
  thread: Thread,
  change: (answers: readonly Answer[], round: Round, side: Side) => readonly Answer[],
) =>
  thread.map((round): Round => {
    const [first, second] = round.answers
    return { ...round, answers: [change(first, round, 0), change(second, round, 1)] }
  })

/** Appends an answer and drops failed ones. */
export const addAnswer = (thread: Thread, roundId: number, of: Side, answer: Answer): Thread =>
  changeSides(thread, (answers, { id }, side) =>
    id === roundId && side === of ? [...answers.filter((one) => hasContent(one) || isRunning(one)), answer] : answers,
  )

/** Replaces an answer and all later ones of its round. */
export const replaceAnswer = (thread: Thread, id: number, answer: Answer): Thread =>
  changeSides(thread, (answers) => {
    const at = answers.findIndex((one) => one.id === id)
    return at < 0 ? answers : [...answers.slice(0, at), answer]
  })

export const changeAnswers = (thread: Thread, change: (answer: Answer) => Answer): Thread =>
  changeSides(thread, (answers) => answers.map(change))

export const changeAnswer = (thread: Thread, id: number, change: (answer: Answer) => Answer): Thread =>
  changeAnswers(thread, (answer) => (answer.id === id ? change(answer) : answer))

export const removeAnswer = (thread: Thread, id: number): Thread =>
  changeSides(thread, (answers) => answers.filter((answer) => answer.id !== id))

export const dropAnswers = (thread: Thread, roundId: number): Thread =>
  changeSides(thread, (answers, { id }) => (id === roundId ? [] : answers))

/** Copies the first model's answers as history of the second, except in the last round, which it is to answer itself. */
export const beginSecond = (thread: Thread, newId: () => number): Thread =>
  changeSides(thread, (answers, round, side) =>
    side === 1 && answers.length === 0 && round !== thread.at(-1)
      ? round.answers[0].map((answer) => ({ ...answer, id: newId() }))
      : answers,
  )

/** The remaining side becomes the first. */
export const dropSide = (thread: Thread, dropped: Side): Thread =>
  changeSides(thread, (_, { answers }, side) => (side === 0 ? answers[dropped === 0 ? 1 : 0] : []))

export const answersOf = (thread: Thread): Answer[] => thread.flatMap(({ answers }) => answers.flat())

/** The last answer with content in the last round. */
export const lastAnswer = (thread: Thread, side: Side): Answer | null =>
  thread.at(-1)?.answers[side].findLast(hasContent) ?? null

/** Tool calls without a result. */
export const openCalls = (answer: Answer | null): readonly Call[] =>
  answer?.state === 'done' ? answer.calls.filter(({ result }) => result === null) : []

/** True if it is the model's turn: after a message, or once all tool results are entered. */
export function isDue(thread: Thread, side: Side): boolean {
  if (thread.length === 0 || thread.at(-1)?.answers[side].some(isRunning)) return false
  const last = lastAnswer(thread, side)
  return last === null || (last.state === 'done' && last.calls.length > 0 && openCalls(last).length === 0)
}

/** The gateway's limit. */
const MAX_BODY_BYTES = 32 * 1024 ** 2
/** Base64 adds a third. */
const MAX_PICTURE_BYTES = 23 * 1024 ** 2
export const PICTURE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']

type Message = Record<string, unknown>

/** @param before ID of an answer; only what comes before it is included */
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
  // Some models need their reasoning back to continue after tool calls.
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

/** The next request with the draft, or else the last one sent. */
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

/** Error message, or null if the image is accepted. */
export function checkPicture({ name, type, size }: { name: string; type: string; size: number }): string | null {
  if (!PICTURE_TYPES.includes(type)) return `${name} is not a PNG, JPEG, WebP, or GIF image.`
  if (size <= MAX_PICTURE_BYTES) return null
  return `${name} is ${Math.ceil(size / 1024 ** 2)} MB; a request can have at most 23 MB of images. Make it smaller.`
}

/** Error message, or null if the body is within the limit. */
export function toTooLong(json: string): string | null {
  // UTF-8 has at least one byte per character.
  const bytes = json.length > MAX_BODY_BYTES ? json.length : new TextEncoder().encode(json).length
  if (bytes <= MAX_BODY_BYTES) return null
  return `This request is ${Math.ceil(bytes / 1024 ** 2)} MB; the limit is 32 MB. Remove images or text.`
}

interface Offer {
  slug: string
  pricing: readonly PricingItem[]
  is_ready: boolean | null
}

const isDemo = ({ slug }: Offer) => slug.startsWith('tollgate/demo')

/** The models named in the URL, even if missing; else a ready one, with the demo models last. */
export function chooseModels(models: readonly Offer[], model: string | null, beside: string | null): string[] {
  const ready = models.filter(({ is_ready }) => is_ready !== false)
  const usual = ready.find((model) => !isDemo(model)) ?? ready[0] ?? models[0]
  const first = model ?? usual?.slug
  if (first === undefined) return []
  return beside === null ? [first] : [first, beside]
}

/** Another ready model, or the same one if there is no other. */
export const chooseSecond = (models: readonly Offer[], first: string): string =>
  models.find(({ slug, is_ready }) => slug !== first && is_ready !== false)?.slug ?? first

/** Model ID with its price per million tokens and state. */
export const toOfferText = ({
  slug,
  pricing,
  output_modalities: made,
  is_ready,
}: Offer & { output_modalities?: readonly string[] }): string =>
  `${slug} · ${toPrices(pricing, made).replace('out per million', 'out')}${is_ready === false ? ' · not ready' : ''}`
