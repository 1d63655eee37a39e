/**
 * What can be set on a key and on a team: an entry a field, from which follow checks and ceilings, the bodies of the API and what it says of
 * them, options of commands and what they show, and the forms and pages of the dashboard, which loads this file, too. A further field is an entry here, beside a property in `StoredKey` or `StoredTeam` and its
 * column; what does not compile then is the rest. Pure.
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

/** What is said of a key or of a team alike. Null = none. What is left out stays as it is. */
export interface SharedChanges extends Partial<Limits> {
  name?: string
  /** `local`: sees and uses local upstreams only. */
  scope?: Access['scope']
  /** Patterns over slugs; none = every model of the scope. */
  models?: string[]
  budget?: Budget | null
  /** The names given, null = that one is gone (RFC 7396); others stay. */
  metadata?: Record<string, string | null> | null
}

export interface KeyChanges extends SharedChanges {
  /** Addresses and ranges; none = from everywhere. */
  allowedIps?: string[]
  /** A team's id or name. */
  team?: string | null
  expiresMs?: number | null
}

export interface TeamChanges extends SharedChanges {
  /** How many keys each of its members may have. */
  maxKeys?: number | null
}

/** What a value is, for those who write a schema or an input for it. */
export type Kind = 'text' | 'patterns' | 'ranges' | 'scope' | 'team' | 'count' | 'budget' | 'time' | 'metadata'

/** What bodies and commands have to know of a field, of those who sign in and of tokens, too. */
export interface Said<Value> {
  kind: Kind | 'choice' | 'switch'
  /** Of a choice: its words, and what each means. */
  choices?: Readonly<Record<Value & string, string>>
  /** In the description of the API. */
  says: string
  option: {
    /** As commander takes it. */
    flag: string
    help: string
    /** Of a switch: what says that it is not so. */
    opposite?: { flag: string; help: string }
    /** Reads what was typed, as often as it was said. Throws `Misread`. */
    read(texts: readonly string[], nowMs: number): Value
  }
  /** What takes it away, where something does. */
  none?: null | []
  /** What a new one has where nothing is said, if that is not none. */
  byDefault?: Value
  /** What forms and pages call it, and what forms say of it. */
  title: string
  hint?: string
  /** Not for members. */
  isForEditors?: true
}

export interface Field<Value> extends Said<Value> {
  kind: Kind
  /** What commands call it, and how none is shown. */
  label: string
  noneText: string
  toText(value: Value): string
  /** What is wrong with a value; null: nothing. */
  problemOf?(value: Value): string | null
  /** Whether a value allows no more than another, of what is a ceiling on a member's key once somebody else has set it. */
  isWithin?(value: Value, ceiling: Value): boolean
}

export type SaidOf<Changes> = { readonly [Name in keyof Changes]-?: Said<NonNullable<Changes[Name]>> }
export type FieldsOf<Changes> = { readonly [Name in keyof Changes]-?: Field<NonNullable<Changes[Name]>> }

/** What was typed cannot be read. Whoever knows the option makes a sentence of it. */
export class Misread extends Error {
  /** @param text that cannot be read; null where the problem says all. */
  constructor(
    readonly text: string | null,
    readonly problem: string,
  ) {
    super(problem)
    this.name = 'Misread'
  }
}

/** The last one counts of what can only be said once. */
export const once =
  <Value>(read: (text: string, nowMs: number) => Value) =>
  (texts: readonly string[], nowMs: number) =>
    read(texts.at(-1) ?? '', nowMs)

export const readChoice = <Word extends string>(choices: Readonly<Record<Word, string>>) =>
  once((text) => {
    const isChoice = (word: string): word is Word => Object.hasOwn(choices, word)
    if (isChoice(text)) return text
    throw new Misread(text, `is unknown: write ${Object.keys(choices).join(' or ')}.`)
  })

const each =
  <Value>(read: (text: string) => Value) =>
  (texts: readonly string[]) =>
    texts.map(read)

/** A name of a key, a team or a token. One with invisible characters could be shown, but not typed; two with spaces around them look alike. */
export const isName = (text: string) => text !== '' && text.length <= 200 && text === text.trim() && isVisible(text)
export const NAME_RULE = 'must have 1 to 200 characters, none of them invisible, and no spaces around it'

