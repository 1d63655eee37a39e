/**
 * `tollgate models add | remove`: a model of a file, with a small file of its own in `models.d/` of the data folder; and taken away again,
 * while the model's own file stays.
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
  const beside = await loadBeside(catalog, io)
  const model = toLocalModel(path, more, io, requireDevice(beside, more.device ?? null))
  const isApplied = storeOf(io.dataFolder).exists()
  if (isApplied) requireFree(await readTaken(io), model)
  const declared = await declare(model, beside, io)
  if (isApplied) await apply(declared.file, io)
  const hasServer = isApplied && (await findServer(io.dataFolder)).kind === 'server'
  if (io.json) return printJson(io, toDocument(model, declared, isApplied))
  tell(model, declared, io)
  io.stdout(toClosing(model, hasServer))
}

/** Has a model of a file served by a server that is about to start, unless it is already. Returns its slug. */
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
      `A server runs on ${io.dataFolder} already. Add the model to it: tollgate models add ${path}`,
    )
  const beside = await loadBeside(catalogFile, io)
  requireDevice(beside, null)
  const declared = await declare(model, beside, io)
  if (!io.json) tell(model, declared, io)
  return model.served.slug
}

/** What a server would begin with. */
interface Beside {
  parsed: ParsedCatalog
  /** Of the files of models. */
  before: DeclaredThere[]
}

/** Throws where a server could not begin with it. */
async function loadBeside(file: string | undefined, { dataFolder, cwd, environment }: Context): Promise<Beside> {
  const source = await loadSource({ file, dataFolder, cwd })
  return { parsed: await parseSource(source, environment), before: await readModelFiles(source.modelFiles) }
}

/** Returns what models may take of the memory of a device, in bytes; null where nobody has said. Throws where there is none of that name. */
function requireDevice({ parsed: { memory } }: Beside, device: string | null): number | null {
  const problem = explainDevice(memory, device)
  if (problem !== null) throw usageError(`--device ${problem}`)
  return device === null ? null : (memory.get(device) ?? null)
}

interface Declared {
  file: ModelFile
  /** What whoever adds it should know. */
  notes: string[]
}

/** Writes the file of a model, so that the next start of a server has it. Throws where what there is leaves it no place. */
async function declare(model: LocalModel, { parsed, before }: Beside, io: Context): Promise<Declared> {
  const { dataFolder } = io
  const file = toModelFile(dataFolder, model.served)
  const { slug } = model.served
  const there = before.find(({ models }) => models.includes(slug))
  if (there || existsSync(file.path)) throw toTaken(slug, there?.file.name ?? file.name)
  // A start would refuse two of one name.
  requireFree(parsed.catalog, model)
  await parseModelFiles({ modelFiles: [file] }, io.environment)
  const crowded = parsed.memory.size > 0 ? null : toCrowdedNote([...before, ...(await readModelFiles([file]))])
  prepareDataFolder(dataFolder)
  writeModelFile(file)
  giveToOwner(dataFolder, [dirname(file.path), file.path])
  return { file, notes: [...model.notes, ...(crowded === null ? [] : [crowded])] }
}

/** Without a limit all that are asked for are loaded at once. */
function toCrowdedNote(all: readonly DeclaredThere[]): string | null {
  const planned = all.reduce((sum, { plannedBytes }) => sum + plannedBytes, 0)
  if (all.length < 2 || planned <= totalmem()) return null
  return `All ${all.length} models of models.d are planned to take ${toGibibytes(planned)}, and this machine has ${toGibibytes(totalmem())}: a line memory: ${Math.max(1, Math.floor(totalmem() / 2 ** 30) - 2)}G at the top of one of those files has no more loaded at a time than fit.`
}

interface Taken {
  models: readonly { slug: string }[]
  aliases: readonly { alias: string }[]
  upstreams: readonly { id: string }[]
}

