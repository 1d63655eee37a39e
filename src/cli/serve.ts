/**
 * `tollgate serve` on the command line. Only the words are here, so that no other command loads the server; what they
 * start is in `run-server.ts`.
 */
import type { Command } from 'commander'
import { type Io, sharedOptions, toDataFolder } from './io.ts'

interface ServeFlags {
  catalog?: string
  firstKey?: boolean
  /** The settings among them are read in `config.ts`, by their names. */
  [setting: string]: string | boolean | undefined
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
    .option('--journal <size>', 'disk for ledger rows that the database has not taken yet, from 32M on (default 1G)')
    .option('--retries <n>', 'how often the targets of a request are tried again when all have failed (default 2)')
    .option('--probe <time>', 'how often upstreams are asked, for free, whether they are ready, or off (default 30s)')
    .option('--max-in-flight <n>', 'requests under way at once; more get 503 (default 4096)')
    .option('--max-buffered <size>', 'memory for requests under way, from 64M on; more get 503 (default 512M)')
    .option('--max-event <size>', 'size of one event in an upstream stream; a longer one ends it (default 4M)')
    .option('--slow-reader <time>', 'how long a client may leave a full buffer unread (default 60s)')
    .option('--first-key', 'make and print a first key even without a terminal')
    .action(async ({ catalog, firstKey, ...flags }: ServeFlags, command: Command) => {
      const { runServer } = await import('./run-server.ts')
      await runServer(io, {
        flags: toSettings(flags),
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

/** `maxInFlight`, as the parser of the command line calls it, back to `max-in-flight`. */
function toSettings(flags: ServeFlags): Record<string, string> {
  const settings: Record<string, string> = {}
  for (const [name, text] of Object.entries(flags)) {
    if (typeof text === 'string') settings[name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)] = text
  }
  return settings
}
