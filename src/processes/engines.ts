/**
 * Inference engines in the data folder's `engines/`: a folder and a JSON note each, and a link to the one in use. A new
 * engine is unpacked, tested, and switched to by one rename; the previous one is kept.
 */
import {
  chmodSync,
  createReadStream,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, isAbsolute, join, relative, sep } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { BadArchive, unpack } from './archive.ts'
import { runGuarded } from './child.ts'
import { currentEngine, enginesFolder, LLAMA_SERVER } from './command.ts'

export interface Installed {
  /** Name of its folder. */
  name: string
  /** Reported version. */
  version: string
  /** Checksum of its archive, in hex. */
  sha256: string
  installedMs: number
  /** Full path. */
  program: string
  isCurrent: boolean
}

export function listEngines(dataFolder: string): Installed[] {
  const folder = enginesFolder(dataFolder)
  const current = readCurrent(dataFolder)
  const names = readFolder(folder)
    .filter((name) => name.endsWith(NOTE))
    .map((name) => name.slice(0, -NOTE.length))
    // Excludes `..`.
    .filter((name) => /^\w/.test(name))
  return names.flatMap((name): Installed[] => {
    const note = readNote(notePath(dataFolder, name))
    if (note === null) return []
    const { version, sha256, installed_ms: installedMs } = note
    const isCurrent = current === name || current?.startsWith(`${name}${sep}`) === true
    return [{ name, version, sha256, installedMs, program: join(folder, name, note.program), isCurrent }]
  })
}

const NOTE = '.json'
const folderOf = (dataFolder: string, name: string) => join(enginesFolder(dataFolder), name)
const notePath = (dataFolder: string, name: string) => `${folderOf(dataFolder, name)}${NOTE}`

interface Note {
  version: string
  sha256: string
  installed_ms: number
  /** Path within its folder. */
  program: string
}

function readNote(path: string): Note | null {
  try {
    const json: unknown = JSON.parse(readFileSync(path, 'utf8'))
    const { version, sha256, installed_ms, program } = Object(json)
    if (![version, sha256, program].every((text) => typeof text === 'string') || typeof installed_ms !== 'number')
      return null
    // A path outside the folder would not be an installed program.
    if (isAbsolute(program) || program.split(sep).includes('..')) return null
    return { version, sha256, installed_ms, program }
  } catch {
    return null
  }
}

/** Relative to `engines/`. */
function readCurrent(dataFolder: string): string | null {
  try {
    return readlinkSync(currentEngine(dataFolder))
  } catch {
    return null
  }
}

function readFolder(folder: string): string[] {
  try {
    return readdirSync(folder).toSorted()
  } catch {
    return []
  }
}

/** The engine in use stays. */
export class NotInstalled extends Error {
  override name = 'NotInstalled'
}

interface InstallOptions {
  dataFolder: string
  /** Full path. */
  archive: string
  /** As published, in hex. */
  sha256: string
  /** Unpacked size limit. */
  mostBytes: number
  environment: Environment
  nowMs: number
}

/** @throws a NotInstalled. */
export async function install(options: InstallOptions): Promise<Installed> {
  const { dataFolder, archive, sha256, nowMs } = options
  const found = await hash(archive)
  if (found !== sha256.toLowerCase())
    throw new NotInstalled(
      `Checksum mismatch for ${archive}: its SHA-256 is ${found}, expected ${sha256.toLowerCase()}. Nothing was unpacked; download it again.`,
    )
  const name = toName(archive, found)
  const before = listEngines(dataFolder)
  // Unpack again, because installed files may have changed.
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
      code === 'ENOENT' ? `File not found: ${path}.` : `Can't read ${path} (${code || 'unknown reason'}).`,
    )
  }
  return hasher.digest('hex')
}

/** The same archive always gets the same folder. */
function toName(archive: string, sha256: string): string {
  const stem = basename(archive)
    .replace(/\.(tar\.gz|tgz)$/i, '')
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
    if (within === null) throw new BadArchive(`doesn't contain ${LLAMA_SERVER}`)
    chmodSync(join(unfinished, within), 0o755)
    const version = await requireRuns(join(unfinished, within), options)
    replace(folder, unfinished)
    return { program: join(folder, within), version }
  } catch (error) {
    if (error instanceof BadArchive) throw new NotInstalled(`${archive} ${error.message}. Nothing was installed.`)
    if (error instanceof NotInstalled) throw error
    throw new NotInstalled(`Can't install into ${enginesFolder(dataFolder)} (${codeOf(error) || messageOf(error)}).`)
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
}

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

/** The program nearest to the top, relative to the folder. */
function findProgram(folder: string): string | null {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const programs = paths.filter((path) => basename(path) === LLAMA_SERVER && statSync(join(folder, path)).isFile())
  return programs.toSorted((a, b) => a.split(sep).length - b.split(sep).length)[0] ?? null
}

const VERSION_MS = 30_000
/** Characters of output, kept and in errors. */
const [MAX_KEPT, MAX_SAID] = [10_000, 300]

/** Runs `--version`, which loads all its libraries. */
async function requireRuns(program: string, { environment }: InstallOptions): Promise<string> {
  let said = ''
  const { code, how, isLate } = await runGuarded([program, '--version'], {
    environment: { PATH: environment.PATH ?? '' },
    secret: null,
    write: (text) => (said = (said + text).slice(-MAX_KEPT)),
    mostMs: VERSION_MS,
  })
  if (code === 0 && !isLate) return /version: (.+)/.exec(said)?.[1]?.slice(0, 100) ?? 'unknown'
  const lastLine = said.trim().split('\n').at(-1)?.slice(0, MAX_SAID)
  const why = isLate ? `--version timed out after ${VERSION_MS / 1_000} s` : lastLine || `--version ${how}`
  throw new NotInstalled(
    `Its ${LLAMA_SERVER} doesn't run on this machine: ${why}. Nothing was installed; try a newer build for ${process.platform} on ${process.arch}.`,
  )
}

function switchTo(dataFolder: string, program: string): void {
  const link = currentEngine(dataFolder)
  const next = `${link}.${process.pid}.new`
  rmSync(next, { force: true })
  symlinkSync(relative(enginesFolder(dataFolder), dirname(program)), next)
  renameSync(next, link)
}