export function readName(text: string): string {
  const name = text.trim()
  if (!isName(name)) throw new Misread(null, `${NAME_RULE}.`)
  return name
}

const toName = (help: string, hint: string): Field<string> => ({
  kind: 'text',
  says: 'What it is called: of those in force, no two are called the same.',
  option: { flag: '--name <name>', help, read: once(readName) },
  title: 'Name',
  hint,
  label: 'name',
  noneText: '-',
  toText: String,
  problemOf: (name) => (isName(name) ? null : `it ${NAME_RULE}`),
})

/** A pattern of an allow-list, such as `openai/*`. */
const isPattern = (text: string) => /^\S{1,200}$/.test(text)
/** Each name of a list of models is compared with all of them: with more, one key's lists would take other keys' time. */
const MAX_PATTERNS = 200

const MODELS: Field<string[]> = {
  kind: 'patterns',
  says: 'Patterns over slugs such as `openai/*`; none: every model of the scope.',
  option: {
    flag: '--model <pattern>',
    help: 'allow these models only, such as openai/* (may be repeated)',
    read: each((text) => {
      if (isPattern(text)) return text
      throw new Misread(text, 'is no pattern: write a model such as openai/gpt-4o-mini or openai/*.')
    }),
  },
  none: [],
  title: 'Models',
  hint: 'One a line; * stands for anything, as in openai/*. None: every model, and those to come.',
  label: 'models',
  noneText: 'all',
  toText: (patterns) => patterns.join(', '),
  problemOf: (patterns) => {
    if (!patterns.every(isPattern)) return 'each must be a pattern such as openai/*'
    return patterns.length > MAX_PATTERNS ? `it may have ${MAX_PATTERNS} patterns` : null
  },
  // A `*` of a pattern is matched by a `*` alone: what matches the pattern as a text matches all that the pattern does.
  isWithin: (patterns, most) => patterns.every((pattern) => most.some((other) => matches(other, pattern))),
}

const SCOPES: Readonly<Record<Access['scope'], string>> = { all: 'all', local: 'local upstreams only' }

const SCOPE: Field<Access['scope']> = {
  kind: 'scope',
  says: '`local`: only upstreams that cost no money.',
  option: {
    flag: '--scope <scope>',
    help: 'all, or local: local upstreams only',
    read: readChoice(SCOPES),
  },
  title: 'Upstreams',
  byDefault: 'all',
  label: 'scope',
  noneText: 'all',
  toText: (scope) => SCOPES[scope],
  isWithin: (scope) => scope === 'local',
}

/** Reads a whole number from 1 to a thousand million. */
export function readCount(text: string): number {
  const value = Number(/^\d+$/.exec(text.trim())?.[0] ?? '0')
  if (value < 1) throw new Misread(text, 'is no count: write a whole number of at least 1.')
  if (value > MAX_LIMIT) throw new Misread(text, `is too large: at most ${MAX_LIMIT}.`)
  return value
}

const toCount = (title: string, flag: string, help: string, says: string, unit = ''): Field<number> => ({
  kind: 'count',
  says,
  option: { flag: `--${flag} <n>`, help, read: once(readCount) },
  none: null,
  title,
  label: flag.replace('-', ' '),
  noneText: '-',
  toText: (value) => `${value}${unit}`,
  problemOf: (value) =>
    Number.isInteger(value) && value >= 1 && value <= MAX_LIMIT
      ? null
      : `it must be a whole number from 1 to ${MAX_LIMIT}`,
  isWithin: (value, most) => value <= most,
})

const LIMIT_FIELDS: Record<LimitName, Field<number>> = mapLimits((name) =>
  toCount(LIMITS[name].label, name, LIMITS[name].help, LIMITS[name].says),
)

/** Such as `day, week, month or total`. */
const PERIODS_TEXT = PERIODS.join(', ').replace(/, (?=\w+$)/, ' or ')

