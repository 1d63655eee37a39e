/** Options and text output of keys, teams, users, and tokens, from the definitions of their fields. */

import { type Command, Option } from 'commander'
import type { KeyDocument, TeamDocument } from '../documents/key.ts'
import { toShortId } from '../domain/id.ts'
import { keysOf } from '../domain/json.ts'
import { eachLimit, LIMITS } from '../domain/limits.ts'
import { count, uncapitalize } from '../domain/text.ts'
import { toDay } from '../domain/time.ts'
import { toChanges } from '../keys/changes.ts'
import {
  type Field,
  type FieldsOf,
  type InputFieldsOf,
  KEY_FIELDS,
  type KeyChanges,
  TEAM_FIELDS,
  type TeamChanges,
  toBudgetText,
} from '../keys/definition.ts'
import { usageError } from './command-error.ts'
import { type Context, printJson, toFactLines, toPrintable, toTime } from './io.ts'
import { toSpent } from './money.ts'
import { readOption } from './values.ts'

/** By commander's names. */
export type Flags = Readonly<Record<string, string[]>>
export type AnyFlags = Readonly<Record<string, string | string[] | boolean>>

/** Whether `none` removes a value. */
interface Manner {
  canBeNone: boolean
}

export function addOptions<Changes>(command: Command, fields: InputFieldsOf<Changes>, { canBeNone }: Manner): Command {
  for (const name of keysOf(fields)) {
    const { option, none, kind, choices = {}, byDefault } = fields[name]
    const typed = new Option(option.flag, none !== undefined && canBeNone ? `${option.help}; or none` : option.help)
    if (kind === 'choice') typed.choices(Object.keys(choices)).default(byDefault)
    else if (kind !== 'switch') typed.argParser((text, before: string[] = []) => [...before, text])
    command.addOption(typed)
    const { flag, help } = option.opposite ?? {}
    if (flag) command.addOption(new Option(flag, help).implies({ [typed.attributeName()]: false }))
  }
  return command
}

export const addKeyOptions = (command: Command, manner: Manner) => addOptions(command, KEY_FIELDS, manner)
export const addTeamOptions = (command: Command, manner: Manner) => addOptions(command, TEAM_FIELDS, manner)

/** Throws for the first invalid option. */
export function toTypedChanges<Changes extends object>(
  fields: InputFieldsOf<Changes>,
  said: AnyFlags,
  { canBeNone }: Manner,
  nowMs: number,
): Partial<Changes> {
  const changes: Partial<Changes> = {}
  for (const name of keysOf(fields)) {
    const { option, none } = fields[name]
    const typed = new Option(option.flag)
    const texts = [said[typed.attributeName()] ?? []].flat().map(String)
    if (texts.length === 0) continue
    const opposite = option.opposite && new Option(option.opposite.flag)
    if (opposite && texts.includes('true') && said[opposite.attributeName()])
      throw usageError(`Pass either ${typed.long} or ${opposite.long}, not both.`)
    const isNone = none !== undefined && canBeNone && texts.includes('none')
    if (isNone && texts.length > 1) throw usageError(`${typed.long} none can't be combined with other values.`)
    Object.assign(changes, { [name]: isNone ? none : readOption(`${typed.long}`, () => option.read(texts, nowMs)) })
  }
  return changes
}

export const toKeyChanges = (said: Flags, manner: Manner, nowMs: number): KeyChanges =>
  toTypedChanges(KEY_FIELDS, said, manner, nowMs)
export const toTeamChanges = (said: Flags, manner: Manner, nowMs: number): TeamChanges =>
  toTypedChanges(TEAM_FIELDS, said, manner, nowMs)

/** Label and value. */
export type Fact = readonly [what: string, text: string]

function toFacts<Changes extends object>(fields: FieldsOf<Changes>, values: Changes): Fact[] {
  return keysOf(fields).map((name): Fact => [fields[name].label, toText(fields[name], values[name])])
}

function toText<Value>({ noneText, toText }: Field<NonNullable<Value>>, value: Value): string {
  const isNone = value === undefined || value === null || (typeof value === 'object' && Object.keys(value).length === 0)
  return isNone ? noneText : toText(value)
}

export const toKeyFacts = (key: KeyDocument): Fact[] =>
  toFacts<KeyChanges>(KEY_FIELDS, {
    ...toChanges(key),
    team: key.team_id === null ? null : `${key.team} (${toShortId(key.team_id)})`,
  })

export const toTeamFacts = (team: TeamDocument): Fact[] => toFacts<TeamChanges>(TEAM_FIELDS, toChanges(team))

