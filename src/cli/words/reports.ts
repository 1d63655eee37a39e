/** `tollgate usage` and `requests` in words, and the options that reports and lists have in common. */
import type { Command } from 'commander'
import { REPORT_PARAMETERS, REQUEST_FILTERS, type ReportParameter, USAGE_FILTERS } from '../../domain/report-filters.ts'
import type { Context } from '../io.ts'
import type { FilterFlags, ListFlags } from '../requests.ts'
import type { UsageFlags } from '../usage.ts'

export function addUsage(program: Command, context: Context): void {
  const usage = program
    .command('usage')
    .description('report cost, requests, tokens, and latency (table in a terminal, CSV in a pipe)')
  addParameters(usage, ['by', 'since', 'until', ...USAGE_FILTERS], {
    repeatable: USAGE_FILTERS,
    defaults: { by: 'key', since: '7d' },
  })
    .option('--limit <n>', 'maximum number of rows, by cost; the rest are summed into one', '10000')
    .option('--csv', 'CSV, on a terminal too')
    .option('--table', 'the table, in a pipe too')
    .action(async (flags: UsageFlags) => (await import('../usage.ts')).usage(flags, context))
}

const FILTERS = [...REQUEST_FILTERS, 'status', 'errors'] as const
const repeatable = ['status']

export function addRequests(program: Command, context: Context): void {
  const requests = program.command('requests').description('show what was asked, and what it was charged for')
  const list = requests
    .command('list')
    .description('list requests, newest first (rejected requests are only in the server log)')
  addParameters(list, [...FILTERS, 'limit', 'before', 'since', 'until'], {
    repeatable,
    defaults: { limit: '50' },
  }).action(async (flags: ListFlags) => (await import('../requests.ts')).list(flags, context))
  const tail = requests.command('tail').description('stream requests as they finish')
  addParameters(tail, FILTERS, { repeatable }).action(async (flags: FilterFlags) =>
    (await import('../requests.ts')).tail(flags, context),
  )
  requests
    .command('show')
    .description("show a request's calls and cost breakdown; exits 1 if the cost doesn't match")
    .argument('<id>', 'its ID, x-request-id, or the ID of the response; four digits or more from either end do')
    .action(async (id: string) => (await import('../requests.ts')).show(id, context))
}

/** Of an option that may be repeated. */
const collect = (text: string, before: string[] = []) => [...before, text]

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
