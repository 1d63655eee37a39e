/**
 * The playground's state, in memory for as long as the tab is open. Signing out clears it; after an expired session, the same user
 * continues where they were.
 */
import { computed, effect, signal, untracked } from '@preact/signals'
import type { PricingItem } from '../../domain/usage.ts'
import { query } from '../address/address.ts'
import { api, ask as askApi } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { isMember, session } from '../api/session.ts'
import { files, forgetMade, typed } from './made.ts'
import { end, run, stopAll } from './run.ts'
import { type Field, NO_SETTINGS, readSettings, type Settings } from './settings.ts'
import { estimatePrompt, stop } from './stream.ts'
import * as edits from './thread.ts'
import { checkPicture, chooseModels, type Picture, type Side, type Thread, toBody, toMessages } from './thread.ts'
import { PLAYED, type PlayedEndpoint, toPlayed } from './titles.ts'

interface Draft {
  text: string
  pictures: readonly Picture[]
}

const NO_DRAFT: Draft = { text: '', pictures: [] }

export const thread = signal<Thread>([])
export const settings = signal<Settings>(NO_SETTINGS)
export const draft = signal<Draft>(NO_DRAFT)
/** Models of the conversation: the last ones named in the URL. */
export const named = signal<readonly string[]>([])
/** ID of the message being edited. */
export const editing = signal<number | null>(null)
/** Why nothing was sent. */
export const blocked = signal<string | null>(null)
/** The last cleared thread, for undo. */
export const cleared = signal<Thread | null>(null)

export const read = computed(() => readSettings(settings.value))
export const isAnswering = computed(() => edits.answersOf(thread.value).some(edits.isRunning))

let made = 0
const newId = () => ++made

export function change(edit: (thread: Thread) => Thread): void {
  thread.value = edit(thread.value)
}

function forget(): void {
  stopAll()
  forgetMade()
  typed.value = {}
  for (const file of Object.values(files)) file.value = null
  thread.value = []
  settings.value = NO_SETTINGS
  draft.value = NO_DRAFT
  named.value = []
  for (const one of [editing, blocked, cleared]) one.value = null
}

let owner: string | null = null
effect(() => {
  const { value } = session
  const isAnother = value.state === 'in' && owner !== null && owner !== value.name
  if (isAnother || value.state === 'out') untracked(forget)
  if (value.state === 'in') owner = value.name
})

/** The first invalid field, or null. */
export function findWrong(): Field | null {
  const [wrong] = Object.entries(read.value.problems) as [Field, string][]
  blocked.value = wrong ? wrong[1] : null
  return wrong ? wrong[0] : null
}

/** Requests an answer at the end of a round, or in place of one. */
export function ask(roundId: number, side: Side, model: string, instead: number | null = null): void {
  if (findWrong() !== null) return
  const answer = edits.newAnswer(newId(), model, performance.now())
  change((before) =>
    instead === null ? edits.addAnswer(before, roundId, side, answer) : edits.replaceAnswer(before, instead, answer),
  )
  const upTo = thread.value.slice(0, thread.value.findIndex(({ id }) => id === roundId) + 1)
  const body = toBody(model, toMessages(settings.value.system, upTo, side, answer.id), read.value.fields)
  void run({ ...answer, promptTokens: estimatePrompt(body) }, body, (next) =>
    change((before) => edits.changeAnswer(before, answer.id, () => next)),
  )
}

function askAll(models: readonly string[]): void {
  const last = thread.value.at(-1)
  for (const [at, model] of models.entries()) {
    const side = at === 0 ? 0 : 1
    if (last && edits.isDue(thread.value, side)) ask(last.id, side, model)
  }
}

/** Appends the draft to the thread. Returns false if a tool result is missing. */
function addDraft(models: readonly string[]): boolean {
  const { text, pictures } = draft.value
  const waiting = models.some((_, at) => {
    const last = edits.lastAnswer(thread.value, at === 0 ? 0 : 1)
    return edits.openCalls(last).length > 0
  })
  blocked.value = waiting ? 'Enter the result of the tool call above first, or remove that response.' : null
  if (waiting) return false
  change((before) => [...before, edits.newRound(newId(), text, pictures)])
  draft.value = NO_DRAFT
  cleared.value = null
  return true
}

const hasDraft = () => draft.value.text.trim() !== '' || draft.value.pictures.length > 0

export function send(models: readonly string[]): void {
  if (isAnswering.value || findWrong() !== null) return
  if (hasDraft() && !addDraft(models)) return
  askAll(models)
}

