/**
 * Passthrough: changes only request fields that clients may not choose. In responses, the upstream's text comes before the events
 * decoded from it.
 */

import type { PassthroughEndpoint } from '../../domain/dialects.ts'
import type { AnswerEvent, RawEvent } from '../../domain/events.ts'
import { isPassed, isRouting, toPlainName } from '../../domain/fields.ts'
import { asList, asObject } from '../../domain/json.ts'
import { type Edits, findMembers, JsonScan, splice, spliceItems, survey } from '../../domain/json-text.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import type { Target } from '../../domain/snapshot.ts'
import type { PassthroughRequest, RawRequest } from '../../domain/task.ts'
import type { SseEvent } from '../framing.ts'
import type { Decoder, Expected, PassthroughFormat, PlainReader } from './dialect.ts'
import type { JsonDecoder } from './json-decoder.ts'

/** Null for a body with duplicate names in an object. It must be translated, since upstreams may read it differently. */
export function toPassthroughRequest(
  endpoint: PassthroughEndpoint,
  body: unknown,
  { text, headers }: RawRequest,
): PassthroughRequest | null {
  const json = asObject(body)
  return json === null || saysTwice(text, json) ? null : { endpoint, text, headers, json }
}

function saysTwice(text: string, json: object): boolean {
  const scan = new JsonScan()
  scan.take(text)
  return scan.names !== survey(json).names
}

/** A format's own field names, as written and as lenient receivers normalize them. */
export interface OwnFields {
  names: ReadonlySet<string>
  plain: ReadonlySet<string>
}

export function toOwnFields(names: string): OwnFields {
  const all = names.split(' ')
  return { names: new Set(all), plain: new Set(all.map(toPlainName)) }
}

/** An upstream that converts requests to chats would apply these fields, and write more than was reserved. */
const OF_CHATS: ReadonlySet<string> = new Set(['n', 'max_tokens', 'max_completion_tokens'].map(toPlainName))

/**
 * Removes fields that would choose another model, price, URL or cap, and lookalikes of the format's own fields, except those in the
 * upstream's `pass`.
 */
export function toPassthroughText(
  { text, json }: PassthroughRequest,
  { upstream, upstreamModel }: Target,
  own: OwnFields,
  edits: Edits,
): string {
  const all: Record<string, string | null> = { model: JSON.stringify(upstreamModel), ...edits }
  for (const name in json) {
    if (own.names.has(name) || isPassed(upstream.options.pass, name)) continue
    const plain = toPlainName(name)
    if (isRouting(name) || own.plain.has(plain) || OF_CHATS.has(plain)) all[name] = null
  }
  return splice(text, all)
}

/**
 * Sets the cap if the client gave none, or one above the model's maximum.
 * @param body the canonical request, which has the cap.
 */
export function toCapEdit({ json }: PassthroughRequest, body: CanonicalRequest, name: string): Record<string, string> {
  const cap = body.max_completion_tokens ?? body.max_tokens
  const given = json[name]
  if (cap == null || (typeof given === 'number' && given <= cap)) return {}
  return { [name]: String(cap) }
}

export function withoutTools(passthrough: PassthroughRequest, indexes: ReadonlySet<number>): PassthroughRequest {
  const { text, json } = passthrough
  const held = findMembers(text)?.find(({ name }) => name === 'tools')
  const kept = held && spliceItems(text, held.from, (_, at) => (indexes.has(at) ? [] : null))
  return {
    ...passthrough,
    text: kept ? splice(text, { tools: kept }) : text,
    json: { ...json, tools: asList(json.tools).filter((_, at) => !indexes.has(at)) },
  }
}

/** Enough for a list of versions or betas. */
const HEADER = /^[\w.,:=+ -]{1,1000}$/

export function toPassthroughHeader({ headers }: Pick<PassthroughRequest, 'headers'>, name: string): string | null {
  const value = headers[name]
  return value !== undefined && HEADER.test(value) ? value : null
}

export type RawFlags = Partial<Pick<RawEvent, 'origin' | 'isContent' | 'isTail'>>

const toRaw = (name: string | null, data: string, told: RawFlags): RawEvent => ({
  kind: 'raw',
  name,
  data,
  origin: told.origin ?? null,
  isContent: told.isContent ?? false,
  isTail: told.isTail ?? false,
})

/** An event between two positions: lines with its name and data, and an empty line. */
function toPlainRaw(text: string, from: number, to: number): RawEvent {
  const data = text.indexOf(DATA, from)
  return toRaw(text.slice(from + NAME.length, data - 1), text.slice(data + DATA.length, to - 2), {})
}
const NAME = 'event: '
const DATA = 'data: '

