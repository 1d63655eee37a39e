/** `tollgate requests` in words. `../requests.ts` does what they say. */
import type { Command } from 'commander'
import type { Context } from '../io.ts'
import type { FilterFlags } from '../request-filter.ts'
import type { ListFlags } from '../requests.ts'
import { collect } from './words.ts'

export function addRequests(program: Command, context: Context): void {
  const requests = program.command('requests').description('show what was asked, and what it was charged for')
  const filtered = (name: string) =>
    requests
      .command(name)
      .option('--key <key>', 'of this key: its name, or digits of its id')
      .option('--team <team>', 'of keys that were in this team then')
      .option('--model <pattern>', 'for models that match, such as openai/*')
      .option('--upstream <id>', 'that this upstream was asked for last')
      .option(
        '--status <status>',
        'that ended so, or are open: ok, failed, cut, abandoned, open (may be repeated)',
        collect,
      )
      .option('--errors', 'that did not end well: failed, cut, abandoned')
      .option('--error-code <code>', 'that ended with this error, such as upstream_timeout')
      .option('--user <user>', 'whose client said that they are of this user')
  filtered('list')
    .description(
      'list requests, newest first; what was refused before a model was asked is in the log of the server alone',
    )
    .option('--limit <n>', 'how many at most', '50')
    .option('--before <id>', 'only those before the one of this id: `next` of the page before')
    .option('--since <time>', 'from then on: 7d, 12h (ago), or a date such as 2027-01-31')
    .option('--until <time>', 'up to then')
    .action(async (flags: ListFlags) => (await import('../requests.ts')).list(flags, context))
  filtered('tail')
    .description('follow the requests of a running server, a line each as it finishes; with --json an object a line')
    .action(async (flags: FilterFlags) => (await import('../requests-tail.ts')).tail(flags, context))
  requests
    .command('show')
    .description('show a request: its calls in time, and how its charge comes about; exit 1 if it does not come out')
    .argument(
      '<id>',
      'its id: that of the list, of x-request-id, of the answer, or of the upstream; four digits or more from either end do',
    )
    .action(async (id: string) => (await import('../requests.ts')).show(id, context))
}
