/** All managed model servers: commands, queues, status. `arrange.ts` decides which run. */
import type { EndSignal } from '../domain/end-signal.ts'
import { endOfUnsent, queuedTooLong, type UpstreamError } from '../domain/error.ts'
import type { ProcessSpec, ProcessSpecs, ServerState, ServerStatus } from '../domain/model-server.ts'
import type { CatalogModel, Snapshot, Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { type ArrangeDeps, Arrangement } from './arrange.ts'
import type { Launched } from './child.ts'
import type { Look } from './engine.ts'
import {
  type Lease,
  ManagedModel,
  type Ticket,
  TOO_LARGE,
  toFailed,
  toFailedReadiness,
  toFull,
  toGone,
  toNote,
  toStopping,
} from './model.ts'
import { Supervisor, sleep } from './supervisor.ts'

export interface Engine {
  /** @throws an Error that says what to do. */
  launch(id: string, slug: string, spec: ProcessSpec): Promise<Launched>
  look(server: Launched, spec: ProcessSpec): Promise<Look>
  runStopCommand(id: string, server: Launched, spec: ProcessSpec): Promise<void>
}

export interface FleetDeps extends ArrangeDeps {
  engine: Engine
  /** `upstream` has the server's URL and key. */
  onReady?(upstream: Upstream, server: Launched): void
}

export interface Ask {
  upstream: Upstream
  /** Fairness group of the queue. */
  owner: string
  signal: EndSignal
  /** Maximum wait. */
  patienceMs: number
  /** Describes its position in the queue; null once it no longer waits. */
  onWaiting?(note: (() => string) | null): void
}

const LOOK_MS = 50

export class Fleet {
  /** States of servers may have changed. */
  onStates: () => void = () => {}
  readonly #deps: FleetDeps
  readonly #arrangement: Arrangement

  constructor(deps: FleetDeps) {
    this.#deps = deps
    this.#arrangement = new Arrangement(deps)
  }

  /** Removed servers, and those with a new command, stop after their requests. */
  renew({ upstreams, models: catalog }: Snapshot, specs: ProcessSpecs): void {
    const { models } = this.#arrangement
    this.#arrangement.memory = specs.memory
    const slugs = toSlugs(catalog.values())
    const declared = new Set<string>()
    for (const [id, upstream] of upstreams) {
      const spec = specs.byUpstream.get(id)
      if (spec === undefined || upstream.process !== spec.hash) continue
      declared.add(id)
      const slug = slugs.get(id) ?? id
      const model = models.get(id)
      if (model) {
        const isOther = model.spec.hash !== spec.hash || (model.slug !== slug && hasSlug(spec))
        if (isOther) model.next = this.#supervise(id, spec)
        Object.assign(model, { upstream, slug, spec, isGone: false })
      } else {
        const added = new ManagedModel(upstream, slug, spec, this.#supervise(id, spec))
        if (spec.preload) added.wanted = 'preload'
        added.wantedSinceMs = this.#deps.clock.nowMs()
        models.set(id, added)
      }
    }
    for (const [id, model] of models) {
      if (declared.has(id)) continue
      model.isGone = true
      model.wanted = null
      model.refuseAll(toGone())
    }
    this.#arrangement.changed()
    this.onStates()
  }

  /** Doesn't start the server. */
  #supervise(id: string, spec: ProcessSpec): Supervisor {
    const { engine, clock, log, onReady } = this.#deps
    const arrangement = this.#arrangement
    const { models } = arrangement
    const supervisor: Supervisor = new Supervisor({
      spec,
      clock,
      launch: () => engine.launch(id, models.get(id)?.slug ?? id, spec),
      look: (server) => engine.look(server, spec),
      runStopCommand: (server) => engine.runStopCommand(id, server, spec),
      onChange: () => {
        this.onStates()
        const model = models.get(id)
        const { phase, server, loadMs } = supervisor
        if (phase === 'stopped' || phase === 'failed') model?.forget()
        if (phase === 'stopped') log.info('process_stopped', 'model server stopped', { upstream: id })
        if (phase === 'ready') {
          const about = { upstream: id, pid: server?.pid, load_ms: Math.round(loadMs ?? 0) }
          log.info('process_ready', 'model server ready', about)
          if (model) arrangement.measure(model)
          if (model && server) onReady?.(model.toLeased(model.upstream, server), server)
        }
        arrangement.changed()
      },
      onFailed(failure) {
        log.error('process_failed', 'model server failed', { upstream: id, reason: failure.reason })
        const model = models.get(id)
        if (!model) return
        model.wanted = null
        const why = toFailed(failure, model, { nowMs: clock.nowMs(), isDraining: arrangement.isDraining })
        if (why) model.refuseAll(why)
      },
    })
    return supervisor
  }

  /** Resolves when a ready server has a slot for the request. Rejects with an UpstreamError. */
  lease(ask: Ask): Promise<Lease> {
    const { promise, resolve, reject } = Promise.withResolvers<Lease>()
    try {
      this.#join(ask, { resolve, reject }, promise)
    } catch (error) {
      reject(error)
    }
    return promise
  }

  #join(
    { upstream, owner, signal, patienceMs, onWaiting }: Ask,
    answer: Pick<Ticket, 'resolve' | 'reject'>,
    lease: Promise<Lease>,
  ): void {
    const { clock } = this.#deps
    if (signal.aborted) throw endOfUnsent(signal)
    const model = this.#requireOpen(upstream.id)
    const { line } = model
    const ticket: Ticket = { ...answer, owner, upstream, sinceMs: clock.nowMs() }
    const turnedAway = line.join(ticket)
    turnedAway?.reject(toFull(line.length, model.expectedMs(clock.nowMs())))
    const giveUp = (why: UpstreamError) => {
      if (!line.leave(ticket)) return
      ticket.reject(why)
      this.#arrangement.changed()
    }
    const leave = () => giveUp(endOfUnsent(signal))
    signal.addEventListener('abort', leave, { once: true })
    const takeBack = clock.after(patienceMs, () => giveUp(queuedTooLong(patienceMs, model.expectedMs(clock.nowMs()))))
    const settled = () => {
      takeBack()
      signal.removeEventListener('abort', leave)
      onWaiting?.(null)
    }
    lease.then(settled, settled)
    onWaiting?.(() => toNote(line.positionOf(ticket), line.length, toWhat(model)))
    this.#arrangement.changed()
  }

  /** @throws if waiting for the server makes no sense. */
  #requireOpen(id: string): ManagedModel {
    const { models, isDraining } = this.#arrangement
    const model = models.get(id)
    if (!model || model.isGone) throw toGone()
    const { phase, state, failure } = model.supervisor
    if (isDraining && phase !== 'ready') throw toStopping()
    const now = { nowMs: this.#deps.clock.nowMs(), isDraining }
    const why = state === 'failed' && failure ? toFailed(failure, model, now) : null
    if (why) throw why
    return model
  }

  /** Never starts a server or throws. Restarts one that is unresponsive for as long as a response may take. */
  async probe({ id }: Upstream): Promise<Readiness> {
    const model = this.#arrangement.models.get(id)
    if (!model) return { state: 'unknown' }
    const { supervisor, spec } = model
    const { server, failure, phase, state } = supervisor
    const now = { nowMs: this.#deps.clock.nowMs(), isDraining: this.#arrangement.isDraining }
    // An upstream whose requests wait for a restart must not count as down.
    if (state === 'failed' && failure && toFailed(failure, model, now)) return toFailedReadiness(failure)
    if (this.#arrangement.isTooLarge(model)) return { state: 'down', reason: `it ${TOO_LARGE}` }
    // The next request starts it.
    if (phase !== 'ready' || server === null) return { state: 'ready' }
    const look = await this.#deps.engine.look(server, spec)
    if (supervisor.server !== server) return { state: 'unknown' }
    supervisor.isSleeping = look.state === 'sleeping'
    this.onStates()
    if (look.state !== 'loading' && look.state !== 'foreign') {
      model.silence.end()
      return { state: 'ready' }
    }
    // The server may be busy. Clients that disconnected early leave no evidence of this.
    const { firstToken, idle, totalWhole } = model.upstream.deadlines
    if (model.silence.lasts(this.#deps.clock.nowMs(), Math.max(firstToken, idle, totalWhole))) supervisor.doubt()
    return { state: 'degraded', reason: `its ${spec.health} doesn't respond` }
  }

  /** Null for upstreams without a managed server. */
  status(id: string): ServerStatus | null {
    const model = this.#arrangement.models.get(id)
    if (!model) return null
    const { supervisor, line, answering } = model
    return {
      state: supervisor.state,
      reason: supervisor.failure?.reason ?? null,
      pid: supervisor.server?.pid ?? null,
      answering,
      queued: line.length,
      memory_bytes: this.#arrangement.needOf(model),
    }
  }

  states = (): [id: string, ServerState][] =>
    [...this.#arrangement.models].map(([id, { supervisor }]) => [id, supervisor.state])

  /** Null for upstreams without a managed server. */
  stateOf = (id: string): ServerState | null => this.#arrangement.models.get(id)?.supervisor.state ?? null

  /** Starts a server regardless of failures. @returns false for an unknown ID. */
  start(id: string): boolean {
    const model = this.#arrangement.models.get(id)
    if (!model || model.isGone) return false
    model.wanted = 'ordered'
    model.wantedSinceMs = this.#deps.clock.nowMs()
    model.supervisor.forgive()
    this.#arrangement.changed()
    return true
  }

  /**
   * Stops a server after its requests, or immediately. Queued requests, and the next one, start it again.
   * @returns false for an unknown ID.
   */
  stop(id: string, { now = false } = {}): boolean {
    const model = this.#arrangement.models.get(id)
    if (!model) return false
    const { supervisor } = model
    model.wanted = null
    if (supervisor.phase === 'ready' || supervisor.phase === 'loading') model.isLeaving = true
    if (now && model.isLeaving) void supervisor.stop()
    this.#arrangement.changed()
    return true
  }

  /** Resolves once no load or stop is in progress or pending. */
  settled = (id: string): Promise<ServerStatus | null> =>
    this.#until(id, ({ supervisor: { phase }, wanted }) => phase !== 'loading' && wanted === null)

  /** Resolves once it has stopped; it may be loading again for queued requests. */
  stopped = (id: string): Promise<ServerStatus | null> => this.#until(id, () => true)

  async #until(id: string, isSo: (model: ManagedModel) => boolean): Promise<ServerStatus | null> {
    const { models } = this.#arrangement
    const isMoving = (model: ManagedModel | undefined) =>
      model !== undefined && (model.isLeaving || model.supervisor.phase === 'stopping' || !isSo(model))
    while (isMoving(models.get(id)) && !this.#arrangement.isDraining) await sleep(this.#deps.clock, LOOK_MS)
    return this.status(id)
  }

  /** Starts no more servers, and rejects requests that wait for one. */
  drain(): void {
    this.#arrangement.isDraining = true
    for (const model of this.#arrangement.models.values())
      if (model.supervisor.phase !== 'ready') model.refuseAll(toStopping())
  }

  async close(): Promise<void> {
    this.drain()
    this.#arrangement.stop()
    const stopping = [...this.#arrangement.models.values()].map((model) => {
      model.refuseAll(toStopping())
      return model.supervisor.stop()
    })
    await Promise.all(stopping)
  }
}

/** Reason why a request waits, besides the queue. */
const toWhat = ({ supervisor: { phase } }: ManagedModel) =>
  phase === 'ready' ? '' : phase === 'stopped' ? 'for memory' : 'loading'

const hasSlug = ({ command }: ProcessSpec) => command.some((word) => word.includes('{slug}'))

/** The first model routed to each upstream. */
function toSlugs(models: Iterable<CatalogModel>): Map<string, string> {
  const slugs = new Map<string, string>()
  for (const { facts, targets } of models)
    for (const { upstream } of targets) slugs.getOrInsertComputed(upstream.id, () => facts.id)
  return slugs
}
