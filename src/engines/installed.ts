/** Which engines there are in `engines/` of the data folder: a folder each, a note beside it, and a link to the one in use. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { isAbsolute, join, sep } from 'node:path'
import { currentEngine, enginesFolder } from './find.ts'

export interface Installed {
  /** Of its folder. */
  name: string
  /** What it says of itself. */
  version: string
  /** Of the archive that it came in. */
  sha256: string
  installedMs: number
  /** Full path. */
  program: string
  isCurrent: boolean
}

/** Those that are installed, by name. */
export function listEngines(dataFolder: string): Installed[] {
  const folder = enginesFolder(dataFolder)
  const current = readCurrent(dataFolder)
  const names = readFolder(folder)
    .filter((name) => name.endsWith(NOTE))
    .map((name) => name.slice(0, -NOTE.length))
    // As they are given, and so none is `..`.
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
export const folderOf = (dataFolder: string, name: string) => join(enginesFolder(dataFolder), name)
export const notePath = (dataFolder: string, name: string) => `${folderOf(dataFolder, name)}${NOTE}`

/** What is written down beside an engine. */
export interface Note {
  version: string
  sha256: string
  installed_ms: number
  /** Within its folder. */
  program: string
}

function readNote(path: string): Note | null {
  try {
    const json: unknown = JSON.parse(readFileSync(path, 'utf8'))
    const { version, sha256, installed_ms, program } = Object(json)
    if (![version, sha256, program].every((text) => typeof text === 'string') || typeof installed_ms !== 'number')
      return null
    // It would be another program than the one that was unpacked.
    if (isAbsolute(program) || program.split(sep).includes('..')) return null
    return { version, sha256, installed_ms, program }
  } catch {
    return null
  }
}

/** Relative to the folder of engines. */
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
