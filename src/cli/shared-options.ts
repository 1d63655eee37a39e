/**
 * How what is said of a key or of a team is typed, when it is made and when it is changed: the options that both have, and how
 * a list of options is added to a command and read. `key-options.ts` and `team-options.ts` have the lists.
 */
import { type Command, Option } from 'commander'
import { isPattern } from '../keys/rules.ts'
import type { SharedChanges } from '../keys/shared-fields.ts'
import { usageError } from './command-error.ts'
import { toBudget, toCount } from './values.ts'

export interface TypedOption<Changes> {
  /** As commander takes them. */
  flags: string
  says: string
  /** What `none` makes of it, where it can be taken away. */
  none?: Changes
  /** @param texts as often as it was said, at least once. */
  read(texts: readonly [string, ...string[]], nowMs: number): Changes
}

/** The last one counts of what can only be said once. */
export const once =
  <Changes>(read: (text: string, nowMs: number) => Changes) =>
  (texts: readonly string[], nowMs: number) =>
    read(texts.at(-1) ?? '', nowMs)

/** @param whose what is paid, such as `what it may cost`. */
export const toBudgetOption = (whose: string): TypedOption<SharedChanges> => ({
  flags: '--budget <usd>',
  says: `${whose}: 20/month, 0.10/day, or 5 in total`,
  none: { budget: null },
  read: once((text) => ({ budget: toBudget(text) })),
})

export const SHARED = {
  model: {
    flags: '--model <pattern>',
    says: 'allow these models only, such as openai/* (may be repeated)',
    none: { models: [] },
    read: (texts) => ({ models: texts.map(toPattern) }),
  },
  scope: {
    flags: '--scope <scope>',
    says: 'all, or local: local upstreams only',
    read: once((text) => ({ scope: toScope(text) })),
  },
  rpm: {
    flags: '--rpm <n>',
    says: 'requests per minute',
    none: { requestsPerMinute: null },
    read: once((text) => ({ requestsPerMinute: toCount('--rpm', text) })),
  },
  tpm: {
    flags: '--tpm <n>',
    says: 'tokens per minute',
    none: { tokensPerMinute: null },
    read: once((text) => ({ tokensPerMinute: toCount('--tpm', text) })),
  },
  concurrency: {
    flags: '--concurrency <n>',
    says: 'requests at a time; one more is refused at once',
    none: { concurrency: null },
    read: once((text) => ({ concurrency: toCount('--concurrency', text) })),
  },
  metadata: {
    flags: '--metadata <name=value>',
    says: 'a note beside it, such as owner=ann (may be repeated); owner= takes that one away',
    none: { metadata: null },
    read: (texts) => ({ metadata: Object.fromEntries(texts.map(toPair)) }),
  },
} satisfies Record<string, TypedOption<SharedChanges>>

/** What was typed, by the names that commander gives the options. */
export type Flags = Readonly<Record<string, string[]>>

/** Whether `none` may be said: of what is there already, it takes something away. */
export interface Manner {
  canBeNone: boolean
}

/** Adds all of them to a command. */
export function addOptions<Changes>(
  command: Command,
  options: readonly TypedOption<Changes>[],
  { canBeNone }: Manner,
): Command {
  for (const { flags, says, none } of options) {
    const option = new Option(flags, none && canBeNone ? `${says}; or none` : says)
    command.addOption(option.argParser((text, before: string[] = []) => [...before, text]))
  }
  return command
}

/** Reads them. Throws a usage error for the first that is wrong. */
export function toTypedChanges<Changes>(
  said: Flags,
  options: readonly TypedOption<Changes>[],
  { canBeNone }: Manner,
  nowMs: number,
): Partial<Changes> {
  let changes: Partial<Changes> = {}
  for (const { flags, none, read } of options) {
    const option = new Option(flags)
    const [first, ...more] = said[option.attributeName()] ?? []
    if (first === undefined) continue
    const isNone = none !== undefined && canBeNone && [first, ...more].includes('none')
    if (isNone && more.length > 0) throw usageError(`${option.long} none stands alone.`)
    changes = { ...changes, ...(isNone ? none : read([first, ...more], nowMs)) }
  }
  return changes
}

function toScope(text: string): 'all' | 'local' {
  if (text !== 'all' && text !== 'local') throw usageError(`--scope '${text}' is unknown: write all or local.`)
  return text
}

function toPattern(text: string): string {
  if (isPattern(text)) return text
  throw usageError(`--model '${text}' is no pattern: write a model such as openai/gpt-4o-mini or openai/*.`)
}

function toPair(text: string): [name: string, value: string | null] {
  const at = text.indexOf('=')
  const name = text.slice(0, at).trim()
  if (at === -1 || name === '')
    throw usageError(`--metadata '${text}' is no note: write a name and a value, owner=ann.`)
  return [name, text.slice(at + 1).trim() || null]
}