/** Reads `20/month`, `0.10/day` or `5` (in total) as USD, into integer nano-dollars and a period. No floating point touches money. */
export function readBudget(text: string): Budget {
  const [amount = '', periodName = 'total', ...rest] = text.trim().split('/')
  const period = PERIODS.find((known) => known === periodName)
  if (rest.length > 0 || period === undefined)
    throw new Misread(text, `has no known period: write USD per ${PERIODS_TEXT}, such as 20/month.`)
  const [, whole, fraction = ''] = /^\$?(\d+)(?:\.(\d+))?$/.exec(amount.trim()) ?? []
  if (whole === undefined)
    throw new Misread(text, 'is no amount: write USD as a decimal, such as 20/month, 0.10/day or 5.')
  if (fraction.length > 9) throw new Misread(text, 'is too fine: at most 9 decimals, a nano-dollar.')
  const nanoUsd = BigInt(whole + fraction.padEnd(9, '0'))
  if (nanoUsd === 0n) throw new Misread(null, 'must be more than 0; to stop a key, revoke it.')
  if (nanoUsd > BigInt(Number.MAX_SAFE_INTEGER)) throw new Misread(text, 'is too large: at most 9000000.')
  return { nanoUsd: Number(nanoUsd), period }
}

/** Such as `$20/month`, or `$5 in total`: exact dollars, to the cent at least where they are not whole. */
export function toBudgetText({ nanoUsd, period }: Budget): string {
  const [whole = '', fraction] = toUsd(nanoUsd).split('.')
  const money = `$${whole}${fraction === undefined ? '' : `.${fraction.padEnd(2, '0')}`}`
  return `${money}${period === 'total' ? ' in total' : `/${period}`}`
}

/** @param whose what is paid, such as `what it may cost`. */
const toBudget = (whose: string): Field<Budget> => ({
  kind: 'budget',
  says: 'What it may cost in each period, in nano-dollars; null: no budget. Given together with the period.',
  option: { flag: '--budget <usd>', help: `${whose}: 20/month, 0.10/day, or 5 in total`, read: once(readBudget) },
  none: null,
  title: 'Budget',
  label: 'budget',
  noneText: '-',
  toText: toBudgetText,
  problemOf: ({ nanoUsd }) => (Number.isSafeInteger(nanoUsd) && nanoUsd > 0 ? null : 'it must be more than 0'),
  // A total is never more than as much in each period; of other periods neither is surely the smaller one.
  isWithin: ({ nanoUsd, period }, most) => (period === most.period || period === 'total') && nanoUsd <= most.nanoUsd,
})

/** How much may be noted beside a key or a team; the numbers are those of `metadata` in OpenAI's API reference. */
const MAX_METADATA = { pairs: 16, name: 64, value: 512 }