/** Such as `rpm  60 -> 120`. @param whose such as `key 3f2a91bc (dev)`. */
function toChangeLines(whose: string, before: readonly Fact[], after: readonly Fact[]): string {
  const were = new Map(before)
  const changed = after.filter(([what, text]) => were.get(what) !== text)
  // A time may change by less than is shown.
  if (changed.length === 0) return `Updated ${whose}.\n`
  return toFactLines(
    `Updated ${whose}:`,
    changed.map(([what, text]) => [what, `${were.get(what)} -> ${text}`]),
  )
}

type Shared = TeamDocument | KeyDocument

/**
 * Such as `local only; openai/*, acme/large; 60 rpm; team Blue`; '' without restrictions.
 * @param more further parts.
 */
export const toRules = (of: Shared, ...more: string[]): string =>
  [
    of.scope === 'local' ? 'local only' : '',
    of.models.map(toPrintable).join(', '),
    ...eachLimit(of, (value, name) => `${value} ${LIMITS[name].short}`),
    ...more,
  ]
    .filter(Boolean)
    .join('; ')

const toBudget = ({ budget_nano_usd: nanoUsd, budget_period: period }: Shared) =>
  nanoUsd === null || period === null ? null : { nanoUsd, period }

/** Rounded down. BigInt, because the product may exceed 2^53. A budget of 0 is spent. */
const toPercent = (spent: number, of: number) => (of > 0 ? Number((BigInt(spent) * 100n) / BigInt(of)) : 100)

/** Such as `$16.20 of $20/month (81%)`; `-` without a budget. */
export function toBudgetCell(of: Shared): string {
  const [budget, spent] = [toBudget(of), of.spent_nano_usd ?? 0]
  return budget === null ? '-' : `${toSpent(spent)} of ${toBudgetText(budget)} (${toPercent(spent, budget.nanoUsd)}%)`
}

/** A warning above the threshold, else ''. @param whose such as `key dev`. */
export function toBudgetWarning(whose: string, of: Shared): string {
  const [budget, { budget_state: state, budget_reset_ms: resetMs }] = [toBudget(of), of]
  if (budget === null || state === null || state === 'ok') return ''
  const part = state === 'spent' ? 'all' : `${toPercent(of.spent_nano_usd ?? 0, budget.nanoUsd)}%`
  const next = resetMs === null ? 'It never resets' : `It resets on ${toDay(resetMs)}`
  return `warning: ${whose} has spent ${part} of its ${toBudgetText(budget)} budget. ${next}.\n`
}

/** Such as `$3.10 this month, $45.10 total`. */
export const toSpentText = ({ spent_month_nano_usd: month, spent_total_nano_usd: total }: Shared) =>
  `${toSpent(month)} this month, ${toSpent(total)} total`

export function toSpentFacts(of: Shared): Fact[] {
  const spent: Fact = ['spent', toSpentText(of)]
  if (of.budget_nano_usd === null) return [spent]
  const next = of.budget_reset_ms === null ? '' : `, resets on ${toDay(of.budget_reset_ms)}`
  return [['budget used', `${toBudgetCell(of)}${next}`], spent]
}

/** Such as `3 times in 24 hours, last 2026-11-21 12:30 UTC: insufficient_quota`; '' if none ever was. */
export function toRefusedText({ refused_24h, last_refused_ms: ms, last_refused_code: code }: Shared): string {
  if (ms === null) return ''
  const lately = refused_24h === 0 ? '' : `${count(refused_24h, 'time')} in 24 hours, `
  return `${lately}last ${toTime(ms)} UTC: ${toPrintable(code ?? '')}`
}

export const toRefusedFacts = (of: Shared): Fact[] =>
  of.last_refused_ms === null ? [] : [['refused', toRefusedText(of)]]

type Warnings = readonly { message: string }[]

/** The edit fails if its `before` is outdated; any state is edited if none was read. */
export const toIfMatch = (before: { revision: string } | null) =>
  before === null ? {} : { headers: { 'if-match': `"${before.revision}"` } }

/** Also prints warnings. @param before null for JSON output. */
export function printEdit<Document extends Shared>(
  io: Context,
  before: Document | null,
  answer: Document & { changed: readonly string[]; warnings: Warnings },
  toWhose: (of: Document) => string,
  toFactsOf: (of: Document) => Fact[],
): void {
  if (before === null) {
    printJson(io, answer)
    return
  }
  warnOf(answer.warnings, io)
  io.stdout(
    answer.changed.length === 0
      ? `No changes to ${toWhose(answer)}.\n`
      : toChangeLines(toWhose(before), toFactsOf(before), toFactsOf(answer)),
  )
}

export function warnOf(warnings: Warnings, io: Pick<Context, 'stderr'>): void {
  for (const { message } of warnings) io.stderr(`warning: ${uncapitalize(toPrintable(message))}\n`)
}
