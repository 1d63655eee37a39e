/**
 * Both sides of `tollgate restart`: a server starts its successor as a child process, and they exchange messages. See
 * `server/handover.ts`.
 */
import { type } from 'node:os'
import { FETCHES } from '../../config.ts'
import { messageOf } from '../../domain/error.ts'
import { asObject, asText } from '../../domain/json.ts'
import { ServiceError } from '../../domain/service-error.ts'
import type { Environment } from '../../domain/snapshot.ts'
import { type Log, traceOf } from '../../log.ts'
import type { Handed, Handover } from '../../server/handover.ts'
import type { Restarted, RestartOptions } from '../../server/protocol.ts'
import type { Supervisor } from '../../server/supervisor.ts'
import { toSelf } from './welcome.ts'

/** Set for a server that succeeds another, which is its parent. */
const SUCCEEDS = 'TOLLGATE_SUCCEEDS'
/** Set by the service manager; a command started manually has other values, or none. */
const OF_MANAGER = ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'INVOCATION_ID', 'JOURNAL_STREAM']
/** Contains the ID of the process that it is for. */
const OF_PROCESS = 'WATCHDOG_PID'

/** In this order; the earlier server sends `yours` and `left`. A later version must still understand these. */
type Message =
  | { step: 'ready' }
  | ({ step: 'yours' } & Handed)
  | { step: 'serving'; url: string; version: string; listeners?: number }
  | { step: 'left' }
  | { step: 'failed'; message: string }

const STEPS: ReadonlySet<string> = new Set(['ready', 'yours', 'serving', 'left', 'failed'] satisfies Message['step'][])

const toMessage = (value: unknown): Message | null =>
  STEPS.has(asText(asObject(value)?.step)) ? (value as Message) : null

const TELL_MS = 500

const say = (message: Message) =>
  new Promise<void>((resolve) => process.send?.(message, undefined, undefined, () => resolve()))

export interface EarlierServer {
  /** Resolves once this process owns the data folder: it was handed over, or the earlier server is gone. */
  succeed(): Promise<Handed>
  /** Resolves once the earlier server forwards its requests, or is gone. */
  serving(url: string, version: string, listeners: number): Promise<void>
  gone: Promise<void>
}

/** Null if this process succeeds no other. */
export function findEarlierServer(environment: Environment): EarlierServer | null {
  if (!environment[SUCCEEDS] || process.send === undefined) return null
  // Not for the commands that this server starts.
  delete process.env[SUCCEEDS]
  const gone = Promise.withResolvers<void>()
  const yours = Promise.withResolvers<Handed>()
  const left = Promise.withResolvers<void>()
  process.on('disconnect', gone.resolve)
  process.on('message', (value) => {
    const message = toMessage(value)
    if (message?.step === 'yours') yours.resolve(message)
    if (message?.step === 'left') left.resolve()
  })
  return {
    gone: gone.promise,
    succeed() {
      void say({ step: 'ready' })
      return Promise.race([yours.promise, gone.promise.then(() => ({ port: null, ports: [] }))])
    },
    async serving(url, version, listeners) {
      void say({ step: 'serving', url, version, listeners })
      await Promise.race([left.promise, gone.promise])
    },
  }
}

/** Reports a failed start to the caller of the restart, through the earlier server. */
export const tellFailure = (message: string): Promise<void> =>
  Promise.race([say({ step: 'failed', message }), Bun.sleep(TELL_MS)])

interface RestarterDeps {
  dataFolder: string
  environment: Environment
  cwd: string
  log: Log
  handover(): Handover
  supervisor(): Supervisor | null
  /** Null if there was no earlier server. */
  earlier: EarlierServer | null
}

export interface Restarter {
  /** Resolves once the next server serves. Throws a ServiceError, and then nothing has changed. */
  restart(how: RestartOptions): Promise<Restarted>
  /** When this server stops: ends a successor that doesn't serve yet, and starts no other. */
  cancel(): void
  hasLeft(): boolean
  /** Resolves once the next server serves: then this one only finishes its requests, and exits. */
  left: Promise<void>
}

const failed = (message: string) => new ServiceError({ kind: 'restart_failed' }, message)

