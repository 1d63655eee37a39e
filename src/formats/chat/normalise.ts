/**
 * Turns what any backend sends into the contract's frames and completions (design 9). Pure: it is told events and says
 * text. One choice is read by `choice.ts`, streamed or whole; here choices become an answer. The finish frames, the
 * usage frame and `[DONE]` are the tail, and the tail is asked for only once the ledger has the outcome.
 */

import type { AnswerEvent, ChatChunk, ChatCompletion, Choice, Completion, Delta, Origin } from '../../domain/answer.ts'
import type { ErrorBody, UpstreamError } from '../../domain/error.ts'
import { asObject, type JsonObject } from '../../domain/json.ts'
import { type ChoiceReader, createChoiceReader } from '../../upstreams/dialects/openai/choice.ts'
import { toChoices, toIndex } from '../../upstreams/dialects/openai/choices.ts'
import { toFinishReason, toFinishWord } from '../../upstreams/dialects/openai/finish.ts'
import { toLogprobs } from '../../upstreams/dialects/openai/logprobs.ts'
import { tellsMore, toOrigin } from '../../upstreams/dialects/openai/origin.ts'
import { createFrameWriter, DONE, type Identity, toLine } from './frames.ts'
import { toMessage } from './whole-message.ts'

/** What one answer has to look like. */
export interface Shape {
  identity: Identity
  /** The client's `stream_options.include_usage`. */
  includeUsage: boolean
  /** How many choices the client asked for: an index beyond them breaks clients. */
  choices: number
  /** The client's `logprobs`: some upstreams send them to whoever does not ask. */
  logprobs: boolean
  /** Whether a `<think>` block at the beginning of the content is reasoning (the upstream's `think_tags`). */
  thinkTags: boolean
}

export interface StreamNormaliser {
  /** Takes a batch of events and returns the frames that may go out now; empty while there is only a role. */
  take(events: readonly AnswerEvent[]): string
  /** The last frames, once the outcome is settled: finish, usage if it was asked for, `[DONE]`. */
  tail(usageJson: string): string
  /** True once content, reasoning, a refusal, a tool call or a finish has come: the commit point. */
  committed(): boolean
  /** `done` or the failure that ended the stream; null while it goes on. */
  outcome(): 'done' | UpstreamError | null
}

export function createStreamNormaliser(shape: Shape): StreamNormaliser {
  const { identity, includeUsage } = shape
  let origin: Origin = {}
  let frames = createFrameWriter(identity, origin, includeUsage)
  let outcome: 'done' | UpstreamError | null = null
  /** By index; those with a gap before them have not begun. */
  const readers: ChoiceReader[] = []
  /** So many choices were named, if only by a role. */
  let known = 1
  /** So many choices have had their role frame, the lower ones always first. */
  let begun = 0

  const readerOf = (index: number) => (readers[index] ??= createReader(shape, index))

  /** The role frames up to a choice, the last one by what the choice begins with. */
  const begin = (index: number, first: Delta | undefined): string => {
    let text = ''
    for (; begun <= index; begun += 1) {
      const silent = begun === index && (first?.tool_calls || first?.function_call || first?.audio)
      text += frames.delta(begun, { role: 'assistant', content: silent ? null : '', refusal: null }, null)
    }
    return text
  }

  const say = (index: number, deltas: readonly Delta[], logprobs: unknown): string => {
    const figures = shape.logprobs && logprobs ? toLogprobs(logprobs) : null
    const said = deltas.length === 0 && figures ? [{ content: '' }] : deltas
    if (said.length === 0) return ''
    return said.reduce(
      (text, delta, at) => text + frames.delta(index, delta, at === 0 ? figures : null),
      begin(index, said[0]),
    )
  }

  const takeChoice = (value: unknown, place: number): string => {
    const choice = asObject(value)
    if (!choice) return ''
    const index = toIndex(choice.index, place)
    if (index >= shape.choices) return ''
    known = Math.max(known, index + 1)
    const content = choice.logprobs ? null : toPlainText(choice.delta)
    // A role, or nothing at all.
    if (content === '' && !choice.finish_reason) return ''
    const reader = readerOf(index)
    if (content && !choice.finish_reason && reader.passes(content)) {
      return begin(index, undefined) + frames.content(index, content)
    }
    const text = content === '' ? '' : say(index, reader.take(choice.delta), choice.logprobs)
    return reader.finish(choice.finish_reason) ? text + begin(index, undefined) : text
  }

  const takeChunk = (chunk: ChatChunk): string => {
    if (tellsMore(origin, chunk)) {
      origin = toOrigin(origin, chunk)
      frames = createFrameWriter(identity, origin, includeUsage)
    }
    let text = ''
    for (let place = 0; place < chunk.choices.length; place += 1) text += takeChoice(chunk.choices[place], place)
    return text
  }

  return {
    take(events) {
      let text = ''
      for (const event of events) {
        if (outcome !== null) break
        if ('chunk' in event) text += takeChunk(event.chunk)
        else if ('failure' in event) outcome = event.failure
        else if ('done' in event) outcome = 'done'
      }
      return text
    },
    tail(usageJson) {
      let text = ''
      for (let index = 0; index < known; index += 1) {
        const reader = readerOf(index)
        const rest = reader.end()
        text += say(index, rest, null) + begin(index, undefined) + frames.finish(index, reader.finishReason())
      }
      return `${text}${includeUsage ? frames.usage(usageJson) : ''}${DONE}`
    },
    committed: () => begun > 0,
    outcome: () => outcome,
  }
}