function requireFree({ models, aliases, upstreams }: Taken, { served: { slug, upstream } }: LocalModel): void {
  if (models.some((row) => row.slug === slug) || aliases.some(({ alias }) => alias === slug))
    throw toTaken(slug, 'the catalogue')
  if (upstreams.some(({ id }) => id === upstream))
    throw new CommandError(
      'upstream_exists',
      `There is an upstream ${upstream} already, and this model's would be called so, too: choose another name with --name.`,
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
    `There is a model ${slug} already (${toPrintable(where)}). Choose another name (tollgate models add FILE --name local/other), or remove that one: tollgate models remove ${slug}`,
  )

/** Carries it into the database, from where a running server takes it. */
async function apply(file: ModelFile, io: Context): Promise<void> {
  try {
    const { catalog } = await parseModelFiles({ modelFiles: [file] }, io.environment)
    // No digest of all that there is: the next start looks itself.
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

/** What was found, and how it is going to be served. */
function tell(
  { files, served, context, estimate, memoryBytes, engine }: LocalModel,
  { file, notes }: Declared,
  io: Context,
): void {
  const { facts, parts, bytes, projector } = files
  const kind = [facts.architecture, facts.quantization, toGibibytes(bytes), parts > 1 ? `${parts} files` : null]
  const trained = facts.contextLength === null ? '' : `; it was trained for ${facts.contextLength}`
  const { weights, cache, compute } = estimate
  const lines: [string, string][] = [
    ['found', `${served.name}: ${kind.filter((one) => one !== null).join(', ')}`],
    ['context', `${context} tokens a request, ${served.slots} at a time${trained}`],
    [
      'memory',
      `${toGibibytes(memoryBytes)} planned${served.device === null ? '' : ` of ${served.device}`}; estimated: weights ${toGibibytes(weights)}, contexts ${toGibibytes(cache)}, computing ${toGibibytes(compute)}`,
    ],
    ['reads', served.inputModalities.join(', ')],
    ['can', served.features.join(', ') || served.outputModalities.join(', ')],
    ...(projector === null ? [] : [['mmproj', projector.path] satisfies [string, string]]),
    ['engine', engine],
    ['file', file.path],
  ]
  io.stdout(toFactLines(`${served.slug}`, lines))
  for (const note of notes) io.stderr(`note: ${toPrintable(note)}\n`)
}

function toClosing({ served: { slug }, files }: LocalModel, hasServer: boolean): string {
  const ask =
    files.facts.kind === 'embeddings' ? `POST /v1/embeddings with ${slug}` : `tollgate ask --model ${slug} Hello`
  return hasServer ? `It starts with the first request: ${ask}\n` : `Start the server (tollgate serve), then: ${ask}\n`
}

/** A running server ends its answers, and then its process, within moments. */
export async function remove(slug: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const { modelFiles } = await loadSource({ dataFolder: io.dataFolder, cwd: io.cwd })
  const found = (await readModelFiles(modelFiles)).find(({ models }) => models.includes(slug)) ?? null
  if (found !== null) requireAlone(found)
  const edited = await deleteRows(slug, found, plan, io)
  // Else the next start would bring it back.
  if (found !== null && !plan) removeModelFile(found.file)
  const path = found?.file.path ?? null
  if (found === null && !plan)
    io.stderr(
      'note: no file of models.d declares it. Where a catalogue does, the next start of a server brings it back.\n',
    )
  if (io.json) return printJson(io, { planned: plan, model: slug, path, ...edited })
  if (edited) io.stdout(toWriteLines(edited, io.paint))
  const files = path === null ? '' : ` ${path} ${plan ? 'would be' : 'is'} deleted; the model's own file stays.`
  io.stdout(plan ? `Nothing is changed yet.${files}\n` : `${toPrintable(slug)} is gone.${files}\n`)
}

function requireAlone({ file, models }: DeclaredThere): void {
  if (models.length > 1)
    throw new CommandError('declared_elsewhere', `${file.path} declares other models, too: take it away there by hand.`)
}

/** Null where no server was ever started on the file. */
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
