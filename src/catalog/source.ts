/**
 * Finds the effective catalog (the named file, else the data folder's, else the working directory's, else the built-in
 * one) and watches it. Files are polled, because editors and container mounts replace them without reliable events. A
 * change applies once two polls agree, so that a file is complete.
 */

import { readdir, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import builtin from '../../catalog.yaml' with { type: 'text' }
import { codeOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'

export interface CatalogSource {
  /** Shown in messages. */
  name: string
  /** Null if built-in. */
  path: string | null
  origin: 'file' | 'builtin'
  /** Null if there are only model files. */
  text: string | null
  /** Sorted by name. */
  modelFiles: ModelFile[]
}

export interface ModelFile {
  /** Shown in messages. */
  name: string
  path: string
  text: string
}

export interface SourceOptions {
  /** The file that `--catalog` names. */
  file?: string | undefined
  dataFolder: string
  cwd: string
}

/** @throws a ServiceError if the named file can't be read */
export async function loadSource(options: SourceOptions): Promise<CatalogSource> {
  const modelFiles = await loadModelFiles(toModelsFolder(options))
  for (const { path, name } of toPlaces(options))
    if (options.file !== undefined || (await Bun.file(path).exists()))
      return { name, path, origin: 'file', text: await readSource(path), modelFiles }
  if (modelFiles.length > 0)
    return { name: MODELS_FOLDER, path: toModelsFolder(options), origin: 'file', text: null, modelFiles }
  return { name: 'built-in catalog.yaml', path: null, origin: 'builtin', text: builtin, modelFiles }
}

/** In the data folder. */
export const MODELS_FOLDER = 'models.d'

export const toModelsFolder = ({ dataFolder, cwd }: Pick<SourceOptions, 'dataFolder' | 'cwd'>): string =>
  resolve(cwd, dataFolder, MODELS_FOLDER)

/** @throws a ServiceError if one can't be read */
export async function loadModelFiles(folder: string): Promise<ModelFile[]> {
  const paths = await listModelFiles(folder).catch((error: unknown) => {
    throw toUnreadable(folder, error)
  })
  return Promise.all(
    paths.map(async (path) => ({ name: join(MODELS_FOLDER, basename(path)), path, text: await readSource(path) })),
  )
}

/** Sorted. Throws if the folder can't be read. */
async function listModelFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    // A bad data folder is reported when it is opened.
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return []
    throw error
  })
  const chosen = names.filter((name) => name.endsWith('.yaml')).toSorted()
  return chosen.map((name) => join(folder, name))
}

/** In the order they are tried. */
export const listPlaces = (options: SourceOptions): string[] => toPlaces(options).map(({ path }) => path)

function toPlaces({ file, dataFolder, cwd }: SourceOptions): { path: string; name: string }[] {
  const names = file === undefined ? [join(dataFolder, 'catalog.yaml'), 'catalog.yaml'] : [file]
  return names.map((name) => ({ name, path: resolve(cwd, name) }))
}

async function readSource(path: string): Promise<string> {
  try {
    return await Bun.file(path).text()
  } catch (cause) {
    throw toUnreadable(path, cause)
  }
}

function toUnreadable(path: string, cause: unknown): ServiceError {
  const code = codeOf(cause)
  const reason =
    code === 'ENOENT'
      ? 'file not found'
      : code === 'EISDIR'
        ? 'it is a directory'
        : `can't read it (${code || 'unknown reason'})`
  return new ServiceError({ kind: 'catalog_unreadable', path }, `Can't use ${path} as the catalog: ${reason}.`)
}

export interface WatchDeps {
  /** From `listPlaces`; the first that exists applies. */
  places: readonly string[]
  modelsFolder: string
  /**
   * Applies a file (null for none) and the model files. Returns whether anything changed; if it throws, nothing has.
   */
  apply(path: string | null): Promise<boolean>
  /** Called after a change is applied or an earlier problem is solved. */
  onApplied(path: string | null): void
  /** Called once per problem, even if retried. */
  onTrouble(error: unknown): void
  /** Called once if the file disappears. Its entries stay, and nothing is applied until it is back. */
  onGone(path: string): void
}

export interface CatalogWatch {
  /** Never throws. Concurrent calls do nothing. */
  look(): Promise<void>
}

interface Seen {
  /** The catalog file; null if none. */
  path: string | null
  /** Changes if any file does. */
  stamp: string
}

/** The current files count as applied. */
export async function watchCatalog({ places, modelsFolder, apply, ...tell }: WatchDeps): Promise<CatalogWatch> {
  let settled = await find(places, modelsFolder)
  let last = settled
  let trouble = ''
  let isLooking = false

  async function look(): Promise<void> {
    // A fallback file would remove everything that a missing file declared.
    const from = settled.path === null ? places.length : places.indexOf(settled.path) + 1
    const before = last
    last = await find(places.slice(0, from), modelsFolder)
    if (last.path === null && before.path !== null) {
      tell.onGone(before.path)
      trouble = 'gone'
    }
    const isGone = last.path === null && settled.path !== null
    if (isGone || last.stamp !== before.stamp || last.stamp === settled.stamp) return
    try {
      const isChanged = await apply(last.path)
      settled = last
      if (isChanged || trouble !== '') tell.onApplied(last.path)
      trouble = ''
    } catch (error) {
      // An invalid file is retried only when it changes, a busy database at each look.
      if (error instanceof ServiceError) settled = last
      const why = String(error)
      if (why !== trouble) tell.onTrouble(error)
      trouble = why
    }
  }

  return {
    async look() {
      if (isLooking) return
      isLooking = true
      await look().finally(() => {
        isLooking = false
      })
    },
  }
}

async function find(places: readonly string[], modelsFolder: string): Promise<Seen> {
  const models = await stampModels(modelsFolder)
  for (const path of places) {
    const stamp = await stampFile(path)
    if (stamp !== null) return { path, stamp: `${stamp}\n${models}` }
  }
  return { path: null, stamp: models }
}

/** An error code if unreadable; applying reports it. */
async function stampModels(folder: string): Promise<string> {
  try {
    const paths = await listModelFiles(folder)
    return (await Promise.all(paths.map(stampFile))).join('\n')
  } catch (error) {
    return codeOf(error)
  }
}

/** Null if inaccessible or missing. */
async function stampFile(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => null)
  if (found === null) return null
  const { dev, ino, size, mtimeNs, ctimeNs } = found
  return [path, dev, ino, size, mtimeNs, ctimeNs].join(' ')
}
