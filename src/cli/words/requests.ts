/** `tollgate requests` in words. `../requests.ts` does what they say. */
import type { Command } from 'commander'
import { REQUEST_FILTERS } from '../../domain/report-filters.ts'
import type { Context } from '../io.ts'
import type { FilterFlags } from '../request-filter.ts'
import type { ListFlags } from '../requests.ts'
import { addParameters } from './words.ts'

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
    (await import('../requests-tail.ts')).tail(flags, context),
  )
  requests
    .command('show')
    .description("show a request's calls and cost breakdown; exits 1 if the cost doesn't match")
    .argument('<id>', 'its ID, x-request-id, or the ID of the response; four digits or more from either end do')
    .action(async (id: string) => (await import('../requests.ts')).show(id, context))
}
