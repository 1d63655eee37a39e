/** Runs the server until a signal ends it: catalog, first key, reload on SIGHUP, drain on SIGTERM and SIGINT. */

import { realpathSync } from 'node:fs'
import type { MakeBackup } from '../../backup/backup-list.ts'
import { findJoined } from '../../cluster/url.ts'
import { FETCHES, type ServeConfig, type SettingText, toServeConfig, toSettingTexts } from '../../config.ts'
import { isBuiltIn } from '../../domain/dialects.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { toOidcSettings } from '../../identity/oidc.ts'
import { createFirstKey } from '../../keys/service.ts'
import { createLog, type Log, type LogLevel, traceOf } from '../../log.ts'
import { listenAt } from '../../server/network.ts'
import { findLocalServers } from '../../server/outward/questions.ts'
import { type Server, startServer } from '../../server/server.ts'
import type { Settings } from '../../store/config-store.ts'
import { storeOf } from '../../store/open.ts'
import { type Context, printJson, version } from '../io.ts'
import { createServedCatalog, type ServedCatalog } from './catalog.ts'
import { createRestarter, findEarlierServer, type Restarter } from './successor.ts'
import { type Started, toSelf, toThisVersion, toWelcome } from './welcome.ts'

export type Flags = Readonly<Record<string, string | undefined>>

interface RunOptions {
  flags: Flags
  catalogFile: string | undefined
  wantsFirstKey: boolean
  /** The model to try first; null = any. */
  model: string | null
}

const STOPPING = 'Finishing in-flight requests. Press Ctrl-C again to stop now.\n'

/** Adds the cluster that `tollgate cluster join` stored in the data folder, unless a flag or variable names one. */
export function withJoined(flags: Flags, { dataFolder, environment }: Context): Flags {
  const joined = flags.cluster || environment.TOLLGATE_CLUSTER ? null : findJoined(dataFolder)
  return joined === null ? flags : { ...flags, cluster: joined }
}

/** Resolves after a graceful stop. Throws a ServiceError on a failed start. */
export async function runServer(io: Context, given: RunOptions): Promise<void> {
  const { dataFolder, environment, nowMs: now } = io
  const options = { ...given, flags: withJoined(given.flags, io) }
  const isWatched = io.isTerminal(2)
  const log = createLog({ now })
  let isQuiet = isWatched
  let isCatalogWatched = false
  let isDiscovering = false
  const configure = (settings: Readonly<Record<string, string>>) => {
    const config = toServeConfig({ flags: options.flags, environment, settings })
    const level = toLogLevel(config, io)
    isQuiet = level !== 'info'
    log.setLevel(level)
    isCatalogWatched = config.watchCatalog
    isDiscovering = config.discover
    return config
  }
  // Files created here are private to this user.
  process.umask(0o077)
  // Report invalid settings before touching anything.
  toOidcSettings(configure({}))
  installCrashHandlers(log)
  const { flags } = options
  const isUnset = ({ place }: SettingText) => place === 'default'
  const fromRows = toSettingTexts({ flags, environment, settings: {} })
    .filter(isUnset)
    .map(({ name }) => name)
  const served = await createServedCatalog(io, { file: options.catalogFile, fromRows, log })

  const earlier = findEarlierServer(environment)
  if (earlier) await checkSuccession(io, { configure, served })
  const restarter = createRestarter({
    ...{ dataFolder, environment, cwd: io.cwd, log, earlier },
    handover: () => server.handover,
    supervisor: () => supervisor,
  })
  const commands = {
    restart: restarter.restart,
    reload: () => served.reload(server),
    // Through the signal, so there is one way to stop.
    drain: () => void process.kill(process.pid, 'SIGTERM'),
    makeBackup: createBackupMaker(io),
    startWorker: (own: Readonly<Record<string, string>>) =>
      Bun.spawn([...toThisVersion(), ...process.argv.slice(2)], {
        argv0: process.execPath,
        cwd: io.cwd,
        // Passes on the data folder, and prevents `main.ts` from executing itself again.
        env: { ...environment, TOLLGATE_DATA: dataFolder, [FETCHES.variable]: String(FETCHES.raised), ...own },
        stdio: ['ignore', 'inherit', 'inherit'],
      }),
  }
  const server: Server = await startServer({
    dataFolder,
    environment,
    version: version(),
    log,
    now,
    configure,
    settingTexts: (settings) => toSettingTexts({ flags: options.flags, environment, settings }),
    commands,
    succeed: earlier?.succeed ?? null,
    prepare: served.prepare,
    loadProcesses: served.loadProcesses,
  }).catch(async (error) => {
    await log.flush()
    throw storeOf(dataFolder).explain(error)
  })
  const supervisor = environment.NOTIFY_SOCKET
    ? await (await import('../../server/supervisor.ts')).connectSupervisor(environment)
    : null
  await earlier?.serving(server.baseUrl, version(), server.listeners)
  void earlier?.gone.then(server.endSuccession)
  const stopped = untilStopped(server, log, restarter, () => {
    supervisor?.stopping()
    if (isWatched && isQuiet) io.stderr(STOPPING)
  })
  using _ = isCatalogWatched ? served.watch(server) : null
  process.on('SIGHUP', () => void commands.reload().catch(() => {}))
  supervisor?.ready()
  const firstKey = options.wantsFirstKey ? await makeFirstKey(server, now(), log) : null
  const { baseUrl } = server
  const catalog = served.label
  // `main.ts` raised it for the start.
  Bun.unsafe.setJITPolicy(1)
  log.info('server_started', 'server started', { version: version(), url: baseUrl, data: dataFolder, catalog })
  if (io.json) printJson(io, { base_url: baseUrl, data: dataFolder, key: firstKey })
  else {
    const { warnings, dashboardUrl } = server
    // Other output may end up in a log.
    const setupCode = dashboardUrl !== null && io.isTerminal(1) ? await server.setupCode().catch(() => null) : null
    const { model } = options
    const shown = { baseUrl, dashboardUrl, setupCode, dataFolder, catalog, warnings, firstKey, isQuiet, model }
    io.stdout(toWelcome({ ...shown, snapshot: server.snapshot(), started: toStarted(io) }))
  }

  if (isDiscovering && served.isFirst() && !hasOwnUpstreams(server)) void addLocalServers(io, log)

  await stopped
}

