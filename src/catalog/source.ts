/**
 * Which catalogue counts: the one named, else the data folder's, else the working directory's, else the one
 * inside the binary. Called by `serve` and by the catalog commands. It only reads; `file.ts` parses.
 */
import { readdir } from 'node:fs/promises'
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
export async function listModelFiles(folder: string): Promise<string[]> {
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
