/** A local GGUF model: its facts, and how to serve it. */
import { availableParallelism, totalmem } from 'node:os'
import { basename, resolve } from 'node:path'
import { isSlug, isUpstreamId } from '../../catalog/entry.ts'
import type { ServedModel } from '../../catalog/model-files.ts'
import { CPU } from '../../domain/model-server.ts'
import type { Feature, Modality } from '../../domain/models.ts'
import { toSize } from '../../domain/text.ts'
import { findEngine, toCommand } from '../../processes/command.ts'
import { DamagedModel } from '../../processes/gguf.ts'
import {
  chooseContext,
  type Estimate,
  estimateMemory,
  findModelFiles,
  type GgufFacts,
  type ModelFiles,
} from '../../processes/model-file.ts'
import { CommandError, usageError } from '../command-error.ts'
import { type Context, toPrintable } from '../io.ts'
import { toCount } from '../values.ts'

export interface ModelFlags {
  name?: string
  context?: string
  slots?: string
  memory?: string
  device?: string
  mmproj?: string
}

export interface LocalModel {
  files: ModelFiles
  served: ServedModel
  /** Tokens per request. */
  context: number
  estimate: Estimate
  memoryBytes: number
  /** Full path of the program. */
  engine: string
  notes: string[]
}

/** With one slot, all requests wait for the longest; each slot takes the memory of a context. */
const SLOTS = 2
/** Share of this machine's memory that a default context may use. */
const PART_OF_MEMORY = 0.6
const MIN_START_MS = 120_000
const MAX_NAME = 100
/** A slow disk. */
const BYTES_PER_MS = 50_000

/**
 * Throws a CommandError if the path has no model, or nothing here can serve it.
 * @param deviceBytes memory of its device; null if not set.
 */
export function toLocalModel(
  path: string,
  flags: ModelFlags,
  io: Context,
  deviceBytes: number | null = null,
): LocalModel {
  const slots = flags.slots === undefined ? SLOTS : toCount('--slots', flags.slots)
  const said = flags.memory === undefined ? null : toSize(flags.memory)
  if (flags.memory !== undefined && said === null)
    throw usageError(`--memory must be a size with its unit, e.g. 4G or 512M (got '${flags.memory}').`)
  const files = find(resolve(io.cwd, path), flags.mmproj === undefined ? null : resolve(io.cwd, flags.mmproj))
  const { facts, bytes } = files
  const most = said ?? deviceBytes ?? totalmem() * PART_OF_MEMORY
  const context =
    flags.context === undefined
      ? chooseContext(facts, { fileBytes: bytes, slots, most })
      : toCount('--context', flags.context)
  const engine = requireEngine(io)
  const estimate = estimateMemory(facts, { fileBytes: bytes, context, slots })
  const memoryBytes = said ?? estimate.total
  const { device = null } = flags
  const served = toServed(files, { slug: toSlug(flags.name, files), context, slots, memoryBytes, device })
  const notes = [...toMemoryNotes({ memoryBytes, device, deviceBytes }), ...toNotes(files, context)]
  return { files, served, context, estimate, memoryBytes, engine, notes }
}

function find(path: string, projector: string | null): ModelFiles {
  try {
    return findModelFiles(path, projector)
  } catch (error) {
    if (error instanceof DamagedModel) throw new CommandError('model_unusable', error.message)
    throw error
  }
}

function requireEngine({ dataFolder, environment }: Context): string {
  const engine = findEngine(dataFolder, environment)
  if (engine !== null) return engine
  throw new CommandError(
    'no_engine',
    'llama-server, which serves local models, is not installed. Put it on the PATH (brew install llama.cpp, or https://github.com/ggml-org/llama.cpp/releases), or install a download: tollgate engines install --from FILE --sha256 HEX',
  )
}

/** From the file name, which tells sizes of a model apart. */
function toSlug(said: string | undefined, { path }: ModelFiles): string {
  if (said !== undefined) {
    const slug = said.includes('/') ? said : `local/${said}`
    if (!isSlug(slug)) throw usageError(`--name must be a model ID, e.g. local/gemma-3-4b (got '${said}').`)
    return slug
  }
  const stem = basename(path).replace(/(-\d{5}-of-\d{5})?(\.gguf)?$/i, '')
  const name = stem
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, 64)
  return `local/${name || 'model'}`
}

