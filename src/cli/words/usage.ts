/** `tollgate usage` in words. `../usage.ts` does what they say. */
import type { Command } from 'commander'
import type { Context } from '../io.ts'
import type { UsageFlags } from '../usage.ts'
import { collect } from './words.ts'

export function addUsage(program: Command, context: Context): void {
  program
    .command('usage')
    .description('show who spent what: cost, requests, tokens, latencies. With bars on a terminal, as CSV in a pipe')
    .option('--by <what>', 'key, team, model, upstream, endpoint, user, day or hour; or two, such as key,model', 'key')
    .option(
      '--since <time>',
      'from then on: 7d, 24h (ago), or a date such as 2027-01-31 or 2027-01-31T12:30 (UTC)',
      '7d',
    )
    .option('--until <time>', 'up to then, which is no more in it (default: all that there is by now)')
    .option('--key <key>', 'of this key: its name, or digits of its id (this and the next may be repeated)', collect)
    .option('--team <team>', 'of keys that were in this team then', collect)
    .option('--model <pattern>', 'for models that match, such as openai/*', collect)
    .option('--upstream <id>', 'that this upstream was asked for last', collect)
    .option('--endpoint <name>', 'of this endpoint, such as chat', collect)
    .option('--user <user>', 'whose client said that they are of this user', collect)
    .option('--limit <n>', 'how many rows at most, those that cost most; what others come to is one more', '10000')
    .option('--csv', 'CSV, on a terminal too')
    .option('--table', 'the table, in a pipe too')
    .action(async (flags: UsageFlags) => (await import('../usage.ts')).usage(flags, context))
}
