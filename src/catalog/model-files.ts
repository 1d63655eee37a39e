/**
 * Files of local models (`models.d/*.yaml` in the data folder), each a small catalog.
 *
 * Commands of model servers come only from these files and the `--catalog` file. The database has their hashes. So no
 * restored database or version, and no remote user, can add a command.
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

export interface ServedModel {
  slug: string
  /** Also the file's name. */
  upstream: string
  name: string
  ownedBy: string
  contextLength: number
  maxOutputLength: number
  inputModalities: Modality[]
  outputModalities: Modality[]
  features: Feature[]
  command: readonly string[]
  slots: number
  /** Such as `4096M`. */
  memory: string
  /** Device in the catalog's `memory`; null = the machine. */
  device: string | null
  /** Maximum load time, such as `120s`. */
  start: string
}

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

const HEAD = ` Written by tollgate models add, removed by tollgate models remove. You can edit it:
 changes apply at the next start or reload. Its command runs only if no other user can write to this file.`

const toMemoryWords = (device: string | null) =>
  device === null || device === CPU
    ? ' Expected memory use. Without this line, Tollgate uses what it measured.'
    : ` Expected use of ${device}'s memory. Without this line, the model gets all of it.`

/** Writes atomically. @throws a ServiceError */
export function writeModelFile({ path, text }: ModelFile): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    putFile(path, text, { mode: 0o600 })
  } catch (cause) {
    const folder = dirname(path)
    throw new ServiceError(
      { kind: 'data_unwritable', dataFolder: folder },
      `Can't write to ${folder} (${codeOf(cause) || 'unknown reason'}).`,
    )
  }
}

export const removeModelFile = ({ path }: ModelFile): void => rmSync(path, { force: true })

/** Unreadable parts are skipped. */
export interface DeclaredThere {
  file: ModelFile
  /** Model IDs. */
  models: string[]
  commands: [upstream: string, words: string[]][]
  /** Total of their `memory`. */
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
  /** About files whose commands are ignored. */
  ignored: string[]
}

/** No row has the hash of an invalid source's commands. @param isNamed true if `--catalog` names the source's file */
export async function loadProcesses(source: CatalogSource, isNamed: boolean): Promise<LoadedProcesses> {
  const byUpstream = new Map<string, ProcessSpec>()
  const ignored: string[] = []
  const main = source.text === null ? {} : await read(source.text)
  const own = commandsOf(main)
  if (isNamed) take(own, byUpstream)
  else if (own.length > 0)
    ignored.push(
      `${source.path}: commands of ${own.map(([id]) => id).join(', ')} are ignored. To run them, name this file with --catalog.`,
    )
  let memory = toMemoryBudgets(main.memory)
  for (const { path, text } of source.modelFiles) {
    const entries = await read(text)
    if (memory.size === 0) memory = toMemoryBudgets(entries.memory)
    // Anyone who can write to a parent folder could replace the file.
    const why = (await Promise.all([dirname(dirname(path)), dirname(path), path].map(toDoubt))).find((why) => why)
    if (why) ignored.push(`${path}: commands ignored: ${why}`)
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

/** Why a user other than the owner and root could have written the path; null if none could. */
async function toDoubt(path: string): Promise<string | null> {
  const { mode, uid } = await stat(path)
  const user = process.geteuid?.() ?? uid
  if (uid !== user && uid !== 0)
    return `${path} belongs to user ${uid}. Run the server as that user, or chown ${user} ${path}`
  return (mode & 0o022) === 0 ? null : `other users can write to ${path}. Run: chmod go-w ${path}`
}
