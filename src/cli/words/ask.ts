/** `tollgate ask` in words. `../ask.ts` does what they say. */
import type { Command } from 'commander'
import type { AskFlags } from '../ask.ts'
import type { Context } from '../io.ts'

export function addAsk(program: Command, context: Context): void {
  program
    .command('ask')
    .description('ask a model one question through a running server; says what it took on standard error')
    .argument('[question...]', 'what to ask; what is piped in is put behind it')
    .option('--model <slug>', 'whom to ask (default: the cheapest that is ready, the demo last)')
    .option(
      '--key <key>',
      'ask with this key, as a client does (or TOLLGATE_KEY); without one as owner of the data folder',
    )
    .option('--url <address>', 'ask the server there; needs a key (default: the one that runs on the data folder)')
    .action(async (words: string[], flags: AskFlags) => (await import('../ask.ts')).ask(words, flags, context))
}