interface Wanted {
  slug: string
  context: number
  slots: number
  memoryBytes: number
  device: string | null
}

function toServed(
  { path, facts, projector, bytes }: ModelFiles,
  { slug, context, slots, memoryBytes, device }: Wanted,
): ServedModel {
  const makesEmbeddings = facts.kind === 'embeddings'
  const upstream = slug
    .slice(slug.indexOf('/') + 1)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
  if (!isUpstreamId(upstream)) throw usageError(`'${slug}' is too long. Choose another name with --name.`)
  const images: Modality[] = projector?.reads.image ? ['image'] : []
  const sounds: Modality[] = projector?.reads.audio ? ['audio'] : []
  const startMs = Math.max(MIN_START_MS, bytes / BYTES_PER_MS)
  return {
    ...{ slug, upstream, slots, device, contextLength: context },
    name: toPrintable(facts.name ?? basename(path, '.gguf')).slice(0, MAX_NAME),
    ownedBy: 'local',
    // The prompt takes part of the context.
    maxOutputLength: Math.max(1, Math.floor(context / 2)),
    inputModalities: ['text', ...images, ...sounds],
    outputModalities: [makesEmbeddings ? 'embeddings' : 'text'],
    features: makesEmbeddings ? [] : toFeatures(facts),
    command: toCommand({
      ...{ model: path, projector: projector?.path ?? null, context, slots, makesEmbeddings, device },
      cores: availableParallelism(),
    }),
    memory: toMemoryText(memoryBytes),
    start: `${Math.ceil(startMs / 1_000)}s`,
  }
}

/** Grammars make any model follow a schema. */
const toFeatures = ({ template }: GgufFacts): Feature[] => [
  ...(template?.hasTools ? (['tools'] as const) : []),
  ...(['json_mode', 'structured_outputs'] as const),
  ...(template?.hasThoughts ? (['reasoning'] as const) : []),
]

const MIB = 2 ** 20

const toMemoryText = (bytes: number) =>
  bytes < 900_000 * MIB ? `${Math.ceil(bytes / MIB)}M` : `${Math.ceil(bytes / 1024 / MIB)}G`

export const toGibibytes = (bytes: number) =>
  bytes < 1024 * MIB ? `${Math.ceil(bytes / MIB)} MiB` : `${(bytes / 1024 / MIB).toFixed(1)} GiB`

interface Planned {
  memoryBytes: number
  device: string | null
  deviceBytes: number | null
}

function* toMemoryNotes({ memoryBytes, device, deviceBytes }: Planned): Generator<string> {
  const isOnCard = device !== null && device !== CPU
  if (isOnCard) yield `llama-server runs with --device ${device}, which must be listed by: llama-server --list-devices`
  if (deviceBytes !== null && memoryBytes > deviceBytes)
    yield `It needs about ${toGibibytes(memoryBytes)}, but the catalog gives ${device} ${toGibibytes(deviceBytes)}. Choose a smaller quantization, --context, or --slots.`
  else if (!isOnCard && memoryBytes > totalmem())
    yield `It needs about ${toGibibytes(memoryBytes)}, but this machine has ${toGibibytes(totalmem())}. Choose a smaller quantization, --context, or --slots, unless it runs on a GPU.`
}

function toNotes({ facts, otherProjectors }: ModelFiles, context: number): string[] {
  const trained = facts.contextLength
  const notes: string[] = []
  if (trained !== null && context > trained)
    notes.push(`It was trained for ${trained} tokens; the engine may limit --context to that.`)
  if (facts.kind === 'chat' && facts.template === null)
    notes.push('It has no chat template, so it may be a base model, which only continues text.')
  if (otherProjectors.length > 0)
    notes.push(`Found ${otherProjectors.join(', ')} in the same folder. For image or audio input, pass --mmproj FILE.`)
  return notes
}
