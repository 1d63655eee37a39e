/** What options of several commands have in common. */
import type { Command } from 'commander'
import { REPORT_PARAMETERS, type ReportParameter } from '../../domain/report-filters.ts'

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
