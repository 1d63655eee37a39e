/** Writes passthrough responses with our ID and model name. Holds back the end until the ledger has the outcome. */
import type { GatewayError } from '../domain/error.ts'
import type { AnswerEvent, RawEvent } from '../domain/events.ts'
import { type Edits, splice, spliceWithin } from '../domain/json-text.ts'
import type { ChatTask } from '../domain/task.ts'
import { tokensOfBytes } from '../tokens/estimate.ts'
import { noteUnread } from '../tokens/prompt.ts'
import { type Identity, KEEP_ALIVE, type PassthroughStreamWriter, type PassthroughWriters } from './format.ts'

export interface Passed {
  identity: Identity
  /** Data of the first event with our ID; null if none was sent. */
  opening: string | null
  last: string | null
}

interface PassthroughTexts {
  /** The fields that get our ID and model name. */
  toNames(identity: Identity): Edits
  /** Keep-alive once the stream has begun. */
  keepAlive: string
  failure(error: GatewayError, passed: Passed): string
}

export const toPassthroughWriters = (words: PassthroughTexts): PassthroughWriters => ({
  whole(identity, events) {
    const said = events.find((event) => event.kind === 'raw')
    return said ? renamed(said, words.toNames(identity)) : ''
  },
  writer: (identity) => new PassthroughWriter(words, identity),
})

/** For formats that have an `id` with a prefix, and a `model`. */
export const namesWith =
  (prefix: string) =>
  ({ id, model }: Identity): Edits => ({ id: JSON.stringify(`${prefix}${id}`), model: JSON.stringify(model) })

function renamed({ data, origin }: RawEvent, names: Edits): string {
  if (origin === null) return data
  return origin === '' ? splice(data, names) : spliceWithin(data, origin, names)
}

class PassthroughWriter implements PassthroughStreamWriter {
  readonly #names: Edits
  /** Frames of the end received so far. */
  #tail = ''
  #opening: string | null = null
  #last: RawEvent | string | null = null

  constructor(
    private readonly words: PassthroughTexts,
    private readonly identity: Identity,
  ) {
    this.#names = words.toNames(identity)
  }

  get keepAlive(): string {
    return this.#last === null ? KEEP_ALIVE : this.words.keepAlive
  }

  take(events: readonly AnswerEvent[]): string {
    let text = ''
    for (const event of events) if (event.kind === 'raw') text += this.#write(event)
    return text
  }

  pass(frames: string): string {
    return this.#send(frames, frames)
  }

  #write(event: RawEvent): string {
    const data = renamed(event, this.#names)
    const frame = toFrame(event.name, data)
    if (event.isTail) {
      this.#tail += frame
      return ''
    }
    if (this.#tail === '' && event.origin !== null) this.#opening ??= data
    return this.#send(frame, event)
  }

  /** Adds to the tail instead once the end has begun. */
  #send(frames: string, last: RawEvent | string): string {
    if (this.#tail !== '') {
      this.#tail += frames
      return ''
    }
    this.#last = last
    return frames
  }

  tail(): string {
    return this.#tail
  }

  failure(error: GatewayError): string {
    const last = this.#last && toData(this.#last)
    return this.words.failure(error, { identity: this.identity, opening: this.#opening, last })
  }
}

const toData = (last: RawEvent | string) =>
  typeof last === 'string' ? last.slice(`\n${last}`.lastIndexOf(`\n${DATA}`) + DATA.length, -2) : last.data
const DATA = 'data: '

function toFrame(name: string | null, data: string): string {
  const lines = data.includes('\n') ? data.replaceAll('\n', '\ndata: ') : data
  return name === null ? `data: ${lines}\n\n` : `event: ${name}\ndata: ${lines}\n\n`
}

/** Adds the passthrough request to the task, and counts its unread content by bytes. */
export function withPassthrough(task: ChatTask, passthrough: ChatTask['passthrough'] | null): ChatTask {
  if (!passthrough) return task
  const bytes = noteUnread(task.body, passthrough.text)
  return { ...task, passthrough, promptTokens: task.promptTokens + tokensOfBytes(bytes) }
}
