/**
 * The catalog of a running server: applied at start if it differs, on reload, and, if watched, when its file or a model
 * file changes.
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

export interface ServedCatalog {
  /** Its path, or `built-in catalog.yaml`. */
  label: string
  /** After `prepare`: whether no catalog was applied before. */
  isFirst(): boolean
  /** Throws a ServiceError that names all problems, unless it was applied last. */
  check(settings: Settings): Promise<void>
  /** Applies it unless it was applied last. Throws a ServiceError that names all problems. */
  prepare(store: ConfigStore, settings: Settings): Promise<void>
  loadProcesses(): Promise<ProcessSpecs>
  /** Applies it again; logs a failure, then throws. Returns what needs a restart. */
  reload(server: Server): Promise<NeedsRestart>
  watch(server: Server): Disposable
}

const WATCH_MS = 1_000

interface ServedOptions {
  file: string | undefined
  /** Settings read from rows: not set by flag or variable. */
  fromRows: readonly string[]
  log: Log
}

export async function createServedCatalog(io: Context, { file, fromRows, log }: ServedOptions): Promise<ServedCatalog> {
  const { dataFolder, cwd } = io
  const modelsFolder = toModelsFolder({ dataFolder, cwd })
  let serving: Server | null = null
  // Start watching before reading, so no change is missed.
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
      log.info('config_applied', 'catalog changed; applied', { catalog: path ?? modelsFolder })
    },
    onTrouble(error) {
      const what = 'catalog changed but was not applied; nothing was changed'
      log.error('config_rejected', what, { error: String(error) })
    },
    onGone: (path) => log.warn('config_rejected', 'catalog file is missing; its entries are kept', { path }),
  })
  const source = await loadSource({ file, dataFolder, cwd })
  let atStart: Settings = {}
  let told: ReadonlySet<string> = new Set()

  return {
    label: toLabel(source),
    isFirst: () => atStart[APPLIED_DIGEST] === undefined,
    async check(settings) {
      if (isApplied(settings, toDigest(source, version()))) return
      await (await import('../../catalog/file.ts')).parseSource(source, io.environment)
    },
    async prepare(store, settings) {
      atStart = settings
      // Parsing takes as long as the rest of the start.
      if (!isApplied(settings, toDigest(source, version()))) await apply(source, store, io, log)
    },
    async loadProcesses() {
      const { loadProcesses } = await import('../../catalog/model-files.ts')
      const { specs, ignored } = await loadProcesses(await loadSource({ file, dataFolder, cwd }), file !== undefined)
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
        log.error('config_rejected', 'reload failed; nothing was changed', { error: String(error) })
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

/** Returns whether anything changed. Throws a ServiceError that names all problems. */
async function apply(source: CatalogSource, store: ConfigStore, io: Context, log: Log): Promise<boolean> {
  // Loaded late: most starts find the catalog applied and need no YAML parser.
  const { parseSource } = await import('../../catalog/file.ts')
  // Other warnings are dropped: the server logs missing credentials per upstream.
  const { catalog, renamed } = await parseSource(source, io.environment)
  for (const warning of renamed) log.warn('catalog_deprecated', warning)
  // Without a catalog its entries stay, but models whose files are gone are removed.
  const prune = source.text === null ? 'managed' : true
  const options = toApplyOptions(source, version(), { actor: 'server', nowMs: io.nowMs(), prune })
  const { overridden, version: made } = await applyCatalog(store, catalog, options).catch((error) => {
    // If the original file is missing, serve what it declared.
    if (error instanceof ServiceError && error.failure.kind === 'catalog_missing')
      return applyCatalog(store, EMPTY, { ...options, origin: 'file', prune: 'managed' })
    throw error
  })
  if (overridden.length > 0)
    log.info('catalog_overridden', 'catalog entry overridden by manual change', {
      names: overridden.map(({ name }) => name).join(', '),
    })
  return made !== null
}

/** Variables that upstreams reference and this process lacks. */
function listUnset(server: Server): string[] {
  const all = [...server.snapshot().upstreams.values()].flatMap(({ credentials }) => credentials)
  const lacking = all.filter(({ from, problem }) => from === 'variable' && problem !== null)
  return [...new Set(lacking.flatMap(({ name }) => name ?? []))]
}

function logNeeds({ settings, variables }: NeedsRestart, log: Log): void {
  if (settings.length + variables.length === 0) return
  const what = 'some changes take effect after a restart'
  log.warn('restart_needed', what, { settings: settings.join(' '), variables: variables.join(' ') })
}
