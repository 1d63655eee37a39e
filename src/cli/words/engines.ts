/** `tollgate engines` in words. `../engines.ts` does what they say. */
import type { Command } from 'commander'
import type { InstallFlags } from '../engines.ts'
import type { Context } from '../io.ts'

export function addEngines(program: Command, context: Context): void {
  const engines = program.command('engines').description('install the programs that serve models of files')
  engines
    .command('install')
    .description('unpack a build of llama.cpp beside the data, try it, and use it; the one before is kept')
    .option('--from <file>', 'a .tar.gz that you have downloaded')
    .option('--sha256 <hex>', 'what its publisher says that it has')
    .action(async (flags: InstallFlags) => (await import('../engines.ts')).installEngine(flags, context))
  engines
    .command('list')
    .description('list what is installed, and which is used')
    .action(async () => (await import('../engines.ts')).list(context))
}
