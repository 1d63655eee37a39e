/**
 * The small files of models in the data folder (`models.d/*.yaml`), each a catalogue of its own: one is written for a model that is
 * served here, found again, and taken away. They bring commands, so they are their owner's alone.
 */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { codeOf } from '../domain/error.ts'
import { CPU } from '../domain/model-server.ts'
import type { Feature, Modality } from '../domain/models.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toSize } from '../domain/text.ts'
import { parseText, writeDocument } from './document.ts'
import { toEntry, toItems } from './entry.ts'
import { MODELS_FOLDER, type ModelFile } from './source.ts'

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
  const unfinished = `${path}.${process.pid}.tmp`
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    writeFileSync(unfinished, text, { mode: 0o600 })
    renameSync(unfinished, path)
  } catch (cause) {
    rmSync(unfinished, { force: true })
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
