/**
 * A model of a file: what it is, how it is to be served, and the small file in `models.d/` that says so. `models add` and
 * `serve FILE` present it.
 */
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
  /** Tokens of one request. */
  context: number
  estimate: Estimate
  /** What is planned for it, bytes. */
  memoryBytes: number
  /** Full path of the program that would be run. */
  engine: string
  notes: string[]
}

/** With one at a time everybody waits for the longest answer; each takes the memory of a context. */
const SLOTS = 2
/** Of the memory of a machine, what a model may take by a context that nobody has asked for. */
const PART_OF_MEMORY = 0.6
const MIN_START_MS = 120_000
/** Of what a file calls itself. */
const MAX_NAME = 100
/** A slow disk. */
const BYTES_PER_MS = 50_000

/**
 * Looks at a file or folder. Throws a CommandError where it is no model, or nothing here could serve it.
 * @param deviceBytes what models may take of the memory of its device; null where nobody has said.
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
    throw usageError(`--memory '${flags.memory}' is no size: write it with its unit, such as 4G or 512M.`)
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
    'There is no llama-server here, which serves such models: put one on the PATH (brew install llama.cpp, or https://github.com/ggml-org/llama.cpp/releases), or unpack what you have downloaded with: tollgate engines install --from FILE --sha256 HEX',
  )
}

/** The name of the file is what tells two sizes of a model apart. */
function toSlug(said: string | undefined, { path }: ModelFiles): string {
  if (said !== undefined) {
    const slug = said.includes('/') ? said : `local/${said}`
    if (!isSlug(slug)) throw usageError(`--name '${said}' is no name of a model: write it as local/gemma-3-4b.`)
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
  if (!isUpstreamId(upstream)) throw usageError(`'${slug}' is too long for a name: choose another one with --name.`)
  const images: Modality[] = projector?.reads.image ? ['image'] : []
  const sounds: Modality[] = projector?.reads.audio ? ['audio'] : []
  const startMs = Math.max(MIN_START_MS, bytes / BYTES_PER_MS)
  return {
    ...{ slug, upstream, slots, device, contextLength: context },
    name: toPrintable(facts.name ?? basename(path, '.gguf')).slice(0, MAX_NAME),
    ownedBy: 'local',
    // What it has read takes a part of the context.
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

/** A grammar of the engine holds any model to a schema. */
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
  if (isOnCard)
    yield `llama-server is told --device ${device}: it must be one of those that llama-server --list-devices names.`
  if (deviceBytes !== null && memoryBytes > deviceBytes)
    yield `It needs about ${toGibibytes(memoryBytes)}, and memory in the catalogue has ${toGibibytes(deviceBytes)} of ${device}: choose a smaller quantization, --context or --slots.`
  else if (!isOnCard && memoryBytes > totalmem())
    yield `It needs about ${toGibibytes(memoryBytes)}, and this machine has ${toGibibytes(totalmem())}: choose a smaller quantization, --context or --slots, unless it goes to a graphics card.`
}

function toNotes({ facts, otherProjectors }: ModelFiles, context: number): string[] {
  const trained = facts.contextLength
  const notes: string[] = []
  if (trained !== null && context > trained)
    notes.push(`It was trained for ${trained} tokens: the engine may give no more than that, whatever --context says.`)
  if (facts.kind === 'chat' && facts.template === null)
    notes.push('It has no chat template: it may be a base model, which goes on with a text and answers nothing.')
  if (otherProjectors.length > 0)
    notes.push(`Beside it lies ${otherProjectors.join(', ')}: with --mmproj FILE it reads pictures or sound.`)
  return notes
}