const METADATA: Field<Record<string, string | null>> = {
  kind: 'metadata',
  says: 'Notes by name; null for one takes it away, null for all of them all.',
  option: {
    flag: '--metadata <name=value>',
    help: 'a note beside it, such as owner=ann (may be repeated); owner= takes that one away',
    read: (texts) => Object.fromEntries(texts.map(readNote)),
  },
  none: null,
  title: 'Notes',
  hint: 'One a line: a name and what is noted, such as owner=ann.',
  label: 'metadata',
  noneText: '-',
  toText: (notes) =>
    Object.entries(notes)
      .map((pair) => pair.join('='))
      .join(', '),
  problemOf: (notes) => {
    const [names, values] = [Object.keys(notes), Object.values(notes)]
    const { pairs, name, value } = MAX_METADATA
    if (names.length > pairs) return `it may have ${pairs} names at most`
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
  if (at === -1 || name === '') throw new Misread(text, 'is no note: write a name and a value, owner=ann.')
  return [name, text.slice(at + 1).trim() || null]
}

/** More is somebody's mistake, and every request of the key would be compared with each. */
const MAX_ALLOWED_IPS = 100

const ALLOWED_IPS: Field<string[]> = {
  kind: 'ranges',
  says: 'Addresses and ranges that it may be used from; none: from everywhere.',
  option: {
    flag: '--allow-ip <cidr>',
    help: 'allow its use from this address or range only, such as 203.0.113.7 or 10.0.0.0/8 (may be repeated)',
    read: each((text) => {
      const range = toIpRange(text)
      if ('problem' in range) throw new Misread(text, `${range.problem}.`)
      return text
    }),
  },
  none: [],
  title: 'Addresses of clients',
  hint: 'One a line, such as 203.0.113.7 or 10.0.0.0/8. None: from everywhere.',
  label: 'from',
  noneText: 'everywhere',
  toText: (ranges) => ranges.join(', '),
  problemOf: (ranges) => {
    if (ranges.length > MAX_ALLOWED_IPS) return `it may have ${MAX_ALLOWED_IPS} ranges`
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

/** Those that are valid in their one form, and each once. */
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
  says: 'By id, a part of it, or name; null: none.',
  option: {
    flag: '--team <team>',
    help: 'name of a team whose limits and budget it shares, or six digits or more of its id',
    read: once(String),
  },
  none: null,
  title: 'Team',
  hint: 'Its limits and its budget hold, too, for all of its keys together.',
  label: 'team',
  noneText: '-',
  toText: String,
  isForEditors: true,
}

/** Reads `90d`, `12h`, `30m`, `2w` from now, or a date (`2027-01-31`, UTC, or with a time), into ms since 1970. */
export function readExpiry(text: string, nowMs: number): number {
  const trimmed = text.trim()
  const spanMs = toLongMs(trimmed)
  const atMs = spanMs === null ? toDateMs(trimmed) : nowMs + spanMs
  if (atMs === null) throw new Misread(text, 'is no time: write 90d, 12h, or a date such as 2027-01-31.')
  if (atMs <= nowMs) throw new Misread(text, 'is not in the future.')
  return atMs
}

const EXPIRES: Field<number> = {
  kind: 'time',
  says: 'When it ends, ms since 1970; null: never.',
  option: { flag: '--expires <time>', help: 'such as 90d, 12h or 2027-01-31', read: once(readExpiry) },
  none: null,
  title: 'Ends',
  label: 'expires',
  noneText: '-',
  toText: (ms) => new Date(ms).toISOString().slice(0, 16).replace('T', ' '),
  problemOf: (ms) => (Number.isInteger(ms) && !Number.isNaN(new Date(ms).getTime()) ? null : 'it must be a time in ms'),
  isWithin: (ms, most) => ms <= most,
}

/** In the order of commands and what they show. */
export const KEY_FIELDS: FieldsOf<KeyChanges> = {
  name: toName(
    'what the key is for; no two in force have the same',
    'Whose it is, or what for. Requests and costs are told by it.',
  ),
  models: MODELS,
  scope: SCOPE,
  allowedIps: ALLOWED_IPS,
  team: TEAM,
  ...LIMIT_FIELDS,
  budget: toBudget('what it may cost'),
  expiresMs: EXPIRES,
  metadata: METADATA,
}

export const TEAM_FIELDS: FieldsOf<TeamChanges> = {
  name: toName(
    'what it is called; no two have the same name',
    'A group of people, or a project. Costs are told by it.',
  ),
  models: MODELS,
  scope: SCOPE,
  ...LIMIT_FIELDS,
  budget: toBudget('what all its keys together may cost'),
  maxKeys: {
    ...toCount(
      'Keys that a member may have',
      'max-keys',
      'how many keys a member may make for themselves, once members can; of keys made here there may be any number (default: 10)',
      'How many keys each member may have; null: any number.',
      ' a member',
    ),
    byDefault: 10,
    hint: 'Members are people who make keys of their own. Nothing: as many as they like.',
  },
  metadata: METADATA,
}

/** What lists tell of keys, of texts that some have: a column of the page, a word beneath the row of a command. It is searched for, too. */
export const LISTED = ['team'] as const satisfies (keyof KeyChanges)[]

/** Fields whose column is not called as they are; of a budget there are two. */
const COLUMNS = { allowedIps: 'allowed_ips', expiresMs: 'expires_ms', maxKeys: 'max_keys' } as const
type Columns = typeof COLUMNS
type ColumnOf<Name> = Name extends keyof Columns ? Columns[Name] : Name

/** What bodies, documents, the audit log and refusals call a field. */
export const columnOf = (name: string): string => new Map<string, string>(Object.entries(COLUMNS)).get(name) ?? name

/** Changes by the names of columns, as bodies have them. */
export type Body<Changes> = {
  [Name in Exclude<keyof Changes, 'budget'> as ColumnOf<Name>]?: Exclude<Changes[Name], undefined>
} & {
  /** With its period, or null for none. */
  budget_nano_usd?: number | null
  budget_period?: Period | null
}
