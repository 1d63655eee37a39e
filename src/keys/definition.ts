/**
 * Fields of keys and teams: one entry defines validation, ceilings, API, command options and output, and the
 * dashboard's forms. A new field also needs a property in `StoredKey` or `StoredTeam`, and a column. Loaded by
 * browsers, too.
 */
import { isIn, toIpRange, toIpRangeText } from '../domain/ip.ts'
import {
  type Budget,
  LIMITS,
  type LimitName,
  type Limits,
  MAX_LIMIT,
  mapLimits,
  PERIODS,
  type Period,
} from '../domain/limits.ts'
import type { Access } from '../domain/snapshot.ts'
import { isVisible, matches } from '../domain/text.ts'
import { toDateMs, toLongMs } from '../domain/time.ts'
import { toUsd } from '../domain/usage.ts'

/** Null removes a value; undefined leaves it unchanged. */
export interface SharedChanges extends Partial<Limits> {
  name?: string
  /** `local`: sees and uses local upstreams only. */
  scope?: Access['scope']
  /** Patterns of model IDs; empty = every model of the scope. */
  models?: string[]
  budget?: Budget | null
  /** Merges by name, null removes one (RFC 7396). */
  metadata?: Record<string, string | null> | null
}

export interface KeyChanges extends SharedChanges {
  /** Addresses and CIDR ranges; empty = anywhere. */
  allowedIps?: string[]
  team?: string | null
  expiresMs?: number | null
}

export interface TeamChanges extends SharedChanges {
  maxKeys?: number | null
}

export type Kind = 'text' | 'patterns' | 'ranges' | 'scope' | 'team' | 'count' | 'budget' | 'time' | 'metadata'

/** What bodies and commands need to know about a field; also for users and tokens. */
export interface InputField<Value> {
  kind: Kind | 'choice' | 'switch'
  /** The values of a choice, with labels. */
  choices?: Readonly<Record<Value & string, string>>
  says: string
  option: {
    /** In commander's syntax. */
    flag: string
    help: string
    /** The option that turns a switch off. */
    opposite?: { flag: string; help: string }
    /** Parses the option's values, one per occurrence. Throws `Misread`. */
    read(texts: readonly string[], nowMs: number): Value
  }
  /** The value that removes it, if it can be removed. */
  none?: null | []
  /** Default of a new one, if any. */
  byDefault?: Value
  /** Label and hint in the dashboard. */
  title: string
  hint?: string
  isForEditors?: true
}

export interface Field<Value> extends InputField<Value> {
  kind: Kind
  /** Label in command output, and text for no value. */
  label: string
  noneText: string
  toText(value: Value): string
  /** The rule that a value breaks; null if valid. */
  problemOf?(value: Value): string | null
  /** Whether a value allows no more than a ceiling does. */
  isWithin?(value: Value, ceiling: Value): boolean
}

export type InputFieldsOf<Changes> = { readonly [Name in keyof Changes]-?: InputField<NonNullable<Changes[Name]>> }
export type FieldsOf<Changes> = { readonly [Name in keyof Changes]-?: Field<NonNullable<Changes[Name]>> }

/** An option's value is invalid; the caller adds the option's name. */
export class Misread extends Error {
  /**
   * @param text the invalid value; null if the problem says all.
   * @param problem without a final period.
   */
  constructor(
    readonly text: string | null,
    readonly problem: string,
  ) {
    super(problem)
    this.name = 'Misread'
  }
}

export const once =
  <Value>(read: (text: string, nowMs: number) => Value) =>
  (texts: readonly string[], nowMs: number) =>
    read(texts.at(-1) ?? '', nowMs)

export const readChoice = <Word extends string>(choices: Readonly<Record<Word, string>>) =>
  once((text) => {
    const isChoice = (word: string): word is Word => Object.hasOwn(choices, word)
    if (isChoice(text)) return text
    throw new Misread(text, `must be ${Object.keys(choices).join(' or ')}`)
  })

const each =
  <Value>(read: (text: string) => Value) =>
  (texts: readonly string[]) =>
    texts.map(read)

/** Invisible characters can't be typed, and names with spaces around them look alike. */
export const isName = (text: string) => text !== '' && text.length <= 200 && text === text.trim() && isVisible(text)
export const NAME_RULE = 'must have 1 to 200 visible characters, without leading or trailing spaces'

