/**
 * `tollgate serve` on the command line. Only the words are here, so that no other command loads the server; what they
 * start is in `run-server.ts`.
 */
import type { Command } from 'commander'
import { type Io, sharedOptions, toDataFolder } from './io.ts'

interface ServeFlags {
  host?: string
  port?: string
  catalog?: string
  drain?: string
  durability?: string
  heartbeat?: string
  firstKey?: boolean
}

/** Adds the command to the program. */
export function addServeCommand(program: Command, io: Io): void {
  program
    .command('serve')
    .description('run the gateway; the first start sets everything up')
    .option('--host <address>', 'address to listen on (default 127.0.0.1)')
    .option('--port <n>', 'port to listen on (default 4000)')
    .option(
      '--catalog <file>',
      'catalogue to apply (default <data>/catalog.yaml, ./catalog.yaml, then the built-in one)',
    )
    .option('--drain <time>', 'how long a stop waits for answers under way (default 30s)')
    .option('--heartbeat <time>', 'how often a silent stream says that it lives: 1s to 60s, or off (default 10s)')
    .option('--durability <level>', 'process: survive a crash (default); power: survive a power cut too')
    .option('--first-key', 'make and print a first key even without a terminal')
    .action(async ({ catalog, firstKey, ...flags }: ServeFlags, command: Command) => {
      const { runServer } = await import('./run-server.ts')
      await runServer(io, {
        flags,
        dataFolder: toDataFolder(command, io),
        catalogFile: catalog ?? (io.environment.TOLLGATE_CATALOG || undefined),
        wantsFirstKey:
          firstKey === true ||
          /^(1|true|yes)$/.test(io.environment.TOLLGATE_FIRST_KEY ?? '') ||
          process.stdout.isTTY === true,
        json: sharedOptions(command).json === true,
      })
    })
}
