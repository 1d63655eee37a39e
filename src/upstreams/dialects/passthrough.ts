/**
 * Requests and answers that pass as they came: what makes a request one, its text and headers with the few fields changed that are not
 * its client's to choose, and an upstream's own words before the events that are read of them. Pure.
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

/**
 * Makes it of a body that was read; null for one that has to be written anew: an object that has a name twice may be read
 * otherwise where it goes than it was here.
 */
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

/** The names of a format's own fields, as they are written and by what some receivers take for the same. */
export interface OwnFields {
  names: ReadonlySet<string>
  plain: ReadonlySet<string>
}

/** @param names parted by spaces. */
export function toOwnFields(names: string): OwnFields {
  const all = names.split(' ')
  return { names: new Set(all), plain: new Set(all.map(toPlainName)) }
}

/** What a chat calls its cap and its choices: a receiver that makes a chat of other requests would write more than was reserved. */
const OF_CHATS: ReadonlySet<string> = new Set(['n', 'max_tokens', 'max_completion_tokens'].map(toPlainName))

/**
 * The text of a request for a target. Left out are fields by which its upstream would choose another model, price, address or cap, and
 * those that it might take for one of the format's own, unless its `pass` names them.
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
 * The cap that a request needs, in the format's own name for it: where its client has given none, or a larger one than the model
 * writes.
 * @param body the canonical form, which has it.
 */
export function toCapEdit({ json }: PassthroughRequest, body: CanonicalRequest, name: string): Record<string, string> {
  const cap = body.max_completion_tokens ?? body.max_tokens
  const given = json[name]
  if (cap == null || (typeof given === 'number' && given <= cap)) return {}
  return { [name]: String(cap) }
}

/** The request without some of its tools. */
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

/** A list of versions or betas is no longer, and has no other letters. */
const HEADER = /^[\w.,:=+ -]{1,1000}$/

/** A header of the client's that goes on; null where it has none, or no such one. */
export function toPassthroughHeader({ headers }: Pick<PassthroughRequest, 'headers'>, name: string): string | null {
  const value = headers[name]
  return value !== undefined && HEADER.test(value) ? value : null
}

/**
 * Has an upstream's own words go before the events that are read of them, for answers that pass as they are. Nothing passes of an
 * event that tells of a failure: what a client is told of that is its format's to say. Pure.
 */
/** What there is to know of an event that passes. */
export type Told = Partial<Pick<RawEvent, 'origin' | 'isContent' | 'isTail'>>

const toRaw = (name: string | null, data: string, told: Told): RawEvent => ({
  kind: 'raw',
  name,
  data,
  origin: told.origin ?? null,
  isContent: told.isContent ?? false,
  isTail: told.isTail ?? false,
})

/** The event that stands from one place of a text up to another: a line with its name, a line of data, and an empty one. */
function toPlainRaw(text: string, from: number, to: number): RawEvent {
  const data = text.indexOf(DATA, from)
  return toRaw(text.slice(from + NAME.length, data - 1), text.slice(data + DATA.length, to - 2), {})
}
const NAME = 'event: '
const DATA = 'data: '

/** An escape of half a character: who reads it may wait for the other half. */
const HALF = /\\u[dD][89abAB]/

/** Says what there is to know of an event that was read; null where it does not pass. */
type Tell = (event: SseEvent, read: readonly AnswerEvent[]) => Told | null

/**
 * How answers of a format pass.
 * @param create makes what reads one.
 * @param deltas a quick way for what nearly all events are.
 */
export const toPassing = <Inner extends JsonDecoder>(
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
    return new PassingDecoder(inner, tellBy(inner, expected), deltas)
  },
})

class PassingDecoder implements Decoder {
  readonly #inner: Pick<Decoder, 'event' | 'end'>
  readonly #tell: Tell
  readonly #deltas: PlainDeltas | null
  /** Whether the event before was a piece of text: only then the next one is likely to be one. */
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

/** The type of an event: its name, or else what its data say, wherever they say it. */
export function typeOf({ name, data }: SseEvent): string {
  if (name !== null) return name
  const type = findMembers(data)?.findLast((member) => member.name === 'type')
  return type ? data.slice(type.from + 1, type.to - 1) : ''
}

/** The quick way for a piece of text, as nearly all events of a stream are: its words are read without parsing it. Pure. */
/** Escapes of letters, of which one may be half a character, and what ends a line: read with care. */
const UNUSUAL = /\\[^\\/bfnrt]|[\r\n]/
const BACKSLASH = 92

/** What stands before the text and behind it, from the beginning of an event to its end: sticky. */
interface DeltaShape {
  before: RegExp
  after: RegExp
}

/** One is enough for all streams: what it keeps is read in the call after. */
export class PlainDeltas implements PlainReader {
  readonly #before: RegExp
  readonly #after: RegExp
  /** Where what was read last ends. */
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

  /** Reads the event that stands at a place, up to `end`. Null where it is anything but a piece of text. */
  readAt(text: string, at: number): string | null {
    const before = this.#before
    before.lastIndex = at
    if (!before.test(text)) return null
    const from = before.lastIndex
    // The first quote ends the text, unless it is escaped; then what should follow it does not.
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
