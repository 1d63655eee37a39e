/** `tollgate engines`: llama.cpp builds in `engines/` of the data folder. */
import { readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { enginesFolder, findEngine, LLAMA_SERVER } from '../processes/command.ts'
import { type Installed, install, listEngines, NotInstalled } from '../processes/engines.ts'
import { giveToOwner, prepareDataFolder } from '../store/data-folder.ts'
import { freeBytesOf } from '../store/files.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, printJson, toExamples, toPrintable, toTable, toTime } from './io.ts'

export function addEngines(group: Command, context: Context): void {
  group
    .command('install')
    .description('install a llama.cpp build in the data folder, test it, and use it; keeps the previous one')
    .option('--from <file>', 'downloaded .tar.gz')
    .option('--sha256 <hex>', "the publisher's SHA-256 checksum")
    .addHelpText(
      'after',
      toExamples(
        'engines install --from llama-bin-ubuntu-x64.tar.gz --sha256 4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865',
        'engines install --json --from llama-bin-ubuntu-vulkan-x64.tar.gz --sha256 9355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865',
      ),
    )
    .action((flags: InstallFlags) => installEngine(flags, context))
  group
    .command('list')
    .description('list installed builds and the one in use')
    .addHelpText('after', toExamples('engines list', 'engines list --json'))
    .action(() => list(context))
}

interface InstallFlags {
  from?: string
  sha256?: string
}

/** Reserved for the ledger. */
const MIN_FREE_BYTES = 2 ** 30
/** Larger than any build. */
const MAX_BYTES = 16 * 2 ** 30

async function installEngine({ from, sha256 }: InstallFlags, io: Context): Promise<void> {
  if (from === undefined)
    throw usageError(
      `--from and --sha256 are required. Download a build for ${process.platform}-${process.arch} (https://github.com/ggml-org/llama.cpp/releases), or put ${LLAMA_SERVER} on the PATH.`,
    )
  if (sha256 === undefined || !/^[0-9a-f]{64}$/i.test(sha256))
    throw usageError("--sha256 must be the publisher's checksum of the file: 64 hex digits.")
  const { dataFolder, environment, nowMs } = io
  prepareDataFolder(dataFolder)
  const mostBytes = Math.min(MAX_BYTES, freeBytesOf(dataFolder) - MIN_FREE_BYTES)
  const options = { dataFolder, environment, archive: resolve(io.cwd, from), sha256, mostBytes, nowMs: nowMs() }
  const engine = await install(options).catch((error) => {
    throw error instanceof NotInstalled ? new CommandError('engine_unusable', error.message) : error
  })
  giveAll(dataFolder)
  if (io.json) return printJson(io, toDocument(engine))
  io.stdout(
    `Installed ${engine.name}: llama-server ${toPrintable(engine.version)}. Model servers use it after their next start.\n`,
  )
}

function giveAll(dataFolder: string): void {
  const folder = enginesFolder(dataFolder)
  giveToOwner(dataFolder, [folder, ...listWithin(folder)])
}

/** Doesn't follow links, as readdir's `recursive` would. */
function listWithin(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? [path, ...listWithin(path)] : [path]
  })
}

async function list(io: Context): Promise<void> {
  const { dataFolder, environment } = io
  const engines = listEngines(dataFolder)
  const used = findEngine(dataFolder, environment)
  if (io.json) return printJson(io, { engines: engines.map(toDocument), used })
  const cells = engines.map(({ name, version, installedMs, isCurrent }) => [
    toPrintable(name),
    toPrintable(version),
    toTime(installedMs),
    isCurrent ? 'in use' : 'kept',
  ])
  if (cells.length > 0) io.stdout(toTable(['NAME', 'VERSION', 'INSTALLED (UTC)', 'STATE'], cells, io.paint))
  if (used === null)
    io.stderr('llama-server is not installed. Install it: tollgate engines install --from FILE --sha256 HEX\n')
  else if (!engines.some(({ isCurrent }) => isCurrent)) io.stderr(`Using ${toPrintable(used)} from the PATH.\n`)
}

const toDocument = ({ name, version, sha256, installedMs, program, isCurrent }: Installed) => ({
  ...{ name, version, sha256, program },
  installed_ms: installedMs,
  is_current: isCurrent,
})
