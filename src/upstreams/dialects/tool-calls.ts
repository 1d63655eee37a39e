/** Tool calls in every dialect: IDs of responses, IDs as receivers accept them, and arguments as objects. */

import type { TOOL_IDS } from '../../domain/dialects.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { asObject, type JsonObject, tryJson } from '../../domain/json.ts'
import type { Message } from '../../domain/request.ts'
import type { Expected } from './dialect.ts'

/**
 * Replaces IDs that an upstream refuses: too long, with other characters, or used before. Replacements are derived from the client's IDs,
 * so every request of a conversation repeats them and nothing is stored.
 */
/** Accepted IDs, and a replacement for others; `seed` distinguishes equal replacements. */
export interface IdRule {
  fits: RegExp
  make(id: string, seed: number): string
}

const hash = (id: string, seed: number) => Bun.hash(id, seed).toString(36).padStart(13, '0')

/** The Messages API's own pattern. */
export const ANTHROPIC_IDS: IdRule = {
  fits: /^[a-zA-Z0-9_-]+$/,
  make: (id, seed) => `${id.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 40)}_${hash(id, seed)}`,
}

/** By their names in the catalog: nine alphanumeric characters, or at most forty of any kind. */
export const ID_RULES = {
  alphanumeric_9: { fits: /^[a-zA-Z0-9]{9}$/, make: (id, seed) => hash(id, seed).slice(-9) },
  max_40: { fits: /^[\s\S]{1,40}$/, make: (id, seed) => `call_${hash(id, seed)}` },
} satisfies Record<(typeof TOOL_IDS)[number], IdRule>

export class ToolIds {
  readonly #rule: IdRule
  /** IDs of the last calls, by the client's IDs. */
  readonly #last = new Map<string, string>()
  readonly #taken = new Set<string>()
  /** First seed that may be free, by ID, since a client may repeat one thousands of times. */
  readonly #seeds = new Map<string, number>()
  /** Unchanged IDs, which no replacement may equal. */
  readonly #own = new Set<string>()

  constructor(rule: IdRule, messages: readonly Message[]) {
    this.#rule = rule
    for (const message of messages)
      if (message.role === 'assistant')
        for (const { id } of message.tool_calls ?? []) if (rule.fits.test(id)) this.#own.add(id)
  }

  call(id: string): string {
    const isOwn = this.#own.has(id) && !this.#taken.has(id)
    const given = isOwn ? id : this.#make(id)
    this.#taken.add(given)
    this.#last.set(id, given)
    return given
  }

  result(id: string): string {
    return this.#last.get(id) ?? (this.#rule.fits.test(id) ? id : this.#rule.make(id, 0))
  }

  #make(id: string): string {
    for (let seed = this.#seeds.get(id) ?? 0; ; seed++) {
      const made = this.#rule.make(id, seed)
      if (this.#own.has(made) || this.#taken.has(made)) continue
      this.#seeds.set(id, seed + 1)
      return made
    }
  }
}

/** Arguments as an object; invalid JSON is kept as `value`. */
export function toArguments(text: string): JsonObject {
  if (text.trim() === '') return {}
  const value = tryJson(text)
  return asObject(value) ?? { value: value === undefined ? text : value }
}

export const toInputObject = (text: string): JsonObject =>
  text.trim() === '' ? {} : (asObject(tryJson(text)) ?? { rawInvalidInput: text })

export function toArgumentsText(text: string): string {
  try {
    if (asObject(JSON.parse(text))) return text
  } catch {}
  return JSON.stringify(toArguments(text))
}

/** Index of a legacy function call; tool calls start at 0. */
export const LEGACY_INDEX = -1

/** IDs of a response's calls: the upstream's own, or ours if it is missing, invalid or repeated. */
export class CallIds {
  readonly #prefix: 'call' | 'toolu'
  /** Unique to the response, so our IDs are unique in the conversation. */
  readonly #place: string
  readonly #said = new Set<string>()

  constructor(prefix: 'call' | 'toolu', place: string) {
    this.#prefix = prefix
    this.#place = place
  }

  of(given: string, index: number): string {
    const isNew = given !== '' && given.isWellFormed() && !this.#said.has(given)
    const id = isNew ? given : `${this.#prefix}_${hex(`${this.#place}/${index}`)}`
    this.#said.add(id)
    return id
  }
}

const hex = (text: string) => Bun.hash(text).toString(16).padStart(16, '0')

type BegunCall = Extract<AnswerEvent, { kind: 'tool' }>

/** The calls of one choice, for formats that send names first. Written as functions or tools, as in the request. */
export class CallBook {
  readonly #choice: number
  readonly #ids: CallIds
  readonly #isLegacy: boolean
  readonly #isOne: boolean
  #count = 0

  constructor({ tools, functions, parallel_tool_calls: parallel }: Expected['body'], place: string, choice = 0) {
    this.#choice = choice
    this.#ids = new CallIds('call', place)
    this.#isLegacy = !tools && Boolean(functions)
    this.#isOne = this.#isLegacy || parallel === false
  }

  get reason(): 'tool_calls' | 'function_call' | null {
    if (this.#count === 0) return null
    return this.#isLegacy ? 'function_call' : 'tool_calls'
  }

  /** Begins a call. Null if the client asked for one call at a time. */
  begin(name: string, given: string, out: AnswerEvent[]): BegunCall | null {
    if (this.#isOne && this.#count > 0) return null
    const number = this.#count++
    const called = this.#isLegacy
      ? ({ index: LEGACY_INDEX, id: '', type: 'function_call' } as const)
      : ({ index: number, id: this.#ids.of(given, number), type: 'function' } as const)
    const begun: BegunCall = { kind: 'tool', choice: this.#choice, name: name.toWellFormed(), ...called }
    out.push(begun)
    return begun
  }
}
