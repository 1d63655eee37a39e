/** How what is said of a key is typed, for `keys create` and `keys edit`: a property of keys is an entry of the one list here. */
import { type Command, Option } from 'commander'
import { toIpRange } from '../domain/ip.ts'
import type { KeyChanges } from '../keys/fields.ts'
import { isPattern } from '../keys/rules.ts'
import { usageError } from './command-error.ts'
import { toBudget, toCount, toExpiry, toName } from './values.ts'

interface KeyOption {
  /** As commander takes them. */
  flags: string
  says: string
  /** What `none` makes of it, where it can be taken away. */
  none?: KeyChanges
  /** @param texts as often as it was said, at least once. */
  read(texts: readonly [string, ...string[]], nowMs: number): KeyChanges
}

/** The last one counts of what can only be said once. */
const once = (read: (text: string, nowMs: number) => KeyChanges) => (texts: readonly string[], nowMs: number) =>
  read(texts.at(-1) ?? '', nowMs)

/** What money is typed like. */
export const BUDGET = '20/month, 0.10/day, or 5 in total'

const OPTIONS: readonly KeyOption[] = [
  {
    flags: '--name <name>',
    says: 'what the key is for; no two in force have the same',
    read: once((text) => ({ name: toName(text, '') })),
  },
  {
    flags: '--model <pattern>',
    says: 'allow these models only, such as openai/* (may be repeated)',
    none: { models: [] },
    read: (texts) => ({ models: texts.map(toPattern) }),
  },
  {
    flags: '--allow-ip <cidr>',
    says: 'allow its use from this address or range only, such as 203.0.113.7 or 10.0.0.0/8 (may be repeated)',
    none: { allowedIps: [] },
    read: (texts) => ({ allowedIps: texts.map(toRange) }),
  },
  {
    flags: '--scope <scope>',
    says: 'all, or local: local upstreams only',
    read: once((text) => ({ scope: toScope(text) })),
  },
  {
    flags: '--team <team>',
    says: 'name of a team whose budget it shares, or six digits or more of its id',
    none: { team: null },
    read: once((team) => ({ team })),
  },
  {
    flags: '--rpm <n>',
    says: 'requests per minute',
    none: { requestsPerMinute: null },
    read: once((text) => ({ requestsPerMinute: toCount('--rpm', text) })),
  },
  {
    flags: '--tpm <n>',
    says: 'tokens per minute',
    none: { tokensPerMinute: null },
    read: once((text) => ({ tokensPerMinute: toCount('--tpm', text) })),
  },
  {
    flags: '--concurrency <n>',
    says: 'requests at a time; one more is refused at once',
    none: { concurrency: null },
    read: once((text) => ({ concurrency: toCount('--concurrency', text) })),
  },
  {
    flags: '--budget <usd>',
    says: `what it may cost: ${BUDGET}`,
    none: { budget: null },
    read: once((text) => ({ budget: toBudget(text) })),
  },
  {
    flags: '--expires <time>',
    says: 'such as 90d, 12h or 2027-01-31',
    none: { expiresMs: null },
    read: once((text, nowMs) => ({ expiresMs: toExpiry(text, nowMs) })),
  },
  {
    flags: '--metadata <name=value>',
    says: 'a note beside it, such as owner=ann (may be repeated); owner= takes that one away',
    none: { metadata: null },
    read: (texts) => ({ metadata: Object.fromEntries(texts.map(toPair)) }),
  },
]

/** What was typed, by the names that commander gives the options. */
export type KeyFlags = Readonly<Record<string, string[]>>

/** Whether `none` may be said: of a key that is there, it takes something away. */
interface Manner {
  canBeNone: boolean
}

/** Adds all of them to a command. */
export function addKeyOptions(command: Command, { canBeNone }: Manner): Command {
  for (const { flags, says, none } of OPTIONS) {
    const option = new Option(flags, none && canBeNone ? `${says}; or none` : says)
    command.addOption(option.argParser((text, before: string[] = []) => [...before, text]))
  }
  return command
}

/** Reads them. Throws a usage error for the first that is wrong. */
export function toKeyChanges(said: KeyFlags, { canBeNone }: Manner, nowMs: number): KeyChanges {
  let changes: KeyChanges = {}
  for (const { flags, none, read } of OPTIONS) {
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

function toRange(text: string): string {
  const range = toIpRange(text)
  if ('problem' in range) throw usageError(`--allow-ip '${text}' ${range.problem}.`)
  return text
}

function toPair(text: string): [name: string, value: string | null] {
  const at = text.indexOf('=')
  const name = text.slice(0, at).trim()
  if (at === -1 || name === '')
    throw usageError(`--metadata '${text}' is no note: write a name and a value, owner=ann.`)
  return [name, text.slice(at + 1).trim() || null]
}
