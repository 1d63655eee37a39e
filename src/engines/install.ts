/**
 * Engines in `engines/` of the data folder: unpacked beside the one in use, tried, and put in its place by one renaming. The one before
 * is kept. `cli/engines.ts` presents this.
 */
import {
  chmodSync,
  createReadStream,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, relative, sep } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { LLAMA_SERVER } from './command.ts'
import { currentEngine, enginesFolder } from './find.ts'
import { folderOf, type Installed, listEngines, type Note, notePath } from './installed.ts'
import { tryOut } from './try.ts'
import { unpack } from './unpack.ts'
import { BadArchive } from './unpacker.ts'

/** Why an engine was not installed, in sentences. What was in use stays. */
export class NotInstalled extends Error {
  override name = 'NotInstalled'
}

export interface InstallOptions {
  dataFolder: string
  /** Full path of an archive. */
  archive: string
  /** What its publisher says that it has, in hex. */
  sha256: string
  /** That it may unpack to. */
  mostBytes: number
  environment: Environment
  nowMs: number
}

/** Throws a NotInstalled. */
export async function install(options: InstallOptions): Promise<Installed> {
  const { dataFolder, archive, sha256, nowMs } = options
  const found = await hash(archive)
  if (found !== sha256.toLowerCase())
    throw new NotInstalled(
      `${archive} is not what its publisher has: its SHA-256 is ${found}, and not ${sha256.toLowerCase()}. Nothing was unpacked; download it again.`,
    )
  const name = toName(archive, found)
  const before = listEngines(dataFolder)
  // Also where there is one of that name: what has become of its files since, nobody knows.
  const { program, version } = await unpackNew(name, options)
  const notes: Note = {
    version,
    sha256: found,
    installed_ms: nowMs,
    program: relative(folderOf(dataFolder, name), program),
  }
  writeFileSync(notePath(dataFolder, name), JSON.stringify(notes), { mode: 0o600 })
  switchTo(dataFolder, program)
  const last = before.find(({ isCurrent }) => isCurrent)?.name
  for (const one of before)
    if (one.name !== name && one.name !== last) {
      rmSync(notePath(dataFolder, one.name), { force: true })
      rmSync(folderOf(dataFolder, one.name), { recursive: true, force: true })
    }
  return { name, version, sha256: found, installedMs: nowMs, program: program, isCurrent: true }
}

async function hash(path: string): Promise<string> {
  const hasher = new Bun.CryptoHasher('sha256')
  try {
    for await (const piece of createReadStream(path)) hasher.update(piece)
  } catch (error) {
    const code = codeOf(error)
    throw new NotInstalled(
      code === 'ENOENT' ? `There is no file ${path}.` : `${path} cannot be read (${code || 'unknown reason'}).`,
    )
  }
  return hasher.digest('hex')
}

/** By its archive: the same one has the same folder. */
function toName(archive: string, sha256: string): string {
  const stem = basename(archive)
    .replace(/\.(tar\.gz|tgz|zip)$/i, '')
    .replace(/[^\w.-]+/g, '-')
    .replace(/^[^\w]+/, '')
    .slice(0, 60)
  return `${stem || 'engine'}-${sha256.slice(0, 8)}`
}

async function unpackNew(name: string, options: InstallOptions): Promise<{ program: string; version: string }> {
  const { dataFolder, archive, mostBytes } = options
  const folder = folderOf(dataFolder, name)
  const unfinished = join(enginesFolder(dataFolder), `.unpacking-${process.pid}`)
  try {
    rmSync(unfinished, { recursive: true, force: true })
    mkdirSync(unfinished, { recursive: true, mode: 0o700 })
    await unpack(archive, unfinished, mostBytes)
    const within = findProgram(unfinished)
    if (within === null) throw new BadArchive(`has no ${LLAMA_SERVER} in it`)
    chmodSync(join(unfinished, within), 0o755)
    const version = await requireRuns(join(unfinished, within), options)
    replace(folder, unfinished)
    return { program: join(folder, within), version }
  } catch (error) {
    if (error instanceof BadArchive) throw new NotInstalled(`${archive} ${error.message}. Nothing was installed.`)
    if (error instanceof NotInstalled) throw error
    throw new NotInstalled(`Cannot install into ${enginesFolder(dataFolder)} (${codeOf(error) || messageOf(error)}).`)
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
}

/** Puts a folder in the place of one that may be there. */
function replace(folder: string, by: string): void {
  const before = `${by}.before`
  rmSync(before, { recursive: true, force: true })
  try {
    renameSync(folder, before)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
  renameSync(by, folder)
  rmSync(before, { recursive: true, force: true })
}

/** The one that lies highest, as a path within the folder. */
function findProgram(folder: string): string | null {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const programs = paths.filter((path) => basename(path) === LLAMA_SERVER && statSync(join(folder, path)).isFile())
  return programs.toSorted((a, b) => a.split(sep).length - b.split(sep).length)[0] ?? null
}

async function requireRuns(program: string, { dataFolder, environment }: InstallOptions): Promise<string> {
  try {
    return await tryOut(program, { folder: enginesFolder(dataFolder), environment })
  } catch (error) {
    throw new NotInstalled(
      `Its ${LLAMA_SERVER} does not run on this machine: ${messageOf(error)}. Take a newer build, for ${process.platform} on ${process.arch}; nothing was installed.`,
    )
  }
}

function switchTo(dataFolder: string, program: string): void {
  const link = currentEngine(dataFolder)
  const next = `${link}.${process.pid}.new`
  rmSync(next, { force: true })
  symlinkSync(relative(enginesFolder(dataFolder), dirname(program)), next)
  renameSync(next, link)
}
