/**
 * Runs the server until a signal ends it: applies the catalogue, makes a first key where there is none, says how to
 * reach it, reloads on SIGHUP, drains on SIGTERM and SIGINT. On an empty data folder that is the whole installation.
 */
import { applyCatalog, hasRowsOf } from '../catalog/apply.ts'
import { type ParsedCatalog, parseCatalog } from '../catalog/file.ts'
import { type CatalogSource, loadSource } from '../catalog/source.ts'
import { toServeConfig } from '../config.ts'
import { createKey, listKeys } from '../keys/service.ts'
import { createLog, type Log } from '../log.ts'
import { type Server, startServer } from '../server.ts'
import type { Store } from '../store/open.ts'
import { type Io, printJson } from './io.ts'
import { version } from './version.ts'

export interface RunOptions {
  flags: Readonly<Record<string, string | undefined>>
  dataFolder: string
  catalogFile: string | undefined
  wantsFirstKey: boolean
  json: boolean
}

type LoadedCatalog = ParsedCatalog & { source: CatalogSource }

/** Resolves once the server has stopped in good order. Throws a CommandError where it cannot start. */
export async function runServer(io: Io, options: RunOptions): Promise<void> {
  const { dataFolder } = options
  const { environment, nowMs: now } = io
  const configure = (settings: Readonly<Record<string, string>>) =>
    toServeConfig({ flags: options.flags, environment, settings })
  // Wrong words are told before anything is touched.
  configure({})
  const log = createLog({ now })
  surviveSurprises(log)
  const catalog = await loadCatalog(io, options, log)
  let firstKey: string | null = null

  const server = await startServer({
    dataFolder,
    environment,
    log,
    now,
    configure,
    prepare(store) {
      apply(store, catalog, now(), log)
      if (options.wantsFirstKey && listKeys(store, now()).length === 0) {
        firstKey = createKey(store, { name: 'first key' }, { actor: 'server', nowMs: now() }).secret
      }
    },
  })
  log.info('serving', {
    version: version(),
    url: server.baseUrl,
    data: dataFolder,
    catalog: catalog.source.path ?? catalog.source.name,
  })
  if (options.json) printJson(io, { base_url: server.baseUrl, data: dataFolder, key: firstKey })
  else io.stdout(toWelcome(server.baseUrl, dataFolder, catalog.source, firstKey))

  process.on('SIGHUP', () => void reload(server, io, options, log))
  await untilStopped(server, log)
}

/** A bug in one request must not end the others: it is logged, and the process lives on (platform-notes 2.2). */
function surviveSurprises(log: Log): void {
  for (const event of ['unhandledRejection', 'uncaughtException'] as const) {
    process.on(event, (error: unknown) => {
      log.error('something was thrown that nobody caught; please report it', {
        error: error instanceof Error ? (error.stack ?? error.message) : String(error),
      })
    })
  }
}

async function loadCatalog(io: Io, { catalogFile, dataFolder }: RunOptions, log: Log): Promise<LoadedCatalog> {
  const source = await loadSource({ file: catalogFile, dataFolder, cwd: io.cwd })
  const parsed = await parseCatalog(source.text, { name: source.name, environment: io.environment })
  for (const warning of parsed.warnings) log.warn('the catalogue has something to look at', { warning })
  return { ...parsed, source }
}

function apply(store: Store, { catalog, source }: LoadedCatalog, nowMs: number, log: Log): void {
  // The built-in catalogue stands in for a file; it never comes back beside what a file has declared.
  if (source.origin === 'builtin' && hasRowsOf(store, 'file')) return
  const subject = source.path ?? source.name
  const { conflicts } = applyCatalog(store, catalog, { origin: source.origin, actor: 'server', subject, nowMs })
  for (const conflict of conflicts) log.warn('the catalogue gives way to an administrator', { conflict })
}

async function reload(server: Server, io: Io, options: RunOptions, log: Log): Promise<void> {
  try {
    const catalog = await loadCatalog(io, options, log)
    server.reload((store) => apply(store, catalog, io.nowMs(), log))
    log.info('reloaded', { catalog: catalog.source.path ?? catalog.source.name })
  } catch (error) {
    log.error('the reload failed; everything stays as it was', { error: String(error) })
  }
}

/** Drains on the first SIGTERM or SIGINT; a second one ends the process at once. */
function untilStopped(server: Server, log: Log): Promise<void> {
  return new Promise((resolve, reject) => {
    let stopping = false
    const stop = (signal: string) => {
      if (stopping) process.exit(1)
      stopping = true
      log.info('stopping', { signal })
      server.stop().then(() => resolve(), reject)
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}

function toWelcome(baseUrl: string, dataFolder: string, source: CatalogSource, firstKey: string | null): string {
  const lines = [
    `Tollgate ${version()} serves ${baseUrl}`,
    `  data       ${dataFolder}`,
    `  catalogue  ${source.path ?? source.name}`,
    '',
  ]
  if (firstKey) lines.push('Your first key. Keep it now; it is not shown again:', '', firstKey, '')
  else lines.push('Make a key with: tollgate keys create --name NAME', '')
  lines.push(
    'Try it:',
    '',
    `curl ${baseUrl}/chat/completions -H "Authorization: Bearer ${firstKey ?? '$TOLLGATE_KEY'}" -H "Content-Type: application/json" -d '{"model":"tollgate/demo","stream":true,"messages":[{"role":"user","content":"Hello"}]}'`,
    '',
  )
  return `${lines.join('\n')}\n`
}
