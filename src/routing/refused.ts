/**
 * Fields of a request that a target must not be sent, whoever asks: by them a key would read what another has stored with
 * the provider, or buy what no price is known for. Found once a request, then asked about each of its targets. Pure.
 */

import { GatewayError } from '../domain/error.ts'
import { isPassed, type RefusalReason, reasonToRefuse, toPlainName } from '../domain/fields.ts'
import { valuesWithin } from '../domain/json.ts'
import { toMode } from '../domain/mode.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import { costsTimeAlone, hasMode } from '../domain/tariff.ts'
import type { Lane } from '../domain/task.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'

/** A field that not every upstream may be sent. */
export interface Doubtful {
  name: string
  /** Dotted path of the field. */
  param: string
  reason: RefusalReason
  /** How a call would be served that has it, where that is what it asks for. */
  mode: string | null
  /** The feature that a model has, and the price that its sheet has, where it is known what it costs. */
  price?: 'web_search'
}

const NONE: readonly Doubtful[] = []

/** Lists the fields of a request, and of its tools, that are in doubt. Nearly no request has one. */
export function findDoubtful(body: CanonicalRequest): readonly Doubtful[] {
  let found = addDoubtful(body, '', null)
  const { tools } = body
  // Some gateways take a provider's own tools as further fields of a function.
  if (tools) for (let at = 0; at < tools.length; at++) found = addDoubtful(tools[at] ?? {}, `tools[${at}].`, found)
  const param = findStoredFile(body)
  if (param === null) return found ?? NONE
  return [...(found ?? NONE), { name: 'file_id', param, reason: 'stored', mode: null }]
}

/**
 * Adds to a list, or to a new one where there is none.
 * @param at the path of what holds the fields, with a dot behind it.
 */
export function addDoubtful(holder: object, at: string, found: Doubtful[] | null): Doubtful[] | null {
  let more = found
  for (const name in holder) {
    const value = (holder as Record<string, unknown>)[name]
    const reason = reasonToRefuse(name, value)
    if (reason === null) continue
    more ??= []
    more.push({
      name,
      param: at + name.slice(0, MAX_NAME_CHARS),
      reason,
      mode: reason === 'dear' ? toMode(value) : null,
    })
  }
  return more
}

/** A name may be as long as its client likes. */
const MAX_NAME_CHARS = 64

/** The path of the first part that names a file which the provider keeps, or null. */
function findStoredFile({ messages }: CanonicalRequest): string | null {
  for (let index = 0; index < messages.length; index++) {
    const content = messages[index]?.content
    if (typeof content === 'string' || !content) continue
    for (let at = 0; at < content.length; at++) {
      const part = content[at]
      if (part && part.type !== 'text' && hasStoredFile(part)) {
        const file = part.type === 'file' ? '.file.file_id' : ''
        return `messages[${index}].content[${at}]${file}`
      }
    }
  }
  return null
}

function hasStoredFile(part: object): boolean {
  for (const [name, value] of valuesWithin(part)) {
    if (value === null || typeof value === 'object') continue
    if (toPlainName(name) === 'fileid' || (typeof value === 'string' && STORED.test(value))) return true
  }
  return false
}

/** Addresses that a provider reads as its account, and nobody else may: of cloud storage, and of files that Google keeps. */
const STORED = /^\s*(?:(?:gs|s3):|https?:\/\/(?:[\w.-]*@)?(?:[\w-]+-)?generativelanguage\.googleapis\.com)/i

/** Whether a text is such an address, in a field that holds one. */
export const isStoredAddress = (name: string, value: string): boolean => ADDRESS.test(name) && STORED.test(value)
const ADDRESS = /ur[il]$/i

/** Returns the refusal of the first field that a target must not be sent, or null. See `mayBeSent`. */
export function checkDoubtful(
  found: readonly Doubtful[],
  target: Target,
  lane: Lane = 'translated',
): GatewayError | null {
  const first = found.find((each) => !mayBeSent(each, target, lane))
  if (!first) return null
  const { param, reason } = first
  return new GatewayError(
    'invalid_request',
    `Unsupported parameter: '${param}' is not supported with the model \`${target.model}\`: ${WHY[reason]}`,
    { code: 'unsupported_parameter', param },
  )
}

/**
 * Whether a target may be sent what is in doubt.
 * @param lane in which it would go there.
 */
export function mayBeSent(
  { name, reason, mode, price }: Doubtful,
  { upstream, pricing, features }: Target,
  lane: Lane,
): boolean {
  if (isPassed(upstream.options.pass, name)) return true
  if (mode !== null && dialectOf(upstream).tellsMode[lane] && hasMode(pricing, mode)) return true
  // What such a model may cost is reserved with its searches.
  if (price && features.includes(price) && pricing.every((item) => item[price] !== undefined)) return true
  // A server of one's own has fields of its own, and one account.
  if (reason === 'unknown') return upstream.local
  // What costs nothing costs no more, nor does what costs its time.
  return (reason === 'dear' || reason === 'fee') && upstream.local && costsTimeAlone(pricing)
}

const WHY: Readonly<Record<RefusalReason, string>> = {
  stored: 'it names what is stored with the provider, where no key is told from another. Send the content itself.',
  account: "it chooses an account of its provider's, or what that may do. Leave it out.",
  later: 'answers come in the response to their request and are not kept. Leave it out.',
  dear: 'with this value its provider charges more than the price that is known here. Leave it out.',
  fee: 'its provider charges for each use, and no price of that is known here. Leave it out.',
  unknown:
    'Tollgate does not know what it may cost, store or reach. Leave it out, or name it in `pass` of the upstream.',
}
