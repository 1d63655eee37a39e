/**
 * `tollgate models add | remove`: serves a local GGUF model by a config file in `models.d/`; removing keeps the model's
 * own file.
 */
import { existsSync } from 'node:fs'
import { totalmem } from 'node:os'
import { dirname } from 'node:path'
import { type ParsedCatalog, parseModelFiles, parseSource } from '../../catalog/file.ts'
import {
  type DeclaredThere,
  readModelFiles,
  removeModelFile,
  toModelFile,
  writeModelFile,
} from '../../catalog/model-files.ts'
import { explainDevice } from '../../catalog/process.ts'
import { loadSource, type ModelFile } from '../../catalog/source.ts'
import { giveToOwner, isServed, prepareDataFolder } from '../../store/data-folder.ts'
import { storeOf } from '../../store/open.ts'
import { answerOf, withAdmin } from '../admin-client.ts'
import { toWriteLines } from '../catalog-changes.ts'
import { CommandError, usageError } from '../command-error.ts'
import { findServer, toPart } from '../control-client.ts'
import { type Context, printJson, toFactLines, toPrintable } from '../io.ts'
import { type LocalModel, type ModelFlags, toGibibytes, toLocalModel } from './local-model.ts'

export async function add(
  path: string,
  flags: ModelFlags & { catalog?: string | undefined },
  io: Context,
): Promise<void> {
  const { catalog, ...more } = flags
  const startCatalog = await loadStartCatalog(catalog, io)
  const model = toLocalModel(path, more, io, requireDevice(startCatalog, more.device ?? null))
  const isApplied = storeOf(io.dataFolder).exists()
  if (isApplied) requireFree(await readTaken(io), model)
  const declared = await declare(model, startCatalog, io)
  if (isApplied) await apply(declared.file, io)
  const hasServer = isApplied && (await findServer(io.dataFolder)).kind === 'server'
  if (io.json) return printJson(io, toDocument(model, declared, isApplied))
  tell(model, declared, io)
  io.stdout(toClosing(model, hasServer))
}

/** Adds a model for a server about to start, unless it is already added. Returns its ID. */
export async function addOnce(path: string, catalogFile: string | undefined, io: Context): Promise<string> {
  const model = toLocalModel(path, {}, io)
  const { modelFiles } = await loadSource({ dataFolder: io.dataFolder, cwd: io.cwd })
  const known = (await readModelFiles(modelFiles)).find(({ commands }) =>
    commands.some(([, words]) => words.includes(model.files.path)),
  )
  if (known?.models[0] !== undefined) return known.models[0]
  if (isServed(io.dataFolder))
    throw new CommandError(
      'already_served',
      `A server is already running on ${io.dataFolder}. Add the model to it: tollgate models add ${path}`,
    )
  const startCatalog = await loadStartCatalog(catalogFile, io)
  requireDevice(startCatalog, null)
  const declared = await declare(model, startCatalog, io)
  if (!io.json) tell(model, declared, io)
  return model.served.slug
}

interface StartCatalog {
  parsed: ParsedCatalog
  before: DeclaredThere[]
}

async function loadStartCatalog(
  file: string | undefined,
  { dataFolder, cwd, environment }: Context,
): Promise<StartCatalog> {
  const source = await loadSource({ file, dataFolder, cwd })
  return { parsed: await parseSource(source, environment), before: await readModelFiles(source.modelFiles) }
}

/** Memory of a device for models, bytes; null if not set. Throws for an unknown device. */
function requireDevice({ parsed: { memory } }: StartCatalog, device: string | null): number | null {
  const problem = explainDevice(memory, device)
  if (problem !== null) throw usageError(`--device ${problem}`)
  return device === null ? null : (memory.get(device) ?? null)
}

interface Declared {
  file: ModelFile
  notes: string[]
}

/** Writes the config file of a model for the next server start. Throws on a conflict. */
async function declare(model: LocalModel, { parsed, before }: StartCatalog, io: Context): Promise<Declared> {
  const { dataFolder } = io
  const file = toModelFile(dataFolder, model.served)
  const { slug } = model.served
  const there = before.find(({ models }) => models.includes(slug))
  if (there || existsSync(file.path)) throw toTaken(slug, there?.file.name ?? file.name)
  requireFree(parsed.catalog, model)
  await parseModelFiles({ modelFiles: [file] }, io.environment)
  const crowded = parsed.memory.size > 0 ? null : toCrowdedNote([...before, ...(await readModelFiles([file]))])
  prepareDataFolder(dataFolder)
  writeModelFile(file)
  giveToOwner(dataFolder, [dirname(file.path), file.path])
  return { file, notes: [...model.notes, ...(crowded === null ? [] : [crowded])] }
}

/** Without a limit, all requested models are loaded at once. */
function toCrowdedNote(all: readonly DeclaredThere[]): string | null {
  const planned = all.reduce((sum, { plannedBytes }) => sum + plannedBytes, 0)
  if (all.length < 2 || planned <= totalmem()) return null
  return `All ${all.length} models in models.d need ${toGibibytes(planned)}, but this machine has ${toGibibytes(totalmem())}. To limit how many are loaded, add this line at the top of one of the files: memory: ${Math.max(1, Math.floor(totalmem() / 2 ** 30) - 2)}G`
}

interface Taken {
  models: readonly { slug: string }[]
  aliases: readonly { alias: string }[]
  upstreams: readonly { id: string }[]
}