export function readName(text: string): string {
  const name = text.trim()
  if (!isName(name)) throw new Misread(null, NAME_RULE)
  return name
}

const toName = (help: string, hint: string): Field<string> => ({
  kind: 'text',
  says: 'Name; unique among active ones.',
  option: { flag: '--name <name>', help, read: once(readName) },
  title: 'Name',
  hint,
  label: 'name',
  noneText: 'none',
  toText: String,
  problemOf: (name) => (isName(name) ? null : NAME_RULE),
})

const isPattern = (text: string) => /^\S{1,200}$/.test(text)
/** Each listed model is compared with all patterns: more would let one key slow down others. */
const MAX_PATTERNS = 200

const MODELS: Field<string[]> = {
  kind: 'patterns',
  says: 'Allowed model IDs or patterns such as `openai/*`; empty: every model of the scope.',
  option: {
    flag: '--model <pattern>',
    help: 'allow only these models, e.g. openai/* (repeatable)',
    read: each((text) => {
      if (isPattern(text)) return text
      throw new Misread(text, 'must be a model ID or pattern, e.g. openai/gpt-4o-mini or openai/*')
    }),
  },
  none: [],
  title: 'Models',
  hint: 'One per line; * matches anything. Leave empty for all current and future models.',
  label: 'models',
  noneText: 'all',
  toText: (patterns) => patterns.join(', '),
  problemOf: (patterns) => {
    if (!patterns.every(isPattern)) return 'each must be a pattern such as openai/*'
    return patterns.length > MAX_PATTERNS ? `must have at most ${MAX_PATTERNS} patterns` : null
  },
  // A `*` is matched only by a `*`, so matching the pattern as text covers all that it matches.
  isWithin: (patterns, most) => patterns.every((pattern) => most.some((other) => matches(other, pattern))),
}

const SCOPES: Readonly<Record<Access['scope'], string>> = { all: 'all', local: 'local upstreams only' }

const SCOPE: Field<Access['scope']> = {
  kind: 'scope',
  says: '`local`: only local upstreams, which are free.',
  option: {
    flag: '--scope <scope>',
    help: 'all, or local (local upstreams only)',
    read: readChoice(SCOPES),
  },
  title: 'Upstreams',
  byDefault: 'all',
  label: 'scope',
  noneText: 'all',
  toText: (scope) => SCOPES[scope],
  isWithin: (scope) => scope === 'local',
}

export function readCount(text: string): number {
  const value = Number(/^\d+$/.exec(text.trim())?.[0] ?? '0')
  if (value < 1) throw new Misread(text, 'must be a whole number of at least 1')
  if (value > MAX_LIMIT) throw new Misread(text, `must be at most ${MAX_LIMIT}`)
  return value
}

const toCount = (title: string, flag: string, help: string, says: string, unit = ''): Field<number> => ({
  kind: 'count',
  says,
  option: { flag: `--${flag} <n>`, help, read: once(readCount) },
  none: null,
  title,
  label: flag.replace('-', ' '),
  noneText: 'none',
  toText: (value) => `${value}${unit}`,
  problemOf: (value) =>
    Number.isInteger(value) && value >= 1 && value <= MAX_LIMIT
      ? null
      : `must be a whole number from 1 to ${MAX_LIMIT}`,
  isWithin: (value, most) => value <= most,
})

const LIMIT_FIELDS: Record<LimitName, Field<number>> = mapLimits((name) =>
  toCount(LIMITS[name].label, name, LIMITS[name].help, LIMITS[name].says),
)

const PERIODS_TEXT = PERIODS.join(', ').replace(/, (?=\w+$)/, ' or ')

/** Parses `20/month`, `0.10/day`, or `5` (total) in USD to nano-dollars, without floating point. */
export function readBudget(text: string): Budget {
  const [amount = '', periodName = 'total', ...rest] = text.trim().split('/')
  const period = PERIODS.find((known) => known === periodName)
  if (rest.length > 0 || period === undefined) throw new Misread(text, `must be USD per ${PERIODS_TEXT}, e.g. 20/month`)
  const [, whole, fraction = ''] = /^\$?(\d+)(?:\.(\d+))?$/.exec(amount.trim()) ?? []
  if (whole === undefined) throw new Misread(text, 'must be an amount in USD, e.g. 20/month, 0.10/day, or 5')
  if (fraction.length > 9) throw new Misread(text, 'must have at most 9 decimals')
  const nanoUsd = BigInt(whole + fraction.padEnd(9, '0'))
  if (nanoUsd === 0n) throw new Misread(null, 'must be more than 0; to stop a key, revoke it')
  if (nanoUsd > BigInt(Number.MAX_SAFE_INTEGER)) throw new Misread(text, 'must be at most 9000000')
  return { nanoUsd: Number(nanoUsd), period }
}