/** Adds the draft without sending it. */
export function addOnly(models: readonly string[]): void {
  if (!isAnswering.value && hasDraft()) addDraft(models)
}

export function askAgain(roundId: number, models: readonly string[]): void {
  if (isAnswering.value || findWrong() !== null) return
  change((before) => edits.dropAnswers(before, roundId))
  for (const [at, model] of models.entries()) ask(roundId, at === 0 ? 0 : 1, model)
}

/** Starts a handwritten answer. */
export function write(roundId: number, side: Side): void {
  const answer = edits.newAnswer(newId(), null, 0)
  change((before) => edits.addAnswer(before, roundId, side, answer))
  editing.value = answer.id
}

export function removeAnswer(id: number): void {
  end(id)
  change((before) => edits.removeAnswer(before, id))
}

export function removeRound(id: number): void {
  for (const answer of thread.value.find((round) => round.id === id)?.answers.flat() ?? []) end(answer.id)
  change((before) => edits.removeRound(before, id))
}

export const beginSecond = () => change((before) => edits.beginSecond(before, newId))

export function dropSide(side: Side): void {
  for (const round of thread.value) for (const answer of round.answers[side]) end(answer.id)
  change((before) => edits.dropSide(before, side))
}

export function clear(): void {
  stopAll()
  cleared.value = edits.changeAnswers(thread.value, (answer) =>
    edits.isRunning(answer) ? stop(answer, performance.now()) : answer,
  )
  thread.value = []
  editing.value = null
  blocked.value = null
}

export function restoreCleared(): void {
  if (cleared.value) thread.value = cleared.value
  cleared.value = null
}

const FRESH_MS = 30_000

export interface OfferedModel {
  slug: string
  pricing: readonly PricingItem[]
  context_length: number
  input_modalities: readonly string[]
  output_modalities: readonly string[]
  is_ready: boolean | null
}

/** Including aliases; chat models first. */
export const useModels = () =>
  useLoaded(
    'models to try',
    async () => (await readModels()).filter(isPlayed).toSorted((a, b) => rankOf(a) - rankOf(b)),
    {
      everyMs: FRESH_MS,
    },
  )

async function readModels(): Promise<OfferedModel[]> {
  if (isMember()) {
    const { models } = await askApi(api.own.models.get())
    return models.map(({ id, ...facts }) => ({ ...facts, slug: id }))
  }
  const { models, aliases } = await askApi(api.models.get())
  const offered = models.filter(({ enabled }) => enabled)
  const others = aliases.flatMap(({ alias, model }) =>
    offered.filter(({ slug }) => slug === model).map((facts) => ({ ...facts, slug: alias })),
  )
  return [...offered, ...others]
}

/** Kinds of requests that the model supports; an unknown model may chat. */
export const toEndpoints = (model: OfferedModel | null): PlayedEndpoint[] =>
  model === null ? ['chat'] : toPlayed(model.output_modalities)

const isPlayed = (model: OfferedModel) => toEndpoints(model).length > 0
const rankOf = (model: OfferedModel) => PLAYED.indexOf(toEndpoints(model)[0] ?? 'chat')

/** The kind in the URL, if the model supports it. */
export function toEndpoint(model: OfferedModel | null): PlayedEndpoint {
  const able = toEndpoints(model)
  return able.find((endpoint) => endpoint === query.value.get('as')) ?? able[0] ?? 'chat'
}

/** The one or two selected models; two for chats only. */
export function toChosen(models: readonly OfferedModel[]): readonly string[] {
  const [first, ...others] = chooseModels(models, query.value.get('model'), query.value.get('beside'))
  if (first === undefined) return []
  return toEndpoint(findModel(models, first)) === 'chat' ? [first, ...others] : [first]
}

export const findModel = (models: readonly OfferedModel[] | null, slug: string | null): OfferedModel | null =>
  models?.find((model) => model.slug === slug) ?? null

/** Reads accepted images; `problem` is about the first rejected one. */
export async function readPictures(files: readonly File[]): Promise<{ pictures: Picture[]; problem: string | null }> {
  const problems = files.map(checkPicture)
  const pictures = await Promise.all(files.filter((_, at) => problems[at] === null).map(readPicture))
  return { pictures, problem: problems.find((problem) => problem !== null) ?? null }
}

const readPicture = (file: File) =>
  new Promise<Picture>((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve({ name: file.name, url: String(reader.result) })
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(file)
  })
