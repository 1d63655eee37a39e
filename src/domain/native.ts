/**
 * A request that may go on as it came: what makes it one, and its text and headers as they go on, with the few fields changed that
 * are not its client's to choose. Pure.
 */

import type { NativeEndpoint } from './dialects.ts'
import { isPassed, isRouting, toPlainName } from './fields.ts'
import { asList, asObject } from './json.ts'
import { JsonScan } from './json-scan.ts'
import type { CanonicalRequest } from './request.ts'
import type { Target } from './snapshot.ts'
import { survey } from './source-text.ts'
import { type Edits, findMembers, splice, spliceItems } from './splice.ts'
import type { NativeRequest, RawRequest } from './task.ts'

/**
 * Makes it of a body that was read; null for one that has to be written anew: an object that has a name twice may be read
 * otherwise where it goes than it was here.
 */
export function toNative(endpoint: NativeEndpoint, body: unknown, { text, headers }: RawRequest): NativeRequest | null {
  const json = asObject(body)
  return json === null || saysTwice(text, json) ? null : { endpoint, text, headers, json }
}

const EVERYTHING = { depth: Infinity, values: Infinity, escapes: Infinity, bare: Infinity }

function saysTwice(text: string, json: object): boolean {
  const scan = new JsonScan(EVERYTHING)
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
export function toNativeText(
  { text, json }: NativeRequest,
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
export function toCapEdit({ json }: NativeRequest, body: CanonicalRequest, name: string): Record<string, string> {
  const cap = body.max_completion_tokens ?? body.max_tokens
  const given = json[name]
  if (cap == null || (typeof given === 'number' && given <= cap)) return {}
  return { [name]: String(cap) }
}

/** The request without some of its tools. */
export function withoutTools(native: NativeRequest, indexes: ReadonlySet<number>): NativeRequest {
  const { text, json } = native
  const held = findMembers(text)?.find(({ name }) => name === 'tools')
  const kept = held && spliceItems(text, held.from, (_, at) => (indexes.has(at) ? [] : null))
  return {
    ...native,
    text: kept ? splice(text, { tools: kept }) : text,
    json: { ...json, tools: asList(json.tools).filter((_, at) => !indexes.has(at)) },
  }
}

/** A list of versions or betas is no longer, and has no other letters. */
const HEADER = /^[\w.,:=+ -]{1,1000}$/

/** A header of the client's that goes on; null where it has none, or no such one. */
export function toNativeHeader({ headers }: Pick<NativeRequest, 'headers'>, name: string): string | null {
  const value = headers[name]
  return value !== undefined && HEADER.test(value) ? value : null
}