/** On a terminal, one line per request would be noise. */
export const toLogLevel = ({ logLevel }: ServeConfig, { isTerminal }: Pick<Context, 'isTerminal'>): LogLevel =>
  logLevel ?? (isTerminal(2) ? 'warn' : 'info')

/** What can be checked while the earlier server serves. Throws a ServiceError. */
async function checkSuccession(
  { dataFolder }: Context,
  { configure, served }: { configure(settings: Settings): ServeConfig; served: ServedCatalog },
): Promise<void> {
  const store = storeOf(dataFolder).open({ readonly: true })
  try {
    const settings = await store.config.readSettings()
    const { host: hostname, port } = configure(settings)
    await served.check(settings)
    // New connections stay with the earlier server.
    await listenAt({ hostname, port }, () =>
      Bun.serve({ hostname, port, reusePort: true, fetch: () => new Response() }).stop(true),
    )
  } catch (error) {
    if (error instanceof ServiceError && error.failure.kind === 'schema_outdated')
      throw new ServiceError(
        { kind: 'restart_failed' },
        'This version must migrate the database, which the running server uses. Stop the server, then start it.',
      )
    throw error
  } finally {
    store.close()
  }
}

/** The admin API loads only if needed. */
async function addLocalServers(io: Context, log: Log): Promise<void> {
  const found = await findLocalServers()
  if (found.length > 0) await (await import('../upstreams/add.ts')).enableAtStart(io, log)
}

/** Besides the built-in demo. */
const hasOwnUpstreams = (server: Server) =>
  [...server.snapshot().upstreams.values()].some((upstream) => !isBuiltIn(upstream))

/** A bug in one request must not end the others. */
export function installCrashHandlers(log: Log): void {
  for (const event of ['unhandledRejection', 'uncaughtException'] as const) {
    process.on(event, (error: unknown) => {
      log.error('internal_error', 'unexpected error; please report it', { error: traceOf(error) })
    })
  }
}

/** Under `bun start` Ctrl-C arrives twice: from terminal and script runner. */
const SAME_PRESS_MS = 200

/** The first SIGTERM or SIGINT drains; the second ends the process. */
function untilStopped(server: Server, log: Log, restarter: Restarter, onStop: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    let stoppedMs: number | null = null
    const end = () => void server.stop().then(() => resolve(), reject)
    void restarter.left.then(end)
    const stop = (signal: string) => {
      const nowMs = performance.now()
      if (signal === 'SIGINT' && stoppedMs !== null && nowMs - stoppedMs < SAME_PRESS_MS) return
      if (stoppedMs !== null) process.exit(1)
      stoppedMs = nowMs
      log.info('server_stopping', 'stopping', { signal })
      // Its requests are already being finished.
      if (restarter.hasLeft()) return
      restarter.cancel()
      onStop()
      end()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}

/** Called only if someone is sure to see the key. */
async function makeFirstKey(server: Server, nowMs: number, log: Log): Promise<string | null> {
  let secret: string | null = null
  try {
    await server.reload(async (store) => {
      secret = await createFirstKey(store, { name: 'first key' }, { actor: 'server', nowMs })
    })
  } catch (error) {
    log.warn('first_key_failed', 'could not create the first key; create one with: tollgate keys create', {
      error: String(error),
    })
  }
  return secret
}

function toStarted({ cwd, environment }: Context): Started {
  const which = (name: string) => {
    const found = Bun.which(name, { PATH: environment.PATH ?? '' })
    return found && realpathSync(found)
  }
  return { execPath: realpathSync(process.execPath), main: Bun.main, cwd, environment, which }
}

function createBackupMaker({ dataFolder, environment, cwd }: Context): MakeBackup {
  return async (file, signal) => {
    const child = Bun.spawn([...toSelf(), 'backup', file, '--data', dataFolder, '--json'], {
      cwd,
      env: environment,
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
      signal,
      killSignal: 'SIGKILL',
    })
    const said = await child.stderr.text()
    const code = await child.exited
    return code === 0 ? null : toMessage(said, code)
  }
}

function toMessage(said: string, code: number): string {
  try {
    const document: { error?: { message?: unknown } } = JSON.parse(said)
    if (typeof document.error?.message === 'string') return document.error.message
  } catch {
    // Not JSON: use the raw text.
  }
  return said.trim() || `tollgate backup exited with ${code}`
}
