/** Files and batches of keys: each key sees only its own. Limited per key, and by disk space. */
import {
  type BatchEndpoint,
  type FilePurpose,
  KEEP_S,
  NO_BATCH_USAGE,
  type StoredBatch,
  type StoredFile,
  WINDOW_MS,
} from '../domain/batches.ts'
import { GatewayError } from '../domain/error.ts'
import { mintId } from '../domain/id.ts'
import type { Key } from '../domain/snapshot.ts'
import { DAY_MS } from '../domain/time.ts'
import type { BatchQuery, FileQuery } from '../store/batch-store.ts'
import { isDiskFull } from '../store/refusal.ts'
import { BatchRun, type RunDeps } from './batch-run.ts'
import { type Content, type Part, storageFull } from './contents.ts'
import { toLogName } from './progress.ts'

const MIB = 1024 ** 2
/** Per key. */
const MAX_KEY_BYTES = 1024 * MIB
const MAX_KEY_FILES = 1_000
const MAX_KEY_BATCHES = 20
const MAX_KEY_UPLOADS = 4
/** For all keys. */
const MAX_UPLOADS = 16
const MAX_KEPT_BATCHES = 10_000
/** For all keys. */
const MAX_BYTES = 16 * 1024 * MIB
const LOOK_MS = 1_000
const SWEEP_MS = 60_000
const SWEPT = 100

export interface BatchesDeps extends Omit<RunDeps, 'now'> {
  /** Resolves once no earlier server of this data folder has requests in flight. */
  untilAlone(): Promise<void>
  /** Wall clock, ms. */
  now(): number
}

export interface NewBatch {
  api: StoredBatch['api']
  endpoint: BatchEndpoint
  inputFileId: string
  metadata: StoredBatch['detail']['metadata']
  /** Seconds. */
  keepOutputS: number | null
  /** If already known. */
  lines?: number
}

export type Batches = ReturnType<typeof createBatches>

