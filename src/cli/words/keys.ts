/** `tollgate keys` in words. `../keys.ts` does what they say. */
import type { Command } from 'commander'
import type { Context } from '../io.ts'
import { addKeyOptions, type Flags } from '../key-options.ts'

const WHICH_KEY = 'its name, six digits or more of its id, or the last four characters of the key itself'

export function addKeys(program: Command, context: Context): void {
  const keys = program.command('keys').description('make, show, change and revoke keys')
  addKeyOptions(keys.command('create'), { canBeNone: false })
    .description('make a key and print it, once; it needs a --name')
    .action(async (flags: Flags) => (await import('../keys.ts')).create(flags, context))
  keys
    .command('list')
    .description('list the keys that let somebody in, oldest first, with what each has spent, and its last use')
    .option('--all', 'revoked and expired ones, too')
    .action(async (flags: { all?: boolean }) => (await import('../keys.ts')).list(flags, context))
  keys
    .command('show')
    .description('show all that is known of a key')
    .argument('<key>', WHICH_KEY)
    .action(async (key: string) => (await import('../keys.ts')).show(key, context))
  addKeyOptions(keys.command('edit'), { canBeNone: true })
    .description(
      'change a key; what is not said stays, and so does what it has spent. `none` takes a limit away: --budget none',
    )
    .argument('<key>', WHICH_KEY)
    .action(async (key: string, flags: Flags) => (await import('../keys.ts')).edit(key, flags, context))
  keys
    .command('rotate')
    .description('give a key a new secret and print it, once; the one before works on for a while')
    .argument('<key>', WHICH_KEY)
    .option(
      '--overlap <time>',
      'how long both work, such as 7d; 0 ends the one before at once, as where it leaked (default 24h)',
    )
    .action(async (key: string, flags: { overlap?: string }) =>
      (await import('../keys.ts')).rotate(key, flags, context),
    )
  keys
    .command('revoke')
    .description('stop a key for good, with all of its secrets')
    .argument('<key>', WHICH_KEY)
    .action(async (key: string) => (await import('../keys.ts')).revoke(key, context))
}