/** Such as `$20/month` or `$5 total`: exact, with at least two decimals if not whole. */
export function toBudgetText({ nanoUsd, period }: Budget): string {
  const [whole = '', fraction] = toUsd(nanoUsd).split('.')
  const money = `$${whole}${fraction === undefined ? '' : `.${fraction.padEnd(2, '0')}`}`
  return `${money}${period === 'total' ? ' total' : `/${period}`}`
}

/** @param whose the limited quantity, such as `spend`. */
const toBudget = (whose: string): Field<Budget> => ({
  kind: 'budget',
  says: 'Budget per period in nano-dollars; null: no budget. Requires the period.',
  option: { flag: '--budget <usd>', help: `${whose}: 20/month, 0.10/day, or 5 (total)`, read: once(readBudget) },
  none: null,
  title: 'Budget',
  label: 'budget',
  noneText: 'none',
  toText: toBudgetText,
  problemOf: ({ nanoUsd }) => (Number.isSafeInteger(nanoUsd) && nanoUsd > 0 ? null : 'must be more than 0'),
  // A total never exceeds the same amount per period; other periods can't be compared.
  isWithin: ({ nanoUsd, period }, most) => (period === most.period || period === 'total') && nanoUsd <= most.nanoUsd,
})

/** The limits of `metadata` in OpenAI's API. */
const MAX_METADATA = { pairs: 16, name: 64, value: 512 }

const METADATA: Field<Record<string, string | null>> = {
  kind: 'metadata',
  says: 'Metadata by name; null as a value removes that name, null as a whole removes all.',
  option: {
    flag: '--metadata <name=value>',
    help: 'metadata, e.g. owner=ann (repeatable); owner= removes it',
    read: (texts) => Object.fromEntries(texts.map(readNote)),
  },
  none: null,
  title: 'Metadata',
  hint: 'One name=value per line, e.g. owner=ann.',
  label: 'metadata',
  noneText: 'none',
  toText: (notes) =>
    Object.entries(notes)
      .map((pair) => pair.join('='))
      .join(', '),
  problemOf: (notes) => {
    const [names, values] = [Object.keys(notes), Object.values(notes)]
    const { pairs, name, value } = MAX_METADATA
    if (names.length > pairs) return `must have at most ${pairs} names`
    if (!names.every((one) => /^[^\s=\p{Cc}]+$/u.test(one) && one.length <= name))
      return `each name must have 1 to ${name} characters, without spaces and =`
    if (!values.every((one) => one === null || (one.length >= 1 && one.length <= value)))
      return `each value must have 1 to ${value} characters`
    return null
  },
}

function readNote(text: string): [name: string, value: string | null] {
  const at = text.indexOf('=')
  const name = text.slice(0, at).trim()
  if (at === -1 || name === '') throw new Misread(text, 'must be name=value, e.g. owner=ann')
  return [name, text.slice(at + 1).trim() || null]
}

/** Every request of the key is compared with each. */
const MAX_ALLOWED_IPS = 100

const ALLOWED_IPS: Field<string[]> = {
  kind: 'ranges',
  says: 'Allowed IP addresses and CIDR ranges of clients; empty: any.',
  option: {
    flag: '--allow-ip <cidr>',
    help: 'only accept requests from this IP address or CIDR range, e.g. 10.0.0.0/8 (repeatable)',
    read: each((text) => {
      const range = toIpRange(text)
      if ('problem' in range) throw new Misread(text, range.problem)
      return text
    }),
  },
  none: [],
  title: 'Allowed IP addresses',
  hint: 'One per line, e.g. 10.0.0.0/8. Leave empty to allow any address.',
  label: 'from',
  noneText: 'anywhere',
  toText: (ranges) => ranges.join(', '),
  problemOf: (ranges) => {
    if (ranges.length > MAX_ALLOWED_IPS) return `must have at most ${MAX_ALLOWED_IPS} ranges`
    for (const text of ranges) {
      const range = toIpRange(text)
      if ('problem' in range) return `'${text}' ${range.problem}`
    }
    return null
  },
  isWithin: (ranges, most) => ranges.every((ip) => most.some((range) => isRangeIn(range, ip))),
}

