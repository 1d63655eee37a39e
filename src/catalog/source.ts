/**
 * Which catalog counts: the one named, else the data folder's, else the working directory's, else the one inside the binary; and whether it
 * has changed. Files are looked at again and again: editors replace them, mounts of containers swap links, and of neither is an event to be
 * relied on. A change counts once all of it has stood still from one look to the next, so that a file that is being written is left to become
 * whole. It only reads; `file.ts` parses.
 */

import { readdir, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import builtin from '../../catalog.yaml' with { type: 'text' }
import { codeOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'

export interface CatalogSource {
  /** How messages call it. */
  name: string
  /** The full path; null for the built-in one. */
  path: string | null
  origin: 'file' | 'builtin'
  /** Null where there are files of models, and no catalogue. */
  text: string | null
  /** The files of models in the data folder, by their names. */
  modelFiles: ModelFile[]
}

/** One small file a model, or a few: a catalogue of its own, with the upstream that the model is at. */
export interface ModelFile {
  /** How messages call it. */
  name: string
  path: string
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
  const modelFiles = await loadModelFiles(toModelsFolder(options))
  for (const { path, name } of toPlaces(options))
    if (options.file !== undefined || (await Bun.file(path).exists()))
      return { name, path, origin: 'file', text: await readSource(path), modelFiles }
  if (modelFiles.length > 0)
    return { name: MODELS_FOLDER, path: toModelsFolder(options), origin: 'file', text: null, modelFiles }
  return { name: 'built-in catalog.yaml', path: null, origin: 'builtin', text: builtin, modelFiles }
}

/** Of the data folder. */
export const MODELS_FOLDER = 'models.d'

export const toModelsFolder = ({ dataFolder, cwd }: Pick<SourceOptions, 'dataFolder' | 'cwd'>): string =>
  resolve(cwd, dataFolder, MODELS_FOLDER)

/** Reads the files of models of a folder, by their names. Throws a ServiceError where one cannot be read. */
export async function loadModelFiles(folder: string): Promise<ModelFile[]> {
  const paths = await listModelFiles(folder).catch((error: unknown) => {
    throw toUnreadable(folder, error)
  })
  return Promise.all(
    paths.map(async (path) => ({ name: join(MODELS_FOLDER, basename(path)), path, text: await readSource(path) })),
  )
}

/** The paths of the files of models in a folder, in order. Throws where it cannot be read. */
async function listModelFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    // What is no folder has none: whoever opens it as the data folder says so.
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return []
    throw error
  })
  const chosen = names.filter((name) => name.endsWith('.yaml')).toSorted()
  return chosen.map((name) => join(folder, name))
}

/** The paths at which a catalogue is looked for, in this order. */
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
      ? 'there is no such file'
      : code === 'EISDIR'
        ? 'it is a folder'
        : `it cannot be read (${code || 'unknown reason'})`
  return new ServiceError({ kind: 'catalog_unreadable', path }, `Cannot use ${path} as the catalogue: ${reason}.`)
}

export interface WatchDeps {
  /** Where the file may be, as `listPlaces` has them; the first that is there counts. */
  places: readonly string[]
  /** The folder of files of models, which need not be there. */
  modelsFolder: string
  /**
   * Applies the file at a path, null for none, with the files of models, and returns whether that changed anything. Throws where it
   * cannot; then nothing has changed.
   */
  apply(path: string | null): Promise<boolean>
  /** Hears that a change was applied, or that the trouble with the files is over. */
  onApplied(path: string | null): void
  /** Hears once why a change was not applied, however often that is tried. */
  onTrouble(error: unknown): void
  /** Hears once that the file which was there is gone; what it has declared stays, and nothing is applied until it is back. */
  onGone(path: string): void
}

export interface CatalogWatch {
  /** Looks once, and applies what has changed. Never throws. A look while one is under way does nothing. */
  look(): Promise<void>
}

interface Seen {
  /** Of the catalogue; null where there is none. */
  path: string | null
  /** Another one is another file, or another content, of the catalogue or of a model. */
  stamp: string
}

/** Begins with the files as they are now: those are taken for applied. */
export async function watchCatalog({ places, modelsFolder, apply, ...tell }: WatchDeps): Promise<CatalogWatch> {
  /** What needs no more done about it. */
  let settled = await find(places, modelsFolder)
  /** What the last look found. */
  let last = settled
  let trouble = ''
  let isLooking = false

  async function look(): Promise<void> {
    // A file that stood in for one that is gone would take away all that this has declared.
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
      // A file that is wrong is so until it changes; a database that is busy may not be in a moment.
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

/** Of a folder that cannot be read, why: whoever applies it says so. */
async function stampModels(folder: string): Promise<string> {
  try {
    const paths = await listModelFiles(folder)
    return (await Promise.all(paths.map(stampFile))).join('\n')
  } catch (error) {
    return codeOf(error)
  }
}

/** Null where it cannot be looked at, which is as if it were not there. */
async function stampFile(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => null)
  if (found === null) return null
  const { dev, ino, size, mtimeNs, ctimeNs } = found
  return [path, dev, ino, size, mtimeNs, ctimeNs].join(' ')
}