/** An escaped half of a character, whose reader may wait for the other half. */
const HALF = /\\u[dD][89abAB]/

/** Flags of an event; null if the event isn't passed on. Failures never are, since each format has its own errors. */
type Tell = (event: SseEvent, read: readonly AnswerEvent[]) => RawFlags | null

/**
 * Passthrough of responses in a format.
 * @param deltas fast path for nearly all events.
 */
export const toPassthroughReaders = <Inner extends JsonDecoder>(
  create: (expected: Expected) => Inner,
  tellBy: (inner: Inner, expected: Expected) => Tell,
  deltas: PlainDeltas | null = null,
): Pick<PassthroughFormat, 'whole' | 'decoder'> => ({
  whole: (json, expected, text = JSON.stringify(json)) => [
    toRaw(null, text, { origin: '' }),
    ...create(expected).whole(json, text),
  ],
  decoder(expected) {
    const inner = create(expected)
    return new PassthroughDecoder(inner, tellBy(inner, expected), deltas)
  },
})

class PassthroughDecoder implements Decoder {
  readonly #inner: Pick<Decoder, 'event' | 'end'>
  readonly #tell: Tell
  readonly #deltas: PlainDeltas | null
  #isText = false
  #isOver = false

  constructor(inner: Pick<Decoder, 'event' | 'end'>, tell: Tell, deltas: PlainDeltas | null) {
    this.#inner = inner
    this.#tell = tell
    this.#deltas = deltas
  }

  get plain(): PlainDeltas | null {
    return this.#isText && !this.#isOver ? this.#deltas : null
  }

  take(text: string, out: AnswerEvent[]): number {
    const deltas = this.plain
    if (deltas === null) return 0
    let at = 0
    for (let said = deltas.readAt(text, at); said !== null; said = deltas.readAt(text, at)) {
      const { end } = deltas
      out.push(toPlainRaw(text, at, end), { kind: 'text', choice: 0, text: said })
      at = end
    }
    return at
  }

  event(event: SseEvent, out: AnswerEvent[]): void {
    if (this.#isOver) return
    const read: AnswerEvent[] = []
    this.#inner.event(event, read)
    const last = read.at(-1)?.kind
    this.#isText = last === 'text' && read.length === 1 && !HALF.test(event.data)
    this.#isOver = last === 'done' || last === 'failure'
    const told = last === 'failure' ? null : this.#tell(event, read)
    if (told) out.push(toRaw(event.name, event.data, told))
    for (const one of read) out.push(one)
  }

  end(out: AnswerEvent[]): void {
    if (!this.#isOver) this.#inner.end(out)
  }
}

/** The type of an event: its name, or `type` anywhere in its data. */
export function typeOf({ name, data }: SseEvent): string {
  if (name !== null) return name
  const type = findMembers(data)?.findLast((member) => member.name === 'type')
  return type ? data.slice(type.from + 1, type.to - 1) : ''
}

/** Fast path for text deltas, which are nearly all events of a stream: reads the text without parsing JSON. */
/** Unicode escapes, which may be half a character, and line ends take the slow path. */
const UNUSUAL = /\\[^\\/bfnrt]|[\r\n]/
const BACKSLASH = 92

interface DeltaShape {
  before: RegExp
  after: RegExp
}

/** One instance serves all streams, since its state is read right after the call. */
export class PlainDeltas implements PlainReader {
  readonly #before: RegExp
  readonly #after: RegExp
  end = 0

  constructor({ before, after }: DeltaShape) {
    this.#before = before
    this.#after = after
  }

  read(text: string): string | null {
    if (text === '') return null
    let said = ''
    for (let at = 0; at < text.length; at = this.end) {
      const piece = this.readAt(text, at)
      if (piece === null) return null
      said += piece
    }
    return said
  }

  /** Reads the event at a position, up to `end`. Null unless it is a text delta. */
  readAt(text: string, at: number): string | null {
    const before = this.#before
    before.lastIndex = at
    if (!before.test(text)) return null
    const from = before.lastIndex
    // The first quote ends the text unless it is escaped; in that case `after` doesn't match.
    const to = text.indexOf('"', from)
    if (to <= from || text.charCodeAt(to - 1) === BACKSLASH) return null
    const after = this.#after
    after.lastIndex = to
    if (!after.test(text)) return null
    const said = text.slice(from, to)
    if (UNUSUAL.test(said)) return null
    this.end = after.lastIndex
    return said.includes('\\') ? JSON.parse(`"${said}"`) : said
  }
}
