/** Parses option values; errors show a valid one. */

import { type Command, Option } from 'commander'
import { REPORT_PARAMETERS, type ReportParameter } from '../domain/report-filters.ts'
import { uncapitalize } from '../domain/text.ts'
import { toPastMs } from '../domain/time.ts'
import { Misread, readBudget, readCount, readName } from '../keys/definition.ts'
import { usageError } from './command-error.ts'
import type { Context } from './io.ts'

export function readOption<Value>(option: string, read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Misread)) throw error
    throw usageError(`${option} ${error.problem}${error.text === null ? '' : ` (got '${error.text}')`}.`)
  }
}

export const toBudget = (text: string) => readOption('--budget', () => readBudget(text))
export const toCount = (option: string, text: string) => readOption(option, () => readCount(text))

/** As `toPastMs` does. */
export function toMoment(option: string, text: string, nowMs: number): number {
  const atMs = toPastMs(text, nowMs)
  if (atMs !== null) return atMs
  throw usageError(`${option} must be a time ago or a date, e.g. 7d, 12h, or 2027-01-31 (got '${text}').`)
}

/** @param hint shown if the name is missing. */
export function toName(text: string | undefined, hint: string): string {
  if (text === undefined) throw usageError(`--name is missing: ${hint}.`)
  return readOption('--name', () => readName(text))
}

export const toRenamedNote = (was: string, now: string) =>
  `note: ${was} is now ${now}. The old name will be removed in the next release.\n`

/** Adds a hidden old name that prints a note. @param was its flags, such as `--at <url>`. @param now without dashes. */
export function addOldName(command: Command, was: string, now: string, { stderr }: Pick<Context, 'stderr'>): void {
  const old = new Option(was).hideHelp()
  command.addOption(old).on(`option:${old.name()}`, (value?: string) => {
    stderr(toRenamedNote(`--${old.name()}`, `--${now}`))
    const option = command.options.find((one) => one.name() === now)
    if (!option) throw new Error(`no option --${now}`)
    const name = option.attributeName()
    const before: unknown = command.getOptionValue(name)
    const read = option.parseArg && value !== undefined ? option.parseArg(value, before) : (value ?? true)
    command.setOptionValueWithSource(name, read, 'cli')
  })
}

/** Parser of repeatable options. */
export const collect = (text: string, before: string[] = []) => [...before, text]

interface ParameterOptions {
  repeatable?: readonly string[]
  defaults?: Readonly<Record<string, string>>
}

export function addParameters(
  command: Command,
  names: readonly ReportParameter[],
  { repeatable = [], defaults = {} }: ParameterOptions = {},
): Command {
  for (const name of names) {
    const { argument, description } = REPORT_PARAMETERS[name]
    const flag = `--${name.replaceAll('_', '-')}${argument === null ? '' : ` ${argument}`}`
    const text = uncapitalize(description)
    if (repeatable.includes(name)) command.option(flag, `${text} (repeatable)`, collect)
    else command.option(flag, text, defaults[name])
  }
  return command
}
