/** `tollgate update`: replaces this executable with a newer release, signed by a known key. */
import { existsSync, realpathSync } from 'node:fs'
import type { Command } from 'commander'
import { codeOf, messageOf } from '../../domain/error.ts'
import { asObject, tryJson } from '../../domain/json.ts'
import { toSizeText } from '../../domain/text.ts'
import { CommandError, usageError } from '../command-error.ts'
import { type Context, isCompiled, printJson, toExamples, toPrintable } from '../io.ts'
import { createBar } from '../terminal.ts'
import { type Build, type Publisher, thisBuild, thisPublisher } from './build.ts'
import { type PublicKey, toPublicKey } from './minisign.ts'
import { type Release, readRelease, toSourceUrl, unusable } from './release-index.ts'
import { type Candidate, fetchCandidate } from './replace.ts'

/** The program to replace. */
export interface Self {
  /** Full path; null if this is a checkout. */
  executable: string | null
  build: Build
  publisher: Publisher
}

const thisProgram = (): Self => ({
  executable: isCompiled() ? process.execPath : null,
  build: thisBuild(),
  publisher: thisPublisher(),
})

export function addUpdate(command: Command, context: Context, self = thisProgram()): void {
  command
    .option('--check', 'only say whether there is a newer release')
    .option('--from <url>', 'URL or path of latest.json (env TOLLGATE_UPDATE_URL)')
    .option('--key <key>', 'minisign public key that must have signed it, in place of the built-in ones')
    .addHelpText('after', toExamples('update --check', 'update --from /media/usb/latest.json'))
    .action((flags: Flags) => update(flags, context, self))
}

interface Flags {
  check?: true
  from?: string
  key?: string
}

async function update(flags: Flags, io: Context, self: Self): Promise<void> {
  const { build } = self
  const url = toIndexUrl(flags, io, self)
  const release = await readRelease(url, toKeys(flags, self))
  const order = Bun.semver.order(release.version, build.version)
  if (flags.check || order === 0) return report(release, order, io, build)
  if (order < 0)
    throw new CommandError(
      'downgrade',
      `The release is ${release.version}, older than this version (${build.version}). To go back to an older version: tollgate rollback --help`,
    )
  const program = requireReplaceable(self)
  const target = build.target ?? `${process.platform}-${process.arch}`
  const file = Object.hasOwn(release.files, target) ? release.files[target] : undefined
  if (file === undefined) throw unusable(`Release ${release.version} has no file for ${target}.`)
  const bar = createBar(io, `Downloading ${toSizeText(file.bytes)}`)
  try {
    using candidate = await fetchCandidate(program, file, new URL(file.name, url), bar)
    bar.end()
    await requireRuns(candidate, release)
    done(release, program, candidate.replace(), io, build)
  } catch (error) {
    bar.end()
    throw toFailure(error, program)
  }
}

function toIndexUrl({ from }: Flags, io: Context, { publisher }: Self): URL {
  const given = from || io.environment.TOLLGATE_UPDATE_URL || publisher.url
  if (!given)
    throw usageError('This build has no address for updates. Pass the URL or path of latest.json with --from.')
  return toSourceUrl(given, io.cwd)
}

function toKeys({ key }: Flags, { publisher }: Self): PublicKey[] {
  const texts = key === undefined ? publisher.keys : [key]
  if (texts.length === 0)
    throw usageError("This build has no public key to verify updates with. Pass the publisher's with --key.")
  return texts.map((text) => {
    const found = toPublicKey(text)
    if (found === null) throw usageError(`--key must be a minisign public key: 56 characters (got '${text}').`)
    return found
  })
}

function report({ version, commit, schema }: Release, order: number, io: Context, build: Build): void {
  const isNewer = order > 0
  if (io.json)
    printJson(io, {
      ...{ version: build.version, latest: version, latest_commit: commit, is_newer: isNewer },
      migrates: isNewer && schema !== build.schema,
    })
  else if (isNewer)
    io.stdout(
      `Tollgate ${version} is available; this is ${build.version}.\n${toSchemaText(schema, build)}To install it: tollgate update\n`,
    )
  else io.stdout(`Tollgate ${build.version} is up to date (latest release: ${version}).\n`)
}

const toSchemaText = (schema: string, build: Build) =>
  schema === build.schema
    ? ''
    : 'It migrates the database on its first start, and keeps a copy to go back to (tollgate rollback).\nCheck that with the new version, before the restart: tollgate upgrade check\n'

/** Rejects a program that a package manager installed. */
function requireReplaceable({ executable }: Self): string {
  if (executable === null)
    throw new CommandError('no_binary', 'This is a checkout, not a release. Update it with git, then build it.')
  const program = realpathSync(executable)
  const manager = /\/Cellar\//.test(program)
    ? ['Homebrew', 'brew upgrade tollgate']
    : program === '/usr/bin/tollgate' && existsSync('/var/lib/dpkg/info/tollgate.list')
      ? ['dpkg', 'dpkg -i tollgate_VERSION.deb']
      : null
  if (manager) throw new CommandError('managed', `${manager[0]} installed ${program}. Update it with: ${manager[1]}`)
  return program
}

const START_MS = 30_000

/** A program that is damaged, or for another machine, must not replace a working one. */
async function requireRuns({ path }: Candidate, release: Release): Promise<void> {
  const child = Bun.spawn([path, 'version', '--json'], {
    ...{ stdin: 'ignore', stdout: 'pipe', stderr: 'ignore', env: {}, timeout: START_MS, killSignal: 'SIGKILL' },
  })
  const text = await child.stdout.text()
  const code = await child.exited
  // Later versions must keep this field.
  if (code !== 0 || asObject(tryJson(text))?.version !== release.version)
    throw unusable(`Release ${release.version} doesn't run on this machine.`)
}

function done(release: Release, program: string, previous: string, io: Context, build: Build): void {
  const { version, schema } = release
  const migrates = schema !== build.schema
  if (io.json) printJson(io, { program, previous, from: build.version, to: version, migrates })
  else
    io.stdout(
      `Updated ${toPrintable(program)} from ${build.version} to ${version}. The old version is ${toPrintable(previous)}.\n` +
        `${toSchemaText(schema, build)}A running server stays on ${build.version}. ${migrates ? 'To switch, stop it and start it.' : 'To switch without an interruption: tollgate restart'}\n`,
    )
}

const FAILURES: Readonly<Record<string, string>> = {
  ENOSPC: 'The disk is full.',
  EDQUOT: 'The disk quota is used up.',
  EACCES: "This user can't write there. Run it with sudo.",
  EPERM: "This user can't write there. Run it with sudo.",
  EROFS: 'The file system is read-only.',
}

function toFailure(error: unknown, program: string): unknown {
  if (error instanceof CommandError) return error
  const why = FAILURES[codeOf(error)] ?? `${messageOf(error)}.`
  return new CommandError('update_failed', `Can't replace ${program}: ${why} Nothing was changed.`)
}