function isRangeIn(outer: string, inner: string): boolean {
  const [range, part] = [toIpRange(outer), toIpRange(inner)]
  return 'bits' in range && 'bits' in part && part.bits >= range.bits && isIn(range, part.first)
}

export const toRangeForms = (texts: readonly string[]): string[] => [
  ...new Set(
    texts.map((text) => {
      const range = toIpRange(text)
      return 'problem' in range ? text : toIpRangeText(range)
    }),
  ),
]

const TEAM: Field<string> = {
  kind: 'team',
  says: 'Team by ID, part of an ID, or name; null: none.',
  option: {
    flag: '--team <team>',
    help: 'team name, or 6+ digits of its ID; its keys share its limits and budget',
    read: once(String),
  },
  none: null,
  title: 'Team',
  hint: "The team's limits and budget apply to all of its keys together.",
  label: 'team',
  noneText: 'none',
  toText: String,
  isForEditors: true,
}

/**
 * Parses `90d`, `12h`, `30m`, `2w` from now, or a UTC date (`2027-01-31`, optionally with a time), to ms since 1970.
 */
export function readExpiry(text: string, nowMs: number): number {
  const trimmed = text.trim()
  const spanMs = toLongMs(trimmed)
  const atMs = spanMs === null ? toDateMs(trimmed) : nowMs + spanMs
  if (atMs === null) throw new Misread(text, 'must be a duration or a date, e.g. 90d, 12h, or 2027-01-31')
  if (atMs <= nowMs) throw new Misread(text, 'must be in the future')
  return atMs
}

const EXPIRES: Field<number> = {
  kind: 'time',
  says: 'Expiry, ms since 1970; null: never.',
  option: { flag: '--expires <time>', help: 'expiry, e.g. 90d, 12h, or 2027-01-31', read: once(readExpiry) },
  none: null,
  title: 'Expires',
  label: 'expires',
  noneText: 'never',
  toText: (ms) => `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`,
  problemOf: (ms) => (Number.isInteger(ms) && !Number.isNaN(new Date(ms).getTime()) ? null : 'must be a time in ms'),
  isWithin: (ms, most) => ms <= most,
}

export const KEY_FIELDS: FieldsOf<KeyChanges> = {
  name: toName('key name; must be unique among active keys', 'Who or what uses it. Shown in requests and reports.'),
  models: MODELS,
  scope: SCOPE,
  allowedIps: ALLOWED_IPS,
  team: TEAM,
  ...LIMIT_FIELDS,
  budget: toBudget('budget in USD'),
  expiresMs: EXPIRES,
  metadata: METADATA,
}

export const TEAM_FIELDS: FieldsOf<TeamChanges> = {
  name: toName('team name; must be unique', 'A group of people or a project. Shown in reports.'),
  models: MODELS,
  scope: SCOPE,
  ...LIMIT_FIELDS,
  budget: toBudget('budget of all its keys together, in USD'),
  maxKeys: {
    ...toCount(
      'Keys per member',
      'max-keys',
      'max keys that each member may create; keys created here are unlimited (default: 10)',
      'Maximum keys per member; null: unlimited.',
      ' per member',
    ),
    byDefault: 10,
    hint: 'Members create their own keys. Leave empty for no limit.',
  },
  metadata: METADATA,
}

/** Optional text fields that lists show and search. */
export const LISTED = ['team'] as const satisfies (keyof KeyChanges)[]

/** Fields whose column has another name; a budget has two. */
const COLUMNS = { allowedIps: 'allowed_ips', expiresMs: 'expires_ms', maxKeys: 'max_keys' } as const
type Columns = typeof COLUMNS
type ColumnOf<Name> = Name extends keyof Columns ? Columns[Name] : Name

/** The name of a field in bodies, documents, the audit log, and errors. */
export const columnOf = (name: string): string => new Map<string, string>(Object.entries(COLUMNS)).get(name) ?? name

export type Body<Changes> = {
  [Name in Exclude<keyof Changes, 'budget'> as ColumnOf<Name>]?: Exclude<Changes[Name], undefined>
} & {
  /** With its period, or null for none. */
  budget_nano_usd?: number | null
  budget_period?: Period | null
}
