/** The commands that look after an installation, in words; and what else the program says of itself. */
import type { Command } from 'commander'
import { type Context, printJson, version } from '../io.ts'

export function addUpkeep(program: Command, context: Context): void {
  program
    .command('audit')
    .description('check that ledger and rollup agree and nothing is left open; exit 1 if not')
    .action(async () => (await import('../audit.ts')).audit(context))
  program
    .command('compact')
    .description('give the empty room of the database back to the disk; only while no server runs')
    .action(async () => (await import('../compact.ts')).compact(context))
  program
    .command('doctor')
    .description('look for what is wrong with this installation, and say what to do; exit 1 if there is a problem')
    .action(async () => (await import('../doctor.ts')).doctor(context))
  program
    .command('completions')
    .description('print what makes a shell complete these commands')
    .argument('<shell>', 'bash, zsh or fish')
    .action(async (shell: string) => context.stdout((await import('../completions.ts')).toScript(shell)))
  program
    .command('complete', { hidden: true })
    .description('what the last of these words may become, for such a script')
    .argument('[words...]')
    .action(async (words: string[]) =>
      context.stdout((await import('../completions.ts')).toCompletions(program, words)),
    )
  program
    .command('version')
    .description('print the version')
    .action(() => (context.json ? printJson(context, { version: version() }) : context.stdout(`${version()}\n`)))
}
