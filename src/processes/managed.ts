/** The fleet of a server: logs and measured memory in the data folder, and the backend of managed upstreams. */

import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { DialectName } from '../domain/dialects.ts'
import { endOfUnsent, UpstreamError } from '../domain/error.ts'
import type { AnswerEvent, AnswerStream, PassthroughSink, Take } from '../domain/events.ts'
import type { Environment } from '../domain/snapshot.ts'
import type { Log } from '../log.ts'
import type { Backend, BackendCall } from '../upstreams/backend.ts'
import { killOrphans } from './child.ts'
import { OWNER_VARIABLE, withEngines } from './command.ts'
import { createEngine, logPath } from './engine.ts'
import { Fleet, type FleetDeps } from './fleet.ts'
import type { Lease, Outcome } from './model.ts'
import { systemClock } from './supervisor.ts'

function createManagedBackend(inner: Backend, fleet: Pick<Fleet, 'lease' | 'probe'>): Backend {
  return {
    call: (call) => (call.target.upstream.process === null ? inner.call(call) : callManaged(inner, fleet, call)),
    probe: (upstream, signal) => (upstream.process === null ? inner.probe(upstream, signal) : fleet.probe(upstream)),
  }
}

async function callManaged(inner: Backend, fleet: Pick<Fleet, 'lease'>, call: BackendCall) {
  const { target, signal, deadlines, queue, body } = call
  const beganMs = performance.now()
  const lease = await fleet.lease({
    upstream: target.upstream,
    owner: queue?.owner ?? '',
    signal,
    patienceMs: body.stream ? deadlines.total : deadlines.totalWhole,
    ...(queue ? { onWaiting: queue.onWaiting } : {}),
  })
  // Total timeouts include the time in the queue.
  const leftOf = (ms: number) => Math.max(1, Math.round(ms - (performance.now() - beganMs)))
  try {
    // It may have been aborted in the queue; an aborted signal fires no more events.
    if (signal.aborted) throw endOfUnsent(signal)
    const answer = await inner.call({
      ...call,
      target: { ...target, upstream: lease.upstream },
      deadlines: { ...deadlines, total: leftOf(deadlines.total), totalWhole: leftOf(deadlines.totalWhole) },
    })
    if (answer.rest !== null) return { ...answer, rest: new LeasedStream(answer.rest, lease) }
    lease.over('ok')
    return answer
  } catch (error) {
    lease.over(toOutcome(error))
    throw error
  }
}

/** Errors caused by the request or Tollgate say nothing about the server. */
function toOutcome(error: unknown): Outcome {
  if (!(error instanceof UpstreamError)) return 'none'
  const { kind, status, isTooLong, isOwnLimit, isBusy, isSpoiled } = error
  if (isTooLong || isOwnLimit || isBusy || isSpoiled) return 'none'
  if (kind === 'status') return status === null || status >= 500 ? 'failed' : 'none'
  if (kind === 'connection') return 'lost'
  return kind === 'aborted' ? 'none' : 'failed'
}

/** Returns its slot at the end of the stream. */
class LeasedStream implements AnswerStream {
  readonly #inner: AnswerStream
  readonly #lease: Lease

  constructor(inner: AnswerStream, lease: Lease) {
    this.#inner = inner
    this.#lease = lease
  }

  async pump(take: Take, sink?: PassthroughSink): Promise<void> {
    const lease = this.#lease
    let last: AnswerEvent | undefined
    const heard: Take = (events) => {
      last = events.at(-1) ?? last
      lease.heard()
      return take(events)
    }
    const passing = sink && {
      pass(frames: string, text: string) {
        lease.heard()
        return sink.pass(frames, text)
      },
    }
    await this.#inner.pump(heard, passing)
    // Otherwise the stream continues, or `close` follows.
    if (last?.kind === 'done') lease.over('ok')
    if (last?.kind === 'failure') lease.over(toOutcome(last.error))
  }

  close(): void {
    this.#inner.close()
    this.#lease.over('none')
  }
}

export interface MeasuredMemory {
  /** Highest measured value, bytes. By hash of the process, because another command may load another model. */
  get(hash: string): number | null
  note(hash: string, bytes: number): void
}

/** Smaller increases are not written. */
const STEP = 1.02
/** Includes commands no longer in use. */
const MAX_KEPT = 200

export function readMeasured(path: string, log: Pick<Log, 'warn'>): MeasuredMemory {
  const known = new Map(read(path))
  return {
    get: (hash) => known.get(hash) ?? null,
    note(hash, bytes) {
      if (bytes <= (known.get(hash) ?? 0) * STEP) return
      known.delete(hash)
      known.set(hash, bytes)
      for (const [oldest] of known.entries().take(Math.max(0, known.size - MAX_KEPT))) known.delete(oldest)
      try {
        mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
        writeFileSync(`${path}.new`, JSON.stringify(Object.fromEntries(known)), { mode: 0o600 })
        renameSync(`${path}.new`, path)
      } catch (error) {
        log.warn('process_memory_not_saved', "couldn't save the measured memory of a model server", {
          error: String(error),
        })
      }
    },
  }
}

function read(path: string): [string, number][] {
  try {
    const json: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return Object.entries(json ?? {}).filter((entry): entry is [string, number] => Number.isSafeInteger(entry[1]))
  } catch {
    // Missing or damaged: measured again.
    return []
  }
}

interface FleetOptions extends Pick<FleetDeps, 'onReady'> {
  dataFolder: string
  environment: Environment
  now(): number
  log: Pick<Log, 'info' | 'warn' | 'error'>
  /** False while an earlier server of the folder finishes requests, with its own model servers. */
  isAlone?: boolean
}

const logsFolder = (dataFolder: string) => join(dataFolder, 'logs')

export const logOf = (dataFolder: string, id: string) => logPath(logsFolder(dataFolder), id)

/** First kills orphaned processes of a killed server. The caller holds `serve.lock`. */
export async function createFleet({
  dataFolder,
  environment,
  now,
  log,
  isAlone = true,
  ...hooks
}: FleetOptions): Promise<Fleet> {
  const owner = toOwner(dataFolder)
  const folder = logsFolder(dataFolder)
  // Without this folder, no server was ever started. A search takes longer with more processes.
  const left = isAlone && existsSync(folder) ? await killOrphans(OWNER_VARIABLE, owner) : 0
  if (left > 0)
    log.warn('process_orphaned', 'killed model server processes left by an earlier run', {
      count: left,
    })
  return new Fleet({
    ...hooks,
    clock: systemClock,
    measured: readMeasured(join(dataFolder, 'run', 'memory.json'), log),
    engine: createEngine({
      folder,
      owner,
      environment: withEngines(environment, dataFolder),
      now,
    }),
    log,
  })
}

/** By inode, because folders in two containers may have the same path. */
function toOwner(dataFolder: string): string {
  const { dev, ino } = statSync(dataFolder, { bigint: true })
  return `${dev}:${ino}`
}

/** Adds managed upstreams. */
export function withFleet(
  backends: Record<DialectName, Backend>,
  fleet: Pick<Fleet, 'lease' | 'probe'>,
): Record<DialectName, Backend> {
  const managed = Object.entries(backends).map(([name, backend]): [string, Backend] => [
    name,
    createManagedBackend(backend, fleet),
  ])
  return { ...backends, ...Object.fromEntries(managed) }
}
