/**
 * The process that has the data folder, and its workers, which share the public port. Each worker reads requests, calls upstreams, and writes its own journal
 * segments, which this process applies to the database. Workers forward all requests except model endpoints to this process. If a worker ends unexpectedly, it
 * is started again, and its requests are settled from its journal (`ledger/other-journals.ts`).
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../domain/error.ts'
import type { Link } from '../../domain/link.ts'
import { ServiceError } from '../../domain/service-error.ts'
import type { Load } from '../../gateway/admission.ts'
import type { ListeningApp } from '../../http/instance.ts'
import type { OtherJournals } from '../../ledger/other-journals.ts'
import type { NodeLimiter } from '../../limits/limiter.ts'
import { serveLimits } from '../../limits/serve.ts'
import type { Log } from '../../log.ts'
import type { Settings } from '../../store/config-store.ts'
import { listDraining } from '../../store/data-folder.ts'
import { filesIn } from '../../store/files.ts'
import type { LedgerReader } from '../../store/ledger-store.ts'
import { listenForForwarded, untilAdmitted } from '../handover.ts'
import {
  FIRST_REQUEST_MS,
  GRACE_MS,
  type Listener,
  type ListenPlace,
  reserve,
  type ServedCertificates,
} from '../listener.ts'
import { type Front, listenAt } from '../network.ts'
import { listenForLinks } from './link.ts'
import type { Workers } from './shared.ts'
import {
  ALIVE,
  CLOSE,
  DECIDE,
  HELLO,
  HOLD,
  JOIN,
  LEAVE,
  LISTENING,
  PREFER,
  RETIRE,
  toForwardPath,
  toLinkPath,
  WORKER,
} from './topics.ts'

export interface WorkersDeps {
  count: number
  dataFolder: string
  /** ID of this process's run. */
  instance: string
  place: ListenPlace
  certificates: ServedCertificates | null
  /** Answers requests forwarded by workers. */
  app: ListeningApp
  load: Pick<Load, 'inFlight' | 'admitted' | 'ended'>
  endUploads(): void
  drainMs: number
  log: Log
  /** Starts this program again. */
  spawn(environment: Readonly<Record<string, string>>): Bun.Subprocess
  settings: Settings
  workers: Pick<Workers, 'connect'>
  others: Pick<OtherJournals, 'add' | 'settled'>
  reader: Pick<LedgerReader, 'counted'>
  limiter: NodeLimiter
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
}

interface Worker {
  child: Bun.Subprocess
  startedMs: number
  /** Null until the worker has sent `HELLO`. */
  link: Link | null
  /** `retired`: other workers get new connections. `left`: it no longer listens, or was killed. */
  state: 'starting' | 'serving' | 'retired' | 'left'
  /** Seconds without a response, while this process was running. */
  silentS: number
  listening: PromiseWithResolvers<{ port: number; origin: string }>
}

/** If a worker ran this long, it is started again at once. */
const STABLE_MS = 10_000
const PAUSE_MS = 250
const MAX_PAUSE_MS = 5_000
/** Time before a kill, in addition to the worker's own time for interrupting requests. */
const KILL_MS = 10_000
const SECOND_MS = 1_000
/** Time for a listener to accept queued connections. */
const QUEUE_MS = 50
const MAX_QUEUES_MS = 1_000
/** A worker that doesn't respond for this long hangs. */
const MAX_SILENT_S = 30
/** Shorter during a restart, because all requests wait for the worker. */
const HOLD_MS = 5_000

