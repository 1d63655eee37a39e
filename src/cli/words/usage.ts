/** `tollgate usage` in words. `../usage.ts` does what they say. */
import type { Command } from 'commander'
import { USAGE_FILTERS } from '../../domain/report-filters.ts'
import type { Context } from '../io.ts'
import type { UsageFlags } from '../usage.ts'
import { addParameters } from './words.ts'

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
