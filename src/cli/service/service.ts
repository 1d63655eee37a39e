/** `tollgate service`: runs the server under systemd; on macOS it prints a property list for launchd. */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { Command } from 'commander'
import { AgentEnded, CommandError, usageError } from '../command-error.ts'
import { type Context, isCompiled, printJson, toExamples } from '../io.ts'
import { MARK, type ServiceOptions, toPropertyList, toUnit } from './unit.ts'

const NAME = 'tollgate'
const UNIT = '/etc/systemd/system/tollgate.service'
const ENVIRONMENT = '/etc/tollgate.env'
/** Created by systemd (`StateDirectory=`). */
const DATA = '/var/lib/tollgate'
const PROGRAM = '/usr/local/bin/tollgate'
const USER_DATA = '/usr/local/var/tollgate'

const EMPTY_ENVIRONMENT = `# Variables of the service, such as OPENAI_API_KEY=sk-… Apply changes: systemctl reload tollgate\n`

export interface Machine {
  platform: string
  isRoot: boolean
  /** Full path of this executable; null if this is a checkout. */
  executable: string | null
  /** Root of all written paths; `/` except in tests. */
  root: string
}

const thisMachine = (): Machine => ({
  platform: process.platform,
  isRoot: process.getuid?.() === 0,
  executable: isCompiled() ? process.execPath : null,
  root: '/',
})

export function addService(group: Command, context: Context, machine = thisMachine()): void {
  group
    .command('install')
    .description('write a hardened systemd unit, create its user, and start it; put flags of serve after --')
    .argument('[flags...]', 'flags of tollgate serve')
    .option('--user <name>', 'user that runs the service; created if missing', NAME)
    .option('--gpu', 'let model servers use graphics cards')
    .option('--dry-run', 'only print the unit')
    .addHelpText(
      'after',
      toExamples(
        'service install -- --host 0.0.0.0 --port 443 --tls-domain gateway.example.com',
        'service install --dry-run -- --public-url https://gateway.example.com --trusted-proxy 127.0.0.1',
      ),
    )
    .action((flags: string[], options: InstallFlags) => install(flags, options, context, machine))
  group
    .command('uninstall')
    .description('stop the service and remove its unit; keeps the data folder, user, and environment file')
    .addHelpText('after', toExamples('service uninstall', 'service uninstall --json'))
    .action(() => uninstall(context, machine))
  group
    .command('status')
    .description('show whether the service runs; exits as systemctl status does')
    .option('-n, --lines <n>', 'number of log lines', '10')
    .addHelpText('after', toExamples('service status', 'service status --lines 30'))
    .action(({ lines }: { lines: string }) =>
      pass(['systemctl', 'status', '--no-pager', `--lines=${toLines(lines)}`, NAME], context, machine),
    )
  group
    .command('logs')
    .description("show the service's log")
    .option('-f, --follow', 'follow new lines')
    .option('-n, --lines <n>', 'number of lines', '100')
    .addHelpText('after', toExamples('service logs', 'service logs --follow'))
    .action(({ follow, lines }: { follow?: true; lines: string }) => {
      const command = ['journalctl', '--no-pager', '--output=cat', `--unit=${NAME}`, `--lines=${toLines(lines)}`]
      return pass(follow ? [...command, '--follow'] : command, context, machine)
    })
}

function toLines(text: string): string {
  if (!/^\d{1,7}$/.test(text)) throw usageError(`--lines must be a whole number (got '${text}').`)
  return text
}

interface InstallFlags {
  user: string
  gpu?: true
  dryRun?: true
}