/** Throws a ServiceError if the workers don't listen. */
export async function openWorkers(deps: WorkersDeps): Promise<Front> {
  const { count, dataFolder, instance, app, load, log, drainMs } = deps
  const free = await listenAt(deps.place, reserve)
  removeStaleSockets(dataFolder, instance)
  const [linkPath, forwardPath] = [toLinkPath(dataFolder, instance), toForwardPath(dataFolder, instance)]
  const all = new Set<Worker>()
  /** Workers in the kernel's order; see `ListenerRange`. */
  const listeners: Worker[] = []
  let certificates = deps.certificates
  let place = { ...deps.place, port: free }
  let isLeaving = false
  let isClean = true
  let failures = 0
  let renewing: Promise<void> = Promise.resolve()
  let ending: Promise<void> = Promise.resolve()
  /** Until then, retired workers have connections without a request. */
  let settled = Promise.resolve()
  let grace: ReturnType<typeof setTimeout> | undefined
  /** Number of listeners of the next server. */
  let successors = 0

  const serving = () => [...all].filter(({ state }) => state === 'serving')
  /** Number of workers that serve or start. */
  const present = () => [...all].filter(({ state }) => state === 'starting' || state === 'serving').length
  const linkOf = (worker: Worker) => worker.link ?? fail('a worker has no link')

  const links = listenForLinks(linkPath, (link) => {
    link.on(HELLO, ({ pid }) => {
      const worker = [...all].find(({ child }) => child.pid === pid) ?? fail('unknown worker')
      worker.link = link
      link.on(LISTENING, (where) => {
        listeners.push(worker)
        worker.listening.resolve(where)
      })
      const { hostname, port } = place
      return { hostname, port, processes: count, certificates, settings: deps.settings }
    })
    link.on(JOIN, (instance) => {
      const { limiter, monotonicMs, now, reader } = deps
      const limits = serveLimits(link, { limiter, monotonicMs, now, sleep: Bun.sleep })
      deps.others.add(instance, link, {
        onEnded: limits.ended,
        onGone: () =>
          limits.resolve((id) => {
            const counted = reader.counted(id)
            return counted && { nanoUsd: counted.nanoUsd, tokens: null }
          }),
      })
      deps.workers.connect(link)
      return null
    })
  })
  const endForwarded = listenForForwarded(forwardPath, app, certificates !== null)

  const start = async (): Promise<Worker> => {
    const child = deps.spawn({ [WORKER]: instance })
    const listening: Worker['listening'] = Promise.withResolvers()
    const worker: Worker = { child, startedMs: performance.now(), link: null, state: 'starting', silentS: 0, listening }
    all.add(worker)
    void child.exited.then(() => ended(worker))
    await listening.promise
    if (worker.state === 'starting') worker.state = 'serving'
    return worker
  }

  const ended = (worker: Worker) => {
    const { child, state } = worker
    all.delete(worker)
    forget(worker)
    worker.link?.close()
    const how = child.signalCode === null ? `exited with ${child.exitCode}` : `was killed by ${child.signalCode}`
    if (child.exitCode !== 0) isClean = false
    worker.listening.reject(new Error(`A worker process ${how} before it was ready. See its log.`))
    if (state !== 'serving' || isLeaving) return
    log.error('worker_ended', 'worker process ended unexpectedly; starting another', { pid: child.pid, how })
    failures = performance.now() - worker.startedMs > STABLE_MS ? 0 : failures + 1
    startAgain()
  }

  /** Removes a worker that no longer listens. */
  const forget = (worker: Worker) => {
    const at = listeners.indexOf(worker)
    const last = at === -1 ? undefined : listeners.pop()
    if (last && last !== worker) listeners[at] = last
  }

  const startAgain = () => {
    const pauseMs = failures === 0 ? 0 : Math.min(MAX_PAUSE_MS, PAUSE_MS * 2 ** (failures - 1))
    setTimeout(async () => {
      if (isLeaving || present() >= count) return
      try {
        const { child } = await start()
        log.info('worker_started', 'worker process started', { pid: child.pid })
      } catch (error) {
        if (isLeaving) return
        failures++
        log.error('worker_ended', 'worker process does not start; trying again', { error: messageOf(error) })
        startAgain()
      }
    }, pauseMs).unref()
  }
  const startMissing = () => {
    for (let missing = count - present(); missing > 0; missing--) startAgain()
  }

  /** Kills hanging workers, which would still get connections. Counts only seconds in which this process runs. */
  const look = () => {
    for (const worker of all) {
      const { child, link } = worker
      void link?.ask(ALIVE, null).then(
        () => {
          worker.silentS = 0
        },
        () => {},
      )
      if (++worker.silentS !== MAX_SILENT_S) continue
      log.error('worker_hung', 'worker process does not respond; killing it', {
        pid: child.pid,
        silent_s: MAX_SILENT_S,
      })
      child.kill('SIGKILL')
    }
  }
  const timer = setInterval(look, SECOND_MS).unref()
  /** Resolves once the workers have ended. */
  const kill = async (workers: Iterable<Worker>) => {
    const killed = [...workers]
    for (const worker of killed) {
      worker.state = 'left'
      worker.child.kill('SIGKILL')
    }
    await Promise.all(killed.map(({ child }) => child.exited))
  }
  /** A second signal ends this process at once, so it kills all workers. */
  const killAll = () => void kill(all)
  process.on('exit', killAll)

  /** Throws if a worker doesn't start, and then kills the others. */
  const startAll = async () => {
    const before = new Set(all)
    const started = await Promise.allSettled(Array.from({ length: count }, start))
    const failed = started.find((one) => one.status === 'rejected')
    if (failed === undefined) return
    await kill([...all].filter((worker) => !before.has(worker)))
    throw failed.reason
  }

  const close = async () => {
    clearInterval(timer)
    process.off('exit', killAll)
    await links.stop()
    await endForwarded()
    for (const path of [linkPath, forwardPath]) rmSync(path, { force: true })
  }
  /** Kills workers that hang. Ignores workers that end in between. */
  const askEach = <Reply>(workers: Iterable<Worker>, ask: (link: Link) => Promise<Reply>) =>
    Promise.all(
      Array.from(workers, async ({ child, link }) => {
        if (link === null) return
        const timer = setTimeout(() => child.kill('SIGKILL'), HOLD_MS)
        await ask(link).catch(() => null)
        clearTimeout(timer)
      }),
    )
  /** Asks all workers, because one may hang. One success is enough. */
  const prefer: Listener['prefer'] = (which) =>
    Promise.any(listeners.map((worker) => linkOf(worker).ask(PREFER, which))).catch(() => false)

  /**
   * One worker at a time: when a listener ends, the last one takes its index. Only listeners that keep their index get new connections, in whatever order the
   * workers listen, so none ends with queued connections.
   */
  const leave = async (workers: readonly Worker[], others: number) => {
    for (const worker of workers) worker.state = 'left'
    for (const [at, worker] of workers.toReversed().entries()) {
      const fixed = others - at - 1
      const left = workers.length - at - 1
      if (fixed > 0) await prefer({ first: workers.length, count: fixed })
      await askEach([worker], (link) => link.ask(LEAVE, { drainMs }))
      forget(worker)
      if (fixed > 0 || left === 0) continue
      // All others have moved.
      await prefer({ first: left, count: others })
      await Bun.sleep(Math.min(QUEUE_MS, MAX_QUEUES_MS / workers.length))
    }
    if (listeners.length > 0) await prefer({ first: 0, count: others })
  }
  /** Afterward, only serving workers listen. */
  const endRetired = () => {
    clearTimeout(grace)
    ending = ending.then(async () => {
      const retired = listeners.filter(({ state }) => state === 'retired')
      if (retired.length === 0) return
      await settled
      await leave(retired, listeners.length - retired.length)
    })
    return ending
  }

  /** New workers with the current certificates get all new connections. Earlier workers finish theirs. */
  const renew = async () => {
    await endRetired()
    const earlier = serving()
    await prefer({ first: 0, count: earlier.length })
    await startAll()
    await prefer({ first: earlier.length, count })
    for (const worker of earlier) {
      worker.state = 'retired'
      linkOf(worker).tell(RETIRE, null)
    }
    settled = Bun.sleep(FIRST_REQUEST_MS)
    grace = setTimeout(endRetired, GRACE_MS)
    startMissing()
  }

  try {
    await startAll()
  } catch (error) {
    await close()
    throw new ServiceError({ kind: 'not_listening', host: place.hostname, port: place.port }, messageOf(error))
  }
  const [first] = serving()
  const { port, origin } = (await first?.listening.promise) ?? fail('no worker listens')
  place = { ...place, port }

  const drain = async (isSucceeded: boolean): Promise<boolean> => {
    isLeaving = true
    clearTimeout(grace)
    const workers = [...all]
    if (isSucceeded) await leave([...listeners], successors)
    for (const worker of workers) {
      if (worker.state === 'starting') worker.child.kill('SIGKILL')
      else if (worker.state !== 'left') worker.link?.tell(CLOSE, { drainMs })
      worker.state = 'left'
    }
    const timer = setTimeout(() => kill(workers), drainMs + KILL_MS)
    isClean = true
    const [isOwnClean] = await Promise.all([load.ended(drainMs), ...workers.map(({ child }) => child.exited)])
    clearTimeout(timer)
    await deps.others.settled()
    return isClean && isOwnClean
  }

  return {
    port: {
      ...{ port, origin, count },
      async prefer(which) {
        await renewing.catch(() => {})
        await endRetired()
        successors = which.first === 0 ? 0 : which.count
        return prefer(which)
      },
      async replace(next) {
        if (isLeaving) return
        certificates = next
        renewing = renewing.catch(() => {}).then(renew)
        await renewing
      },
      grace: (gone) => Promise.race([Bun.sleep(GRACE_MS), gone]),
      async stop(isForced) {
        isLeaving = true
        if (!isForced) await drain(false)
        await kill(all)
        await close()
      },
    },
    gate: {
      async hold() {
        isLeaving = true
        // A starting worker would serve in a folder that belongs to another server by then.
        for (const { child, state } of all) if (state === 'starting') child.kill('SIGKILL')
        await renewing.catch(() => {})
        // Includes workers that finish requests, on their remaining connections.
        await askEach(all, (link) => link.ask(HOLD, null))
        await untilAdmitted(load, deps.endUploads)
      },
      async decide(where) {
        isLeaving = where === 'there'
        // Replace workers that ended in between.
        if (!isLeaving) startMissing()
        await askEach(all, (link) => link.ask(DECIDE, where))
      },
    },
    endSuccession: async () => void (await prefer({ first: 0, count })),
    drain,
  }
}

function fail(message: string): never {
  throw new Error(message)
}

/** Removes sockets of killed processes. */
function removeStaleSockets(dataFolder: string, instance: string): void {
  const folder = join(dataFolder, 'run')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const living = new Set([instance, ...listDraining(dataFolder)])
  for (const name of filesIn(folder)) {
    const [, of] = /^(\w+)\.(?:link|forward)\.sock$/.exec(name) ?? []
    if (of !== undefined && !living.has(of)) rmSync(join(folder, name), { force: true })
  }
}