function requireFree({ models, aliases, upstreams }: Taken, { served: { slug, upstream } }: LocalModel): void {
  if (models.some((row) => row.slug === slug) || aliases.some(({ alias }) => alias === slug))
    throw toTaken(slug, 'the catalog')
  if (upstreams.some(({ id }) => id === upstream))
    throw new CommandError(
      'upstream_exists',
      `Upstream ${upstream} already exists, and this model's would have the same name. Choose another name with --name.`,
    )
}

const readTaken = (io: Context): Promise<Taken> =>
  withAdmin(io, {}, async ({ api }) => ({
    ...(await answerOf(api.models.get())),
    ...(await answerOf(api.upstreams.get())),
  }))

const toTaken = (slug: string, where: string) =>
  new CommandError(
    'model_exists',
    `Model ${slug} already exists (${toPrintable(where)}). Choose another name (tollgate models add FILE --name local/other), or remove it: tollgate models remove ${slug}`,
  )

/** Writes the model to the database, where a running server reads it. */
async function apply(file: ModelFile, io: Context): Promise<void> {
  try {
    const { catalog } = await parseModelFiles({ modelFiles: [file] }, io.environment)
    // No digest, so the next start applies the whole catalog.
    const options = { catalog, origin: 'file', subject: file.name, digest: '' } as const
    await withAdmin(io, {}, ({ operator }) => answerOf(operator.catalog.apply.post(options)))
  } catch (error) {
    removeModelFile(file)
    throw error
  }
}

const toDocument = (
  { files, served, context, estimate, memoryBytes, engine }: LocalModel,
  { file, notes }: Declared,
  isApplied: boolean,
) => ({
  model: served.slug,
  upstream: served.upstream,
  path: file.path,
  gguf: files.path,
  parts: files.parts,
  mmproj: files.projector?.path ?? null,
  architecture: files.facts.architecture,
  quantization: files.facts.quantization,
  trained_context_length: files.facts.contextLength,
  context_length: context,
  slots: served.slots,
  bytes: files.bytes,
  memory_bytes: memoryBytes,
  device: served.device,
  estimate: { weights: estimate.weights, cache: estimate.cache, compute: estimate.compute },
  input_modalities: served.inputModalities,
  supported_features: served.features,
  engine,
  applied: isApplied,
  notes,
})

function tell(
  { files, served, context, estimate, memoryBytes, engine }: LocalModel,
  { file, notes }: Declared,
  io: Context,
): void {
  const { facts, parts, bytes, projector } = files
  const kind = [facts.architecture, facts.quantization, toGibibytes(bytes), parts > 1 ? `${parts} files` : null]
  const trained = facts.contextLength === null ? '' : ` (trained for ${facts.contextLength})`
  const { weights, cache, compute } = estimate
  const lines: [string, string][] = [
    ['model', `${served.name}: ${kind.filter((one) => one !== null).join(', ')}`],
    ['context', `${context} tokens per request, ${served.slots} concurrent${trained}`],
    [
      'memory',
      `${toGibibytes(memoryBytes)} reserved${served.device === null ? '' : ` on ${served.device}`}; estimated: weights ${toGibibytes(weights)}, context ${toGibibytes(cache)}, compute ${toGibibytes(compute)}`,
    ],
    ['input', served.inputModalities.join(', ')],
    ['capabilities', served.features.join(', ') || served.outputModalities.join(', ')],
    ...(projector === null ? [] : [['mmproj', projector.path] satisfies [string, string]]),
    ['engine', engine],
    ['config', file.path],
  ]
  io.stdout(toFactLines(`${served.slug}`, lines))
  for (const note of notes) io.stderr(`note: ${toPrintable(note)}\n`)
}

function toClosing({ served: { slug }, files }: LocalModel, hasServer: boolean): string {
  const ask =
    files.facts.kind === 'embeddings' ? `POST /v1/embeddings with ${slug}` : `tollgate ask --model ${slug} Hello`
  return hasServer ? `It loads on the first request: ${ask}\n` : `Start the server (tollgate serve), then: ${ask}\n`
}

/** A running server interrupts its responses and stops its process. */
export async function remove(slug: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const { modelFiles } = await loadSource({ dataFolder: io.dataFolder, cwd: io.cwd })
  const found = (await readModelFiles(modelFiles)).find(({ models }) => models.includes(slug)) ?? null
  if (found !== null) requireAlone(found)
  const edited = await deleteRows(slug, found, plan, io)
  // Otherwise the next start would add it again.
  if (found !== null && !plan) removeModelFile(found.file)
  const path = found?.file.path ?? null
  if (found === null && !plan)
    io.stderr('note: not declared in models.d. If a catalog declares it, the next server start adds it again.\n')
  if (io.json) return printJson(io, { planned: plan, model: slug, path, ...edited })
  if (edited) io.stdout(toWriteLines(edited, io.paint))
  const files =
    path === null
      ? ''
      : plan
        ? ` Would delete ${path}; the model file is kept.`
        : ` Deleted ${path}; the model file is kept.`
  io.stdout(plan ? `No changes made.${files}\n` : `Removed ${toPrintable(slug)}.${files}\n`)
}

function requireAlone({ file, models }: DeclaredThere): void {
  if (models.length > 1)
    throw new CommandError(
      'declared_elsewhere',
      `${file.path} also declares other models. Remove this one in that file.`,
    )
}

async function deleteRows(slug: string, found: DeclaredThere | null, plan: boolean, io: Context) {
  if (found !== null && !storeOf(io.dataFolder).exists()) return null
  try {
    return await withAdmin(io, { readonly: plan }, ({ operator }) =>
      answerOf(operator.models({ slug: toPart(slug) }).delete({ plan })),
    )
  } catch (error) {
    if (found !== null && error instanceof CommandError && error.kind === 'model_not_found') return null
    throw error
  }
}
