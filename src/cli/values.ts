/**
 * The values of command line options: money, times, counts, names; and the options that reports and lists have in common. Every refusal is
 * a sentence that shows a right value, and exit code 2. Pure; no floating point touches money.
 */

import type { Command } from 'commander'
import { REPORT_PARAMETERS, type ReportParameter } from '../domain/report-filters.ts'
import { toPastMs } from '../domain/time.ts'
import { Misread, readBudget, readCount, readName } from '../keys/definition.ts'
import { usageError } from './command-error.ts'

/** Reads the value of an option. What cannot be read is a usage error that names it. */
export function readOption<Value>(option: string, read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Misread)) throw error
    throw usageError(error.text === null ? `${option} ${error.problem}` : `${option} '${error.text}' ${error.problem}`)
  }
}

export const toBudget = (text: string) => readOption('--budget', () => readBudget(text))
export const toCount = (option: string, text: string) => readOption(option, () => readCount(text))

/** Reads the value of an option such as `--since` as `toPastMs` does. */
export function toMoment(option: string, text: string, nowMs: number): number {
  const atMs = toPastMs(text, nowMs)
  if (atMs !== null) return atMs
  throw usageError(`${option} '${text}' is no time: write 7d, 12h (ago), or a date such as 2027-01-31.`)
}

/**
 * Reads the name of a key or a team, which is text of any kind.
 *
 * @param hint what to write, for whoever left it out.
 */
export function toName(text: string | undefined, hint: string): string {
  if (text === undefined) throw usageError(`--name is missing: ${hint}.`)
  return readOption('--name', () => readName(text))
}

/** Of an option that may be repeated. */
export const collect = (text: string, before: string[] = []) => [...before, text]

interface ParameterOptions {
  repeatable?: readonly string[]
  defaults?: Readonly<Record<string, string>>
}

/** Adds the options of reports and lists that have these names. */
export function addParameters(
  command: Command,
  names: readonly ReportParameter[],
  { repeatable = [], defaults = {} }: ParameterOptions = {},
): Command {
  for (const name of names) {
    const { argument, description } = REPORT_PARAMETERS[name]
    const flag = `--${name.replaceAll('_', '-')}${argument === null ? '' : ` ${argument}`}`
    const text = description.replace(/^[A-Z]/, (letter) => letter.toLowerCase())
    if (repeatable.includes(name)) command.option(flag, `${text} (repeatable)`, collect)
    else command.option(flag, text, defaults[name])
  }
  return command
}
