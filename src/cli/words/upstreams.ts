/** `tollgate upstreams` in words. `../upstreams.ts` does what they say. */
import type { Command } from 'commander'
import type { Context } from '../io.ts'

export function addUpstreams(program: Command, context: Context): void {
  const upstreams = program.command('upstreams').description('show and test the places that answer')
  upstreams
    .command('list')
    .description('list all upstreams: state, breakers, deadlines, last error')
    .action(async () => (await import('../upstreams.ts')).list(context))
  upstreams
    .command('test')
    .description(
      'ask upstreams, by what costs nothing, whether they could answer now; exit 1 if one could not. A running server asks, and goes by what it finds',
    )
    .argument('[id...]', 'the ones to ask; else all that are enabled')
    .action(async (ids: string[]) => (await import('../upstreams.ts')).test(ids, context))
}
