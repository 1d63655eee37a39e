/** `tollgate serve`: its options, each a setting that `config.ts` reads, with its default. `run-server.ts` runs it. */
import type { Command } from 'commander'
import { type Context, toExamples } from '../io.ts'

/** The catalogue that was named: by a flag or an argument, else in the environment. */
export const toCatalogFile = (given: string | undefined, { environment }: Context) =>
  given ?? (environment.TOLLGATE_CATALOG || undefined)

/** One text of all that were given, as the settings have it. */
const toList = (text: string, before?: string) => (before === undefined ? text : `${before},${text}`)

interface ServeFlags {
  catalog?: string
  firstKey?: boolean
}

const addForServe = async (path: string, catalogFile: string | undefined, context: Context) =>
  (await import('../models/add.ts')).addOnce(path, catalogFile, context)

export function addServe(command: Command, context: Context): void {
  command
    .argument('[model]', 'a .gguf file, or a folder with one, to serve: added as by models add where it is not yet')
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
    .option('--keep <time>', 'how long requests stay on record one by one, or forever; their sums stay (default 90d)')
    .option(
      '--audit-retention <time>',
      'how long entries of the audit log are kept, from 30d on, or forever (default 400d)',
    )
    .option(
      '--backup <time>',
      'how often a backup is made, into backups/ of the data folder, such as 24h (default off)',
    )
    .option('--backup-keep <n>', 'how many of those backups are kept (default 7)')
    .option(
      '--disk <size>',
      'what the data folder may take of the disk: it warns at nine tenths (default: what there is)',
    )
    .option('--retries <n>', 'how often the targets of a request are tried again when all have failed (default 2)')
    .option('--probe <time>', 'how often upstreams are asked, for free, whether they are ready, or off (default 30s)')
    .option('--max-in-flight <n>', 'requests under way at once; more get 503 (default 4096)')
    .option('--max-buffered <size>', 'memory for requests under way, from 64M on; more get 503 (default 512M)')
    .option('--share <percent>', 'most of both that one key holds while others are there, or off (default 25%)')
    .option('--upload <time>', 'how long a request body may take to arrive (default 60s)')
    .option('--max-event <size>', 'size of one event in an upstream stream; a longer one ends it (default 4M)')
    .option('--slow-reader <time>', 'how long a client may leave a full buffer unread (default 60s)')
    .option(
      '--cors-origin <origin>',
      'let pages of this origin call the API, * for all (may be repeated; default none: keys belong on servers)',
      toList,
    )
    .option('--no-dashboard', 'serve no page at /admin; the admin API stays')
    .option(
      '--public-url <origin>',
      'https origin that the dashboard is reached under (may be repeated; default none: on this machine alone)',
      toList,
    )
    .option('--oidc-issuer <url>', 'identity provider through which people sign in to the dashboard (OpenID Connect)')
    .option(
      '--oidc-client-id <id>',
      'what it calls this server; the secret is TOLLGATE_OIDC_CLIENT_SECRET in the environment',
    )
    .option('--oidc-claim <name>', 'what it says of people that decides on their role (default groups)')
    .option(
      '--oidc-role <value=role>',
      'the role of whoever has that value: admins=owner, dev=editor, staff=viewer, research=member:TEAM (may be repeated: the first that fits decides; who has none is refused)',
      toList,
    )
    .option('--password-sign-in <on|off>', 'off: nobody signs in to the dashboard with a password (default on)')
    .option(
      '--trusted-proxy <cidr>',
      'believe what this address or range says in x-forwarded-for of where a client is (may be repeated; default none)',
      toList,
    )
    .option('--no-discover', 'at the first start, with no upstream, do not look for model servers on this machine')
    .option('--watch-catalog', 'apply the catalogue again when its file, or one of models.d, changes')
    .option('--log-level <level>', 'info, warn or error (default info; on a terminal warn)')
    .option(
      '--leave <time>',
      'how long an upstream is read on for its usage once a client has left, or off (default 10s)',
    )
    .option('--first-key', 'make and print a first key even without a terminal')
    .addHelpText(
      'after',
      toExamples(
        'serve ./gemma-3-4b-it-Q4_K_M.gguf',
        'serve --host 0.0.0.0 --port 80 --data /var/lib/tollgate --catalog /etc/tollgate.yaml',
      ),
    )
    .action(async (path: string | undefined, { catalog, firstKey }: ServeFlags, command: Command) => {
      const flags = command.options.map((option) => {
        const name = option.attributeName()
        // What is only said by default is left to the environment and the settings.
        if (command.getOptionValueSource(name) !== 'cli') return [option.name(), undefined]
        const value: unknown = command.getOptionValue(name)
        return [option.negate ? name : option.name(), typeof value === 'boolean' ? (value ? 'on' : 'off') : value]
      })
      const catalogFile = toCatalogFile(catalog, context)
      const model = path === undefined ? null : await addForServe(path, catalogFile, context)
      const { runServer } = await import('./run-server.ts')
      await runServer(context, {
        flags: Object.fromEntries(flags),
        ...{ catalogFile, model },
        wantsFirstKey:
          firstKey === true ||
          /^(1|true|yes)$/.test(context.environment.TOLLGATE_FIRST_KEY ?? '') ||
          process.stdout.isTTY === true,
      })
    })
}