/** The content of a delta or message that says nothing else, as nearly all do; null for any other. */
function toPlainText(value: unknown): string | null {
  const said = asObject(value)
  if (!said) return null
  for (const key in said) if (key !== 'content' && key !== 'role' && said[key] != null) return null
  const { content = '' } = said
  return typeof content === 'string' ? content : null
}

/** Builds the whole answer that the contract describes, but for its usage. */
export function toCompletion(shape: Shape, completion: Completion): Omit<ChatCompletion, 'usage'> {
  const { id, created, model } = shape.identity
  const found = toChoices(completion.choices).slice(0, shape.choices)
  const choices = (found.length > 0 ? found : [{}]).map((choice, index) => toChoice(shape, choice, index))
  return { id, object: 'chat.completion', created, model, choices, ...toOrigin({}, completion) }
}

function toChoice(shape: Shape, choice: JsonObject, index: number): Choice {
  const logprobs = shape.logprobs ? toLogprobs(choice.logprobs) : null
  const content = shape.thinkTags ? null : toPlainText(choice.message)
  if (content?.isWellFormed()) {
    const finish = toFinishReason(toFinishWord(choice.finish_reason), 'nothing')
    return { index, message: { role: 'assistant', content, refusal: null }, logprobs, finish_reason: finish }
  }
  const reader = createReader(shape, index)
  reader.finish(choice.finish_reason)
  const message = toMessage([...reader.take(choice.message), ...reader.end()])
  return { index, message, logprobs, finish_reason: reader.finishReason() }
}

/** Writes a whole answer with its usage as the JSON that goes out. */
export const toCompletionJson = (answer: Omit<ChatCompletion, 'usage'>, usageJson: string) =>
  `${toLine(answer).slice(0, -1)},"usage":${usageJson}}`

/** The frame that tells a client that its stream was cut; nothing follows it. */
export const errorFrame = (body: ErrorBody) => `data: ${toLine(body)}\n\n`

function createReader({ identity, thinkTags }: Shape, choice: number): ChoiceReader {
  const mintToolId = (position: number) => `call_${toHex(Bun.hash(`${identity.id}/${choice}/${position}`))}`
  return createChoiceReader({ thinkTags, mintToolId })
}

const toHex = (hash: number | bigint) => hash.toString(16).padStart(16, '0')
