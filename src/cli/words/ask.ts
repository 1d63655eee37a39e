/** `tollgate ask` and `launch` in words. `../ask.ts` and `../launch.ts` do what they say. */
import { Argument, type Command } from 'commander'
import type { AskFlags } from '../ask.ts'
import type { Context } from '../io.ts'
import type { LaunchFlags } from '../launch.ts'

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

const AGENTS = ['claude', 'codex', 'aider', 'llm'] as const
export type AgentName = (typeof AGENTS)[number]

export function addLaunch(program: Command, context: Context): void {
  program
    .command('launch')
    .description('start a coding agent against the server that runs here, with a key of its own that ends when it does')
    .addArgument(new Argument('<agent>', 'which one').choices(AGENTS))
    .argument('[words...]', 'what the agent is told itself, behind `--`')
    .option('--model <slug>', 'what it works with (default: the only model that is ready and can call tools)')
    .option('--key <key>', 'a key that there is (or TOLLGATE_KEY) in place of one that is made')
    .option('--url <address>', 'the address of another server; needs a key')
    .option('--budget <usd>', 'what the key that is made for it may cost: 20/month, 0.10/day, or 5 in total')
    .option('--print', 'print how it would be started; the key in it stays')
    .action(async (agent: AgentName, words: string[], flags: LaunchFlags) =>
      (await import('../launch.ts')).launch(agent, words, flags, context),
    )
}
