/**
 * Tool calls in every dialect: ids that an answer's calls have, ids as a receiver takes them, arguments as objects. Pure.
 */

import type { TOOL_IDS } from '../../domain/dialects.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { asObject, type JsonObject, tryJson } from '../../domain/json.ts'
import type { Message } from '../../domain/request.ts'
import type { Expected } from './dialect.ts'

/**
 * Ids of tool calls as a receiver takes them that takes fewer than another upstream has made: too long ones, ones of other letters,
 * ones that an earlier call of the conversation had. A call and its result get the same other id, worked out of theirs: nothing is
 * kept here, clients keep the ids that they know, and each request of a conversation has the same ones again. Pure.
 */
/** Which ids a receiver takes, and another one for an id that it does not; `seed` tells those from one another that would be alike. */
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

/** By the names that the catalogue has for them: nine letters and digits, or what is no longer than forty. */
export const ID_RULES = {
  alphanumeric_9: { fits: /^[a-zA-Z0-9]{9}$/, make: (id, seed) => hash(id, seed).slice(-9) },
  max_40: { fits: /^[\s\S]{1,40}$/, make: (id, seed) => `call_${hash(id, seed)}` },
} satisfies Record<(typeof TOOL_IDS)[number], IdRule>

/** The ids of one conversation, asked for in its order. */
export class ToolIds {
  readonly #rule: IdRule
  /** By the ids that the client knows: those of their last calls. */
  readonly #last = new Map<string, string>()
  readonly #taken = new Set<string>()
  /** By ids, from where on there may be one that is free: a client may give thousands of calls the same. */
  readonly #seeds = new Map<string, number>()
  /** What stays as it is, which no other id becomes. */
  readonly #own = new Set<string>()

  constructor(rule: IdRule, messages: readonly Message[]) {
    this.#rule = rule
    for (const message of messages)
      if (message.role === 'assistant')
        for (const { id } of message.tool_calls ?? []) if (rule.fits.test(id)) this.#own.add(id)
  }

  /** Of a call. */
  call(id: string): string {
    const isOwn = this.#own.has(id) && !this.#taken.has(id)
    const given = isOwn ? id : this.#make(id)
    this.#taken.add(given)
    this.#last.set(id, given)
    return given
  }

  /** Of the result of the last call that had this id. */
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

/**
 * The arguments of a call that an earlier answer made, for who reads them as JSON: a model may have written, and a client may send
 * back, what is none. Pure.
 */
/** Arguments as an object. What is none still says something. */
export function toArguments(text: string): JsonObject {
  if (text.trim() === '') return {}
  const value = tryJson(text)
  return asObject(value) ?? { value: value === undefined ? text : value }
}

/** The same as the Messages API has it. */
export const toInputObject = (text: string): JsonObject =>
  text.trim() === '' ? {} : (asObject(tryJson(text)) ?? { rawInvalidInput: text })

/** The same text where it is that of an object, else that of what it becomes. */
export function toArgumentsText(text: string): string {
  try {
    if (asObject(JSON.parse(text))) return text
  } catch {}
  return JSON.stringify(toArguments(text))
}

/** The index under which the events of a legacy call stand: tool calls begin at 0. */
export const LEGACY_INDEX = -1

/** Ids of the calls of one answer: its upstream's own, or ones of ours where it has none, or one that is no text or was said before. */
export class CallIds {
  readonly #prefix: 'call' | 'toolu'
  /** What no other answer has: with it, an id of ours is like no other of the conversation. */
  readonly #place: string
  readonly #said = new Set<string>()

  constructor(prefix: 'call' | 'toolu', place: string) {
    this.#prefix = prefix
    this.#place = place
  }

  /** @param index of the call in its answer. */
  of(given: string, index: number): string {
    const isNew = given !== '' && given.isWellFormed() && !this.#said.has(given)
    const id = isNew ? given : `${this.#prefix}_${hex(`${this.#place}/${index}`)}`
    this.#said.add(id)
    return id
  }
}

const hex = (text: string) => Bun.hash(text).toString(16).padStart(16, '0')

type BegunCall = Extract<AnswerEvent, { kind: 'tool' }>

/** The calls of one choice, where each comes under its name, told as the kind of function that was given. */
export class CallBook {
  readonly #choice: number
  readonly #ids: CallIds
  readonly #isLegacy: boolean
  readonly #isOne: boolean
  #count = 0

  /** @param place what no other choice of any answer has. */
  constructor({ tools, functions, parallel_tool_calls: parallel }: Expected['body'], place: string, choice = 0) {
    this.#choice = choice
    this.#ids = new CallIds('call', place)
    this.#isLegacy = !tools && Boolean(functions)
    this.#isOne = this.#isLegacy || parallel === false
  }

  /** How the answer ends where it was not cut short; null where nothing was called. */
  get reason(): 'tool_calls' | 'function_call' | null {
    if (this.#count === 0) return null
    return this.#isLegacy ? 'function_call' : 'tool_calls'
  }

  /** Begins a call. Null for one that its client has no place for: one call at a time was asked for. */
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