export function createBatches(deps: BatchesDeps) {
  const { store, contents, log, now } = deps
  const runs = new Map<string, BatchRun>()
  const running = new Set<Promise<void>>()
  /** Files without a row yet. */
  const storing = new Set<string>()
  /** In progress, by quota ID. */
  const uploads = new Map<string, number>()
  let sweptMs = Number.NEGATIVE_INFINITY
  let state: 'waiting' | 'running' | 'paused' | 'stopped' = 'waiting'

  const start = (batch: StoredBatch) => {
    if (state !== 'running' || runs.has(batch.id)) return
    const run = new BatchRun(deps, batch)
    runs.set(batch.id, run)
    const ending = run.run().finally(() => {
      runs.delete(batch.id)
      running.delete(ending)
    })
    running.add(ending)
  }
  const resume = () => {
    if (state === 'stopped') return
    state = 'running'
    const active = store.activeBatches()
    removeOrphans(active)
    for (const batch of active) start(batch)
  }
  /** Removes contents without a row, of uploads and batches that a kill interrupted. */
  const removeOrphans = (active: readonly StoredBatch[]) => {
    const used = new Set(active.flatMap(({ id, detail }) => [toLogName(id), detail.outputFileId, detail.errorFileId]))
    for (const name of contents.names())
      if (!used.has(name) && !storing.has(name.replace(/\.part$/, '')) && !store.hasFile(name)) contents.remove(name)
  }
  const look = () => {
    for (const run of runs.values()) run.look()
    if (state !== 'running' || now() < sweptMs + SWEEP_MS) return
    sweptMs = now()
    void sweep()
  }
  const sweep = async () => {
    try {
      const inputs = new Set(store.activeBatches().map(({ inputFileId }) => inputFileId))
      for (const { id } of store.endedFiles(now(), SWEPT)) if (!inputs.has(id)) await removeFile(id)
      await store.removeBatches(now() - KEEP_S * 1_000 - DAY_MS)
    } catch (error) {
      log.warn('batch_failed', "can't remove expired files of batches; trying again", { error: String(error) })
    }
  }
  const removeFile = async (id: string) => {
    await store.removeFile(id)
    contents.remove(id)
  }
  const timer = setInterval(look, LOOK_MS).unref()

  const findFile = (key: Key, id: string, param = 'id'): StoredFile => {
    const file = store.file(id)
    if (file === null || file.keyId !== key.id || file.purpose === 'hidden') throw noFile(id, param)
    return file
  }
  const pathOf = (id: string): string => {
    if (!contents.exists(id)) throw noFile(id)
    return contents.path(id)
  }
  const findBatch = (key: Key, api: StoredBatch['api'], id: string): StoredBatch => {
    const batch = runs.get(id)?.current ?? store.batch(id)
    if (batch === null || batch.keyId !== key.id || batch.api !== api) throw noBatch(id)
    return batch
  }

  return {
    /** Call once the server listens. */
    begin() {
      void deps.untilAlone().then(resume)
    },
    /** Another server takes over the data folder. Lines in flight end here. */
    async pause() {
      if (state === 'running') state = 'paused'
      for (const run of runs.values()) run.end('stopped')
    },
    resume() {
      if (state === 'paused') void Promise.all(running).then(resume)
    },
    /** Lines in flight end with the requests of the server. */
    async stop() {
      state = 'stopped'
      clearInterval(timer)
      for (const run of runs.values()) run.end('stopped')
      await Promise.all(running)
    },

    /** Throws before the upload is read. */
    requireRoom(key: Key, bytes: number) {
      const held = store.held(key.id)
      if (held.files >= MAX_KEY_FILES)
        throw tooMany(`This API key has ${held.files} files (limit). Delete some, and try again.`)
      if (held.bytes + bytes > MAX_KEY_BYTES)
        throw tooMany(
          `The files of this API key would exceed ${MAX_KEY_BYTES / MIB} MiB (limit). Delete some, and try again.`,
        )
      if (!contents.hasSpace(bytes) || store.totalBytes() + bytes > MAX_BYTES) throw storageFull()
    },
    /** Reserves space for an upload until disposed. Throws if there are too many. */
    async beginUpload(key: Key, bytes: number): Promise<Part> {
      this.requireRoom(key, bytes)
      const own = uploads.get(key.quotaId) ?? 0
      const all = [...uploads.values()].reduce((sum, count) => sum + count, 0)
      if (own >= MAX_KEY_UPLOADS || all >= MAX_UPLOADS) throw tooManyUploads()
      const id = mintId(now())
      uploads.set(key.quotaId, own + 1)
      storing.add(id)
      const leave = () => {
        storing.delete(id)
        const left = (uploads.get(key.quotaId) ?? 1) - 1
        if (left > 0) uploads.set(key.quotaId, left)
        else uploads.delete(key.quotaId)
      }
      try {
        const part = await contents.openPart(id)
        return {
          ...part,
          async [Symbol.asyncDispose]() {
            leave()
            await part[Symbol.asyncDispose]()
          },
        }
      } catch (error) {
        leave()
        throw isDiskFull(error) ? storageFull(error) : error
      }
    },
    async addFile(key: Key, content: Content, about: { filename: string; purpose: FilePurpose; keepS: number | null }) {
      this.requireRoom(key, content.length)
      const createdMs = now()
      const { filename, purpose, keepS } = about
      const file: StoredFile = {
        ...{ id: `file-${mintId(createdMs)}`, keyId: key.id, purpose, filename, bytes: content.length, createdMs },
        expiresMs: createdMs + (keepS ?? KEEP_S) * 1_000,
      }
      storing.add(file.id)
      try {
        await contents.put(file.id, content)
        await store.addFile(file)
      } catch (error) {
        contents.remove(file.id)
        throw isDiskFull(error) ? storageFull(error) : error
      } finally {
        storing.delete(file.id)
      }
      return file
    },
    file: findFile,
    files: (query: FileQuery) => store.files(query),
    /** Throws if the contents are missing. */
    contentOf: (key: Key, id: string): string => pathOf(findFile(key, id).id),
    /** Of an ended batch. Throws if any file is missing. */
    resultsOf({ detail: { hasOutput, hasErrors, outputFileId, errorFileId } }: StoredBatch): string[] {
      return [...(hasOutput ? [outputFileId] : []), ...(hasErrors ? [errorFileId] : [])].map(pathOf)
    },
    async deleteFile(key: Key, id: string) {
      const file = findFile(key, id)
      const user = store.activeBatches().find(({ inputFileId }) => inputFileId === file.id)
      if (user)
        throw new GatewayError(
          'invalid_request',
          `The file is the input of ${user.id}, which is in progress. Cancel that first.`,
        )
      await removeFile(file.id)
    },

    async create(
      key: Key,
      { api, endpoint, inputFileId, metadata, keepOutputS, lines = 0 }: NewBatch,
    ): Promise<StoredBatch> {
      const { batches, kept } = store.held(key.id)
      if (kept >= MAX_KEPT_BATCHES) throw tooMany(`This API key created ${kept} batches in 30 days (limit).`)
      if (batches >= MAX_KEY_BATCHES)
        throw tooMany(
          `This API key has ${batches} batches in progress (limit). Wait until one has ended, and try again.`,
        )
      // Its results need disk space, too.
      this.requireRoom(key, 0)
      const createdMs = now()
      const id = mintId(createdMs)
      const batch: StoredBatch = {
        ...{ id: `${api === 'openai' ? 'batch_' : 'msgbatch_'}${id}`, keyId: key.id, api, endpoint, inputFileId },
        ...{ state: 'validating', createdMs, expiresMs: createdMs + WINDOW_MS },
        detail: {
          ...{ outputFileId: `file-${mintId(createdMs)}`, errorFileId: `file-${mintId(createdMs)}` },
          ...{ hasOutput: false, hasErrors: false, keepOutputS: keepOutputS ?? KEEP_S, metadata, model: null },
          ...{ at: {}, counts: { total: lines, completed: 0, failed: 0, cut: 0 }, usage: NO_BATCH_USAGE, problems: [] },
          remote: null,
        },
      }
      try {
        await store.putBatch(batch)
      } catch (error) {
        throw isDiskFull(error) ? storageFull(error) : error
      }
      log.info('batch_created', 'batch created', { batch: batch.id, key: key.id, endpoint })
      start(batch)
      return batch
    },
    batch(key: Key, api: StoredBatch['api'], id: string): StoredBatch {
      const batch = findBatch(key, api, id)
      runs.get(id)?.runner?.look?.(id)
      return batch
    },
    batches: (query: BatchQuery) => store.batches(query).map((batch) => runs.get(batch.id)?.current ?? batch),
    async cancel(key: Key, api: StoredBatch['api'], id: string): Promise<StoredBatch> {
      const batch = findBatch(key, api, id)
      const run = runs.get(id)
      if (run) await run.cancel()
      else if (batch.state === 'validating' || batch.state === 'in_progress')
        await store.putBatch({
          ...batch,
          state: 'cancelling',
          detail: { ...batch.detail, at: { ...batch.detail.at, cancelling: now() } },
        })
      return findBatch(key, api, id)
    },
    /** Deletes an ended batch with its files. */
    async deleteBatch(batch: StoredBatch) {
      const { outputFileId, errorFileId } = batch.detail
      for (const id of [batch.inputFileId, outputFileId, errorFileId]) await removeFile(id)
      await store.removeBatch(batch.id)
    },
    counts() {
      return { active: runs.size }
    },
  }
}

const tooMany = (message: string) =>
  new GatewayError('request_limit', message, { headers: { 'x-should-retry': 'false' } })

const tooManyUploads = () => new GatewayError('over_share', 'Too many files are being uploaded. Try again in a second.')

const notFound = (message: string, param = 'id') => new GatewayError('invalid_request', message, { status: 404, param })

const noFile = (id: string, param?: string) => notFound(`No such File object: ${id.slice(0, 100)}`, param)

const noBatch = (id: string) => notFound(`No batch found with id '${id.slice(0, 100)}'.`)
