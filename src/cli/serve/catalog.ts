/**
 * The catalogue of a running server: applied at its start where it is not yet, again when somebody asks for it, and when its file or
 * a file of models changes where that is watched. Whatever cannot be applied leaves everything as it was. Made by `run-server.ts`.
 */
import { APPLIED_DIGEST, applyCatalog, isApplied, toApplyOptions, toDigest } from '../../catalog/apply.ts'
import type { Catalog } from '../../catalog/complete.ts'
import { type CatalogSource, listPlaces, loadSource, toModelsFolder, watchCatalog } from '../../catalog/source.ts'
import type { ProcessSpecs } from '../../domain/model-server.ts'
import { ServiceError } from '../../domain/service-error.ts'
import type { Log } from '../../log.ts'
import type { NeedsRestart } from '../../server/owner-socket.ts'
import type { Server } from '../../server/server.ts'
import type { ConfigStore, Settings } from '../../store/config-store.ts'
import { type Context, version } from '../io.ts'

interface ServedCatalog {
  /** Its path, or `built-in catalog.yaml`. */
  label: string
  /** Whether none was ever applied before, once this one is: the installation was empty. */
  isFirst(): boolean
  /** Applies it where it is not the one that was applied last. Throws a ServiceError that names all that is wrong with it. */
  prepare(store: ConfigStore, settings: Settings): Promise<void>
  /** Reads the commands of model servers that count. */
  loadProcesses(): Promise<ProcessSpecs>
  /** Applies it again. Where that fails it has said so in the log, and throws. Says what only a restart would change. */
  reload(server: Server): Promise<NeedsRestart>
  /** Applies it whenever its file, or one of models, has changed, until that is disposed of. */
  watch(server: Server): Disposable
}

const WATCH_MS = 1_000

interface ServedOptions {
  /** The one that was named. */
  file: string | undefined
  /** The settings of the server whose rows count: no flag and no variable has them. */
  fromRows: readonly string[]
  log: Log
}

export async function createServedCatalog(io: Context, { file, fromRows, log }: ServedOptions): Promise<ServedCatalog> {
  const { dataFolder, cwd } = io
  const modelsFolder = toModelsFolder({ dataFolder, cwd })
  let serving: Server | null = null
  // Looked at before it is read, so that no change falls in between.
  const watching = await watchCatalog({
    places: listPlaces({ file, dataFolder, cwd }),
    modelsFolder,
    async apply(path) {
      const from = await loadSource({ file: path ?? file, dataFolder, cwd })
      let isChanged = false
      await serving?.reload(async (store) => {
        isChanged = await apply(from, store, io, log)
      })
      return isChanged
    },
    onApplied(path) {
      log.info('config_applied', 'the catalogue has changed, and is applied', { catalog: path ?? modelsFolder })
    },
    onTrouble(error) {
      const what = 'the catalogue has changed and could not be applied; everything stays as it was'
      log.error('config_rejected', what, { error: String(error) })
    },
    onGone: (path) => log.warn('config_rejected', 'the catalogue is gone; all that it has declared stays', { path }),
  })
  const source = await loadSource({ file, dataFolder, cwd })
  let atStart: Settings = {}
  let told: ReadonlySet<string> = new Set()

  return {
    label: toLabel(source),
    isFirst: () => atStart[APPLIED_DIGEST] === undefined,
    async prepare(store, settings) {
      atStart = settings
      // Reading a catalogue takes as long as the rest of the start: one that is applied already is left alone.
      if (!isApplied(settings, toDigest(source, version()))) await apply(source, store, io, log)
    },
    async loadProcesses() {
      const { loadProcesses } = await import('../../catalog/model-files.ts')
      const { specs, ignored } = await loadProcesses(await loadSource({ file, dataFolder, cwd }), file !== undefined)
      // The same is not said twice.
      for (const sentence of ignored) if (!told.has(sentence)) log.warn('process_ignored', sentence)
      told = new Set(ignored)
      return specs
    },
    async reload(server) {
      try {
        const from = await loadSource({ file, dataFolder, cwd })
        let settings = atStart
        await server.reload(async (store) => {
          await apply(from, store, io, log)
          settings = await store.readSettings()
        })
        log.info('config_applied', 'reloaded', { catalog: toLabel(from) })
        const needs = {
          settings: fromRows.filter((name) => settings[name] !== atStart[name]),
          variables: listUnset(server),
        }
        logNeeds(needs, log)
        return needs
      } catch (error) {
        log.error('config_rejected', 'the reload failed; everything stays as it was', { error: String(error) })
        throw error
      }
    },
    watch(server) {
      serving = server
      const timer = setInterval(() => void watching.look(), WATCH_MS)
      return { [Symbol.dispose]: () => clearInterval(timer) }
    },
  }
}

const toLabel = (source: CatalogSource) => source.path ?? source.name

const EMPTY: Catalog = { upstreams: [], models: [], aliases: [] }

/** Returns whether anything was changed. Throws a ServiceError that names all that is wrong with the catalogue. */
async function apply(source: CatalogSource, store: ConfigStore, io: Context, log: Log): Promise<boolean> {
  // A catalogue that is applied already, as at nearly every start, needs no reader of YAML.
  const { parseSource } = await import('../../catalog/file.ts')
  // What it warns of, credentials that are missing, the server says itself of each upstream that is not ready.
  const { catalog } = await parseSource(source, io.environment)
  // Without a catalogue, what one has declared stays; a model whose file is gone goes all the same.
  const prune = source.text === null ? 'managed' : true
  const options = toApplyOptions(source, version(), { actor: 'server', nowMs: io.nowMs(), prune })
  const { overridden, version: made } = await applyCatalog(store, catalog, options).catch((error) => {
    // A server without the file that it was set up from serves by what that has declared.
    if (error instanceof ServiceError && error.failure.kind === 'catalog_missing')
      return applyCatalog(store, EMPTY, { ...options, origin: 'file', prune: 'managed' })
    throw error
  })
  if (overridden.length > 0)
    log.info('catalog_overridden', 'what was set by hand goes on to count', {
      names: overridden.map(({ name }) => name).join(', '),
    })
  return made !== null
}

/** The variables that upstreams name and this process was not started with. */
function listUnset(server: Server): string[] {
  const all = [...server.snapshot().upstreams.values()].flatMap(({ credentials }) => credentials)
  const lacking = all.filter(({ from, problem }) => from === 'variable' && problem !== null)
  return [...new Set(lacking.flatMap(({ name }) => name ?? []))]
}

function logNeeds({ settings, variables }: NeedsRestart, log: Log): void {
  if (settings.length + variables.length === 0) return
  const what = 'a server reads its settings and its environment when it starts: these hold from the next start on'
  log.warn('restart_needed', what, { settings: settings.join(' '), variables: variables.join(' ') })
}