export function createRestarter(deps: RestarterDeps): Restarter {
  const { dataFolder, environment, cwd, log, handover, supervisor, earlier } = deps
  let child: Bun.Subprocess | null = null
  let isRestarting = false
  let isStopping = false
  let hasLeft = false
  const left = Promise.withResolvers<void>()

  const toEnvironment = (given: RestartOptions['environment']) => {
    const kept = Object.fromEntries(OF_MANAGER.map((name) => [name, environment[name]]))
    const own = { TOLLGATE_DATA: dataFolder, [OF_PROCESS]: undefined, [SUCCEEDS]: String(process.pid) }
    // Without it, `main.ts` may execute itself again, which ends the channel. It also bounds what a restart forwards.
    return { [FETCHES.variable]: String(FETCHES.raised), ...(given ?? environment), ...kept, ...own }
  }

  const start = async ({ flags, environment: given }: RestartOptions): Promise<Restarted> => {
    // At most two servers may listen on the port.
    await earlier?.gone
    await handover().begin()
    if (isStopping) throw failed(STOPPING)
    const done = Promise.withResolvers<Restarted>()
    let giving = null as Promise<Handed> | null
    const take = async (next: Bun.Subprocess, message: Message) => {
      if (message.step === 'failed') done.reject(failed(message.message))
      if (message.step === 'ready') {
        giving = handover().giveFolder()
        next.send({ step: 'yours', ...(await giving) } satisfies Message)
      }
      if (message.step === 'serving') {
        hasLeft = true
        supervisor()?.hasSuccessor(next.pid)
        await handover()
          .leave(message.listeners ?? 1)
          .catch(noteError)
        next.send({ step: 'left' } satisfies Message)
        done.resolve({ pid: next.pid, url: message.url, version: message.version })
      }
    }
    const words = flags === null ? process.argv.slice(2) : ['serve', ...flags]
    const next = spawnServer([...toSelf(), ...words], {
      cwd,
      env: toEnvironment(given),
      stdio: ['ignore', 'inherit', 'inherit'],
      ipc(value, next) {
        const message = toMessage(value)
        if (message) take(next, message).catch(done.reject)
      },
    })
    child = next
    const ended = next.exited.then(() => {
      const how = next.signalCode === null ? `exited with ${next.exitCode}` : `was killed by ${next.signalCode}`
      if (hasLeft) handover().end()
      else done.reject(failed(`The new server ${how} before it was ready. See its log.`))
    })
    try {
      return await done.promise
    } catch (error) {
      // The successor must be gone first: two servers must not use one folder.
      next.kill('SIGKILL')
      await ended
      await giving?.catch(noteError)
      if (giving) await resume()
      throw error
    }
  }

  const noteError = (error: unknown) =>
    log.error('internal_error', 'unexpected error in a restart; please report it', { error: traceOf(error) })

  /** If another server has taken the folder, this one only finishes its requests. */
  const resume = async () => {
    try {
      await handover().resume()
    } catch (error) {
      noteError(error)
      hasLeft = true
      handover().end()
      left.resolve()
    }
  }

  return {
    async restart(how) {
      const obstacle = isStopping ? STOPPING : explainObstacle(hasLeft || isRestarting, how)
      if (obstacle !== null) throw failed(obstacle)
      isRestarting = true
      log.info('server_restarting', 'starting the next server', {})
      try {
        const next = await start(how)
        log.info('server_stopping', 'the next server has taken over; finishing requests', { pid: next.pid })
        left.resolve()
        return next
      } catch (error) {
        const why = isStopping ? STOPPING : messageOf(error)
        log.error('restart_failed', 'the next server did not start; this one goes on', { error: why })
        throw failed(why)
      } finally {
        child = null
        isRestarting = false
      }
    },
    cancel() {
      isStopping = true
      if (!hasLeft) child?.kill('SIGKILL')
    },
    hasLeft: () => hasLeft,
    left: left.promise,
  }
}

/** Throws a ServiceError. */
function spawnServer(words: string[], options: Bun.SpawnOptions.OptionsObject<'ignore', 'inherit', 'inherit'>) {
  try {
    return Bun.spawn(words, options)
  } catch (error) {
    throw failed(`Can't run ${words[0]}: ${messageOf(error)}.`)
  }
}

const STOPPING = 'The server is stopping. Start it again instead.'

/** Null if there is none. */
function explainObstacle(isRestarting: boolean, { flags }: RestartOptions): string | null {
  if (process.platform !== 'linux')
    return `On ${type()}, two servers can't share a port. Stop the server and start it again.`
  if (process.pid === 1)
    return 'The server is process 1 of its container, which would end with it. Restart the container instead.'
  if (flags?.some((word) => /^--data(=|$)/.test(word)))
    return 'A restart keeps the data folder. Leave out --data after `--`.'
  return isRestarting ? 'Another restart is in progress. Wait for it to finish.' : null
}