async function install(flags: string[], options: InstallFlags, io: Context, machine: Machine): Promise<void> {
  const { user } = options
  // Names that useradd accepts (NAME_REGEX of Debian).
  if (!/^[a-z_][a-z0-9_-]{0,30}$/.test(user)) throw usageError(`--user must be a system user's name (got '${user}').`)
  const control = flags.find((flag) => /\p{Cc}/u.test(flag))
  if (control !== undefined) throw usageError('Flags may not contain line breaks or control characters.')
  if (flags.some((flag) => /^--data(=|$)/.test(flag))) throw usageError(`The service's data folder is ${DATA}.`)
  const isMac = machine.platform === 'darwin'
  const service: ServiceOptions = {
    ...{ program: toProgram(machine), user, flags },
    ...{ dataFolder: isMac ? USER_DATA : DATA, environmentFile: ENVIRONMENT, hasDevices: options.gpu === true },
  }
  if (isMac) {
    io.stderr('Save this as /Library/LaunchDaemons/tollgate.plist, then: sudo launchctl load -w FILE\n')
    return io.stdout(toPropertyList(service))
  }
  if (options.dryRun) return io.stdout(toUnit(service))
  requireSystemd(io, machine)
  const { executable, root } = machine
  if (executable === null)
    throw new CommandError(
      'no_binary',
      'The service runs the binary. Build it, then run: dist/tollgate service install',
    )
  const at = (path: string) => join(root, path)
  if (existsSync(at(UNIT))) requireOwn(at(UNIT))
  if (service.program !== executable) put(at(PROGRAM), 0o755, (part) => copyFileSync(executable, part))
  if ((await io.run('id', ['-u', user], io.environment)) !== 0)
    await must(
      ['useradd', '--system', '--home-dir', DATA, '--no-create-home', '--shell', '/usr/sbin/nologin', user],
      io,
    )
  // systemd reads its secrets as root.
  if (!existsSync(at(ENVIRONMENT))) put(at(ENVIRONMENT), 0o600, (part) => writeFileSync(part, EMPTY_ENVIRONMENT))
  put(at(UNIT), 0o644, (part) => writeFileSync(part, toUnit(service)))
  await must(['systemctl', 'daemon-reload'], io)
  await must(['systemctl', 'enable', NAME], io)
  // A running service also gets the new unit and binary.
  await must(['systemctl', 'restart', NAME], io)
  if (io.json) return printJson(io, { unit: UNIT, program: service.program, user, data: DATA })
  io.stdout(
    `The service runs as user ${user}, with its data in ${DATA}.\n` +
      `Create a key:       sudo -u ${user} ${service.program} keys create --name NAME --data ${DATA}\n` +
      `Set provider keys:  ${ENVIRONMENT}, then: systemctl reload ${NAME}\n`,
  )
}

async function uninstall(io: Context, machine: Machine): Promise<void> {
  requireSystemd(io, machine)
  const unit = join(machine.root, UNIT)
  if (!existsSync(unit)) throw new CommandError('no_service', `There is no service: ${UNIT} doesn't exist.`)
  requireOwn(unit)
  await must(['systemctl', 'disable', '--now', NAME], io)
  rmSync(unit)
  await must(['systemctl', 'daemon-reload'], io)
  if (io.json) return printJson(io, { removed: UNIT })
  io.stdout(`Removed the service. ${DATA}, ${ENVIRONMENT}, and the program are kept.\n`)
}

function requireOwn(unit: string): void {
  if (!readFileSync(unit, 'utf8').startsWith(MARK))
    throw new CommandError('foreign_service', `${UNIT} was not written by this command. Move it away first.`)
}

/** A path that the service can run: home folders, for example, are hidden from it. */
const toProgram = ({ executable }: Machine) =>
  executable !== null && /^\/(usr|opt)\//.test(executable) ? executable : PROGRAM

function requireSystemd(io: Context, { platform, isRoot }: Machine): void {
  if (platform !== 'linux' || Bun.which('systemctl', { PATH: io.environment.PATH ?? '' }) === null)
    throw new CommandError(
      'no_systemd',
      'This machine has no systemd. To see the unit: tollgate service install --dry-run',
    )
  if (!isRoot) throw new CommandError('not_root', 'Only root may change services. Run it with sudo.')
}

/** Atomic: the running program can't be overwritten. */
function put(path: string, mode: number, write: (part: string) => void): void {
  const part = `${path}.part`
  mkdirSync(dirname(path), { recursive: true })
  rmSync(part, { force: true })
  write(part)
  chmodSync(part, mode)
  renameSync(part, path)
}

async function must([command = '', ...rest]: string[], io: Context): Promise<void> {
  const code = await io.run(command, rest, io.environment)
  if (code === 0) return
  const why = code === null ? `${command} is not installed` : `${[command, ...rest].join(' ')} failed`
  throw new CommandError('service_failed', `${why}. See: tollgate service logs`)
}

async function pass([command = '', ...rest]: string[], io: Context, { platform }: Machine): Promise<void> {
  const code = platform === 'linux' ? await io.run(command, rest, io.environment) : null
  if (code === null) throw new CommandError('no_systemd', `This machine has no ${command}.`)
  if (code !== 0) throw new AgentEnded(code)
}
