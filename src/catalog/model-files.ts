/**
 * The small files of models in the data folder (`models.d/*.yaml`), each a catalog of its own: one is written for a model that is served
 * here, found again, and taken away. And the commands of model servers, read where a server of this machine is told them and nowhere else:
 * in the file that `--catalog` names, and in those. The database has the hash of each; without these words nothing is run for it. So no
 * restore, no version that is brought back, and nobody over the network brings a command.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../domain/error.ts'
import { CPU, type ProcessSpec, type ProcessSpecs } from '../domain/model-server.ts'
import type { Feature, Modality } from '../domain/models.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toSize } from '../domain/text.ts'
import { putFile } from '../store/files.ts'
import { parseText, writeDocument } from './document.ts'
import { type Entry, toEntry, toItems } from './entry.ts'
import { toMemoryBudgets, toProcessSpec } from './process.ts'
import { type CatalogSource, MODELS_FOLDER, type ModelFile } from './source.ts'

/** A model whose server is started here. */
export interface ServedModel {
  slug: string
  /** Of its upstream; its file is called by it. */
  upstream: string
  name: string
  ownedBy: string
  contextLength: number
  maxOutputLength: number
  inputModalities: Modality[]
  outputModalities: Modality[]
  features: Feature[]
  command: readonly string[]
  /** Requests at a time. */
  slots: number
  /** Such as `4096M`. */
  memory: string
  /** Whose memory that is, by its name in `memory` of the catalogue; null = the machine's. */
  device: string | null
  /** How long it may take to load, such as `120s`. */
  start: string
}

/** The file of a model as it would be written. Pure. */
export function toModelFile(dataFolder: string, model: ServedModel): ModelFile {
  const { slug, upstream, command, slots, memory, device, start } = model
  const isVectors = model.outputModalities.includes('embeddings')
  const document = {
    version: 1,
    upstreams: {
      [upstream]: {
        ...{ dialect: 'openai', process: command, concurrency: slots, memory },
        ...(device === null ? {} : { device }),
        deadlines: { start },
      },
    },
    models: {
      [slug]: {
        ...{ name: model.name, owned_by: model.ownedBy, context_length: model.contextLength },
        ...(isVectors ? {} : { max_output_length: model.maxOutputLength }),
        ...{ input_modalities: model.inputModalities, output_modalities: model.outputModalities },
        ...(isVectors ? {} : { supported_features: model.features }),
        routes: [{ upstream, model: slug }],
      },
    },
  }
  const name = join(MODELS_FOLDER, `${upstream}.yaml`)
  const text = writeDocument(document, { head: HEAD, at: [[['upstreams', upstream, 'memory'], toMemoryWords(device)]] })
  return { name, path: join(dataFolder, name), text }
}

const HEAD = ` Written by tollgate models add, and taken away by tollgate models remove. It may be changed:
 a server takes that with its next start, or at a reload. Its command runs only while nobody else may write it.`

const toMemoryWords = (device: string | null) =>
  device === null || device === CPU
    ? ' What it is taken to need of the memory. Without this line, what it was seen to take counts.'
    : ` What it is taken to need of the memory of ${device}. Without this line, it has all of that to itself.`

/** Writes it, whole or not at all. Throws a ServiceError where that cannot be. */
export function writeModelFile({ path, text }: ModelFile): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    putFile(path, text, { mode: 0o600 })
  } catch (cause) {
    const folder = dirname(path)
    throw new ServiceError(
      { kind: 'data_unwritable', dataFolder: folder },
      `Cannot write into ${folder} (${codeOf(cause) || 'unknown reason'}).`,
    )
  }
}

export const removeModelFile = ({ path }: ModelFile): void => rmSync(path, { force: true })

/** What a file declares, as far as it can be read. */
export interface DeclaredThere {
  file: ModelFile
  /** Slugs. */
  models: string[]
  /** Ids of upstreams, with the words of their commands. */
  commands: [upstream: string, words: string[]][]
  /** What is planned for all of them together. */
  plannedBytes: number
}

export function readModelFiles(files: readonly ModelFile[]): Promise<DeclaredThere[]> {
  return Promise.all(
    files.map(async (file) => {
      const root = toEntry((await parseText(file.text)).raw)
      const upstreams = Object.entries(toEntry(root.upstreams))
      const commands = upstreams.map(([id, entry]): [string, string[]] => [
        id,
        toItems(toEntry(entry).process).map(String),
      ])
      const planned = upstreams.map(([, entry]) => toSize(String(toEntry(entry).memory ?? '')) ?? 0)
      return {
        ...{ file, models: Object.keys(toEntry(root.models)), commands },
        plannedBytes: planned.reduce((sum, bytes) => sum + bytes, 0),
      }
    }),
  )
}

export interface LoadedProcesses {
  specs: ProcessSpecs
  /** Sentences about files whose commands do not count. */
  ignored: string[]
}

/**
 * Reads the commands of a source that was found. What of it does not hold together has failed to apply, so that no row has its hash.
 * @param isNamed whether somebody has named its file.
 */
export async function loadProcesses(source: CatalogSource, isNamed: boolean): Promise<LoadedProcesses> {
  const byUpstream = new Map<string, ProcessSpec>()
  const ignored: string[] = []
  const main = source.text === null ? {} : await read(source.text)
  const own = commandsOf(main)
  if (isNamed) take(own, byUpstream)
  else if (own.length > 0)
    ignored.push(
      `${source.path}: the commands of ${own.map(([id]) => id).join(', ')} are not run: name this file with --catalog.`,
    )
  let memory = toMemoryBudgets(main.memory)
  for (const { path, text } of source.modelFiles) {
    const entries = await read(text)
    if (memory.size === 0) memory = toMemoryBudgets(entries.memory)
    // Whoever may write a folder may put another one, or another file, in the place of what is in it.
    const why = (await Promise.all([dirname(dirname(path)), dirname(path), path].map(toDoubt))).find((why) => why)
    if (why) ignored.push(`${path}: its commands are not run: ${why}`)
    else take(commandsOf(entries), byUpstream)
  }
  return { specs: { byUpstream, memory }, ignored }
}

const read = async (text: string): Promise<Entry> => toEntry((await parseText(text)).raw)

const commandsOf = (root: Entry): [string, Entry][] =>
  Object.entries(toEntry(root.upstreams))
    .map(([id, entry]): [string, Entry] => [id, toEntry(entry)])
    .filter(([, entry]) => Array.isArray(entry.process))

function take(commands: readonly [string, Entry][], byUpstream: Map<string, ProcessSpec>): void {
  for (const [id, entry] of commands) byUpstream.set(id, toProcessSpec(entry))
}

/** Why somebody else than the user of this process, or root, may have written it; null where nobody can have. */
async function toDoubt(path: string): Promise<string | null> {
  const { mode, uid } = await stat(path)
  const user = process.geteuid?.() ?? uid
  if (uid !== user && uid !== 0)
    return `${path} belongs to user ${uid}. Run the server as that user, or chown ${user} ${path}`
  return (mode & 0o022) === 0 ? null : `others may write ${path}. chmod go-w ${path}`
}
