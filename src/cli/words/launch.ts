/** `tollgate launch` in words. `../launch.ts` does what they say. */
import { Argument, type Command } from 'commander'
import type { Context } from '../io.ts'
import type { LaunchFlags } from '../launch.ts'

export const AGENTS = ['claude', 'codex', 'aider', 'llm'] as const
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
