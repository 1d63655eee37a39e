/**
 * Which catalogue counts: the one named, else the data folder's, else the working directory's, else the one
 * inside the binary. Called by `serve` and by the catalog commands. It only reads; `file.ts` parses.
 */
import { join, resolve } from 'node:path'
import builtin from '../../catalog.yaml' with { type: 'text' }
import { codeOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'

export interface CatalogSource {
  /** How messages call it. */
  name: string
  /** The full path; null for the built-in one. */
  path: string | null
  origin: 'file' | 'builtin'
  text: string
}

export interface SourceOptions {
  /** The file that the operator named, if any. */
  file?: string | undefined
  dataFolder: string
  cwd: string
}

/** Finds and reads the catalogue. Throws a ServiceError where the named file cannot be read. */
export async function loadSource(options: SourceOptions): Promise<CatalogSource> {
  for (const { path, name } of toPlaces(options))
    if (options.file !== undefined || (await Bun.file(path).exists())) return readSource(path, name)
  return { name: 'built-in catalog.yaml', path: null, origin: 'builtin', text: builtin }
}

/** The paths at which a catalogue is looked for, in this order. */
export const listPlaces = (options: SourceOptions): string[] => toPlaces(options).map(({ path }) => path)

function toPlaces({ file, dataFolder, cwd }: SourceOptions): { path: string; name: string }[] {
  const names = file === undefined ? [join(dataFolder, 'catalog.yaml'), 'catalog.yaml'] : [file]
  return names.map((name) => ({ name, path: resolve(cwd, name) }))
}

async function readSource(path: string, name: string): Promise<CatalogSource> {
  try {
    return { name, path, origin: 'file', text: await Bun.file(path).text() }
  } catch (cause) {
    const code = codeOf(cause)
    const reason =
      code === 'ENOENT'
        ? 'there is no such file'
        : code === 'EISDIR'
          ? 'it is a folder'
          : `it cannot be read (${code || 'unknown reason'})`
    throw new ServiceError({ kind: 'catalog_unreadable', path }, `Cannot use ${path} as the catalogue: ${reason}.`)
  }
}
