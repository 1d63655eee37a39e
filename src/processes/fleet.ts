/**
 * All model servers that run here, as the rest of a server sees them: which there are and by which commands, places at one for requests
 * that wait, how they stand, starting and stopping them by hand. `arrange.ts` decides which of them run.
 */
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

/** What servers are made of: processes, but for tests. */
export interface Engine {
  /** Throws or rejects with an Error whose message says what to do. */
  launch(id: string, slug: string, spec: ProcessSpec): Promise<Launched>
  look(server: Launched, spec: ProcessSpec): Promise<Look>
  runStopCommand(id: string, server: Launched, spec: ProcessSpec): Promise<void>
}

export interface FleetDeps extends ArrangeDeps {
  engine: Engine
  /** A server can be asked from now on; the upstream has its address and key. */
  onReady?(upstream: Upstream, server: Launched): void
}

/** A request that wants a place. */
export interface Ask {
  upstream: Upstream
  /** Whose turns it takes. */
  owner: string
  signal: EndSignal
  /** How long it may wait, ms. */
  patienceMs: number
  /** Given what says where it stands; null once it waits no more. */
  onWaiting?(note: (() => string) | null): void
}

/** How often somebody who waits for a server looks at it. */
const LOOK_MS = 50

export class Fleet {
  readonly #deps: FleetDeps
  readonly #arrangement: Arrangement

  constructor(deps: FleetDeps) {
    this.#deps = deps
    this.#arrangement = new Arrangement(deps)
  }

  /** Takes over a configuration. What is gone from it, or has another command, ends once it has answered what it is answering. */
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
  }

  /** Makes the supervisor of an upstream's server, which it does not start. */
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
      onChange() {
        const model = models.get(id)
        const { phase, server, loadMs } = supervisor
        if (phase === 'stopped' || phase === 'failed') model?.forget()
        if (phase === 'stopped') log.info('process_stopped', 'a model server has stopped', { upstream: id })
        if (phase === 'ready') {
          const about = { upstream: id, pid: server?.pid, load_ms: Math.round(loadMs ?? 0) }
          log.info('process_ready', 'a model server is ready', about)
          if (model) arrangement.measure(model)
          if (model && server) onReady?.(model.toLeased(model.upstream, server), server)
        }
        arrangement.changed()
      },
      onFailed(failure) {
        log.error('process_failed', 'a model server has failed', { upstream: id, reason: failure.reason })
        const model = models.get(id)
        if (!model) return
        model.wanted = null
        const why = toFailed(failure, model, { nowMs: clock.nowMs(), isDraining: arrangement.isDraining })
        if (why) model.refuseAll(why)
      },
    })
    return supervisor
  }

  /** Resolves to a place at its server, once that is ready and it is the owner's turn. Rejects with an UpstreamError. */
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

  /** Throws where nobody can wait for it. */
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

  /** Asks how a server is, and starts none for that; one that has hung for as long as an answer may take is ended. Never throws. */
  async probe({ id }: Upstream): Promise<Readiness> {
    const model = this.#arrangement.models.get(id)
    if (!model) return { state: 'unknown' }
    const { supervisor, spec } = model
    const { server, failure, phase, state } = supervisor
    const now = { nowMs: this.#deps.clock.nowMs(), isDraining: this.#arrangement.isDraining }
    // Where a request would wait for it, none is to be kept from it.
    if (state === 'failed' && failure && toFailed(failure, model, now)) return toFailedReadiness(failure)
    if (this.#arrangement.isTooLarge(model)) return { state: 'down', reason: `it ${TOO_LARGE}` }
    // A request starts it.
    if (phase !== 'ready' || server === null) return { state: 'ready' }
    const look = await this.#deps.engine.look(server, spec)
    if (supervisor.server !== server) return { state: 'unknown' }
    supervisor.isSleeping = look.state === 'sleeping'
    if (look.state !== 'loading' && look.state !== 'foreign') {
      model.silence.end()
      return { state: 'ready' }
    }
    // It may be busy, and clients that leave before a deadline say nothing of it.
    const { firstToken, idle, totalWhole } = model.upstream.deadlines
    if (model.silence.lasts(this.#deps.clock.nowMs(), Math.max(firstToken, idle, totalWhole))) supervisor.doubt()
    return { state: 'degraded', reason: `its ${spec.health} does not answer` }
  }

  /** Null for one whose server does not run here. */
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

  /** Null for one whose server does not run here. */
  stateOf = (id: string): ServerState | null => this.#arrangement.models.get(id)?.supervisor.state ?? null

  /** Has a server run though nobody asks yet, whatever has failed. False where there is none of that id. */
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
   * Stops a server once what it answers has ended, or at once. Whoever waits for it, and the next request, starts it again. False where
   * there is none of that id.
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

  /** Resolves to how a server stands once it neither loads nor stops, nor waits for that. */
  settled = (id: string): Promise<ServerStatus | null> =>
    this.#until(id, ({ supervisor: { phase }, wanted }) => phase !== 'loading' && wanted === null)

  /** Resolves to how a server stands once it has been stopped: it may be loading again, for those that wait. */
  stopped = (id: string): Promise<ServerStatus | null> => this.#until(id, () => true)

  async #until(id: string, isSo: (model: ManagedModel) => boolean): Promise<ServerStatus | null> {
    const { models } = this.#arrangement
    const isMoving = (model: ManagedModel | undefined) =>
      model !== undefined && (model.isLeaving || model.supervisor.phase === 'stopping' || !isSo(model))
    while (isMoving(models.get(id)) && !this.#arrangement.isDraining) await sleep(this.#deps.clock, LOOK_MS)
    return this.status(id)
  }

  /** Nothing is started any more: those that wait for that are told so. */
  drain(): void {
    this.#arrangement.isDraining = true
    for (const model of this.#arrangement.models.values())
      if (model.supervisor.phase !== 'ready') model.refuseAll(toStopping())
  }

  /** Stops all of them, whatever they do. */
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

/** What it waits for beside its turn. */
const toWhat = ({ supervisor: { phase } }: ManagedModel) =>
  phase === 'ready' ? '' : phase === 'stopped' ? 'for memory' : 'loading'

/** Whether its words have a place for the model that leads to it. */
const hasSlug = ({ command }: ProcessSpec) => command.some((word) => word.includes('{slug}'))

/** By the ids of upstreams the slug of the first model that leads to each. */
function toSlugs(models: Iterable<CatalogModel>): Map<string, string> {
  const slugs = new Map<string, string>()
  for (const { facts, targets } of models)
    for (const { upstream } of targets) slugs.getOrInsertComputed(upstream.id, () => facts.id)
  return slugs
}
