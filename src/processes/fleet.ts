/**
 * All model servers that run here, as the rest of a server sees them: places at one are asked for and given back, a configuration is
 * taken over, their state is told. `arrange.ts` decides which of them run.
 */
import type { EndSignal } from '../domain/end-signal.ts'
import { type UpstreamError, whyAborted } from '../domain/error.ts'
import type { ProcessSpec, ProcessSpecs, ServerState, ServerStatus } from '../domain/model-server.ts'
import type { CatalogModel, Snapshot, Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { type ArrangeDeps, Arrangement } from './arrange.ts'
import type { Launched } from './child.ts'
import { sleep } from './clock.ts'
import type { Look } from './look.ts'
import { type Lease, ManagedModel, type Ticket } from './model.ts'
import { toNote } from './note.ts'
import { toFailedReadiness, toFull, toGone, toStartError, toStopping, toWaitedTooLong } from './refusals.ts'
import { type StartFailure, Supervisor } from './supervisor.ts'

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

/** A server that has ended by itself, and for the first time, is waited for. */
const SHORT_RETRY_MS = 1_000

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
    this.#arrangement.budgetBytes = specs.memoryBytes
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
      } else models.set(id, this.#toModel(upstream, slug, spec))
    }
    for (const [id, model] of models) {
      if (declared.has(id)) continue
      model.isGone = true
      model.wanted = null
      model.refuseAll(toGone())
    }
    this.#arrangement.changed()
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
    if (signal.aborted) throw whyAborted(signal)
    const model = this.#require(upstream.id)
    const { line } = model
    const ticket: Ticket = { ...answer, owner, upstream, sinceMs: clock.nowMs() }
    const turnedAway = line.join(ticket)
    turnedAway?.reject(toFull(line.length, model.expectedMs(clock.nowMs())))
    const giveUp = (why: UpstreamError) => {
      if (!line.leave(ticket)) return
      ticket.reject(why)
      this.#arrangement.changed()
    }
    const leave = () => giveUp(whyAborted(signal))
    signal.addEventListener('abort', leave, { once: true })
    const takeBack = clock.after(patienceMs, () => giveUp(toWaitedTooLong(patienceMs)))
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
  #require(id: string): ManagedModel {
    const model = this.#arrangement.models.get(id)
    if (!model || model.isGone) throw toGone()
    const { phase, state, failure } = model.supervisor
    if (this.#arrangement.isDraining && phase !== 'ready') throw toStopping()
    if (state === 'failed' && failure && !this.#isShort(failure, model.supervisor)) throw this.#toError(model, failure)
    return model
  }

  /** Asks how a server is, and starts none for that. Never throws. */
  async probe({ id }: Upstream): Promise<Readiness> {
    const model = this.#arrangement.models.get(id)
    if (!model) return { state: 'unknown' }
    const { supervisor, spec } = model
    const { server, failure, phase, state } = supervisor
    if (state === 'failed' && failure) return toFailedReadiness(failure)
    // A request starts it.
    if (phase !== 'ready' || server === null) return { state: 'ready' }
    const look = await this.#deps.engine.look(server, spec)
    if (supervisor.server !== server) return { state: 'unknown' }
    supervisor.isSleeping = look.state === 'sleeping'
    if (look.state !== 'loading' && look.state !== 'foreign') return { state: 'ready' }
    // It may be busy: only calls that fail say that it is sick.
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
      waiting: line.length,
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

  /** Stops a server once what it answers has ended. The next request starts it again. False where there is none of that id. */
  stop(id: string): boolean {
    const model = this.#arrangement.models.get(id)
    if (!model) return false
    model.wanted = null
    if (model.supervisor.phase === 'ready' || model.supervisor.phase === 'loading') model.isLeaving = true
    this.#arrangement.changed()
    return true
  }

  /** Resolves to how a server stands once it neither loads nor stops, nor waits for that. */
  async settled(id: string): Promise<ServerStatus | null> {
    const { models } = this.#arrangement
    const isMoving = (model: ManagedModel | undefined) =>
      model !== undefined &&
      (model.isLeaving || model.wanted !== null || ['loading', 'stopping'].includes(model.supervisor.phase))
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

  #toModel(upstream: Upstream, slug: string, spec: ProcessSpec): ManagedModel {
    const model = new ManagedModel(upstream, slug, spec, this.#supervise(upstream.id, spec))
    if (spec.preload) model.wanted = 'preload'
    model.wantedSinceMs = this.#deps.clock.nowMs()
    return model
  }

  #supervise(id: string, spec: ProcessSpec): Supervisor {
    const { engine, clock, log } = this.#deps
    const { models } = this.#arrangement
    const supervisor: Supervisor = new Supervisor({
      spec,
      clock,
      launch: () => engine.launch(id, models.get(id)?.slug ?? id, spec),
      look: (server) => engine.look(server, spec),
      runStopCommand: (server) => engine.runStopCommand(id, server, spec),
      onChange: () => {
        const model = models.get(id)
        const { phase, server, loadMs } = supervisor
        if (phase === 'stopped' || phase === 'failed') model?.forget()
        if (phase === 'stopped') log.info('process_stopped', 'a model server has stopped', { upstream: id })
        if (phase === 'ready') {
          const about = { upstream: id, pid: server?.pid, load_ms: Math.round(loadMs ?? 0) }
          log.info('process_ready', 'a model server is ready', about)
          if (model) this.#arrangement.measure(model)
          if (model && server) this.#deps.onReady?.(model.toLeased(model.upstream, server), server)
        }
        this.#arrangement.changed()
      },
      onFailed: (failure) => {
        log.error('process_failed', 'a model server has failed', { upstream: id, reason: failure.reason })
        const model = models.get(id)
        if (!model) return
        model.wanted = null
        if (!this.#isShort(failure, supervisor)) model.refuseAll(this.#toError(model, failure))
      },
    })
    return supervisor
  }

  /** Whether it will be tried again at once, so that whoever waits may go on. */
  #isShort = ({ kind }: StartFailure, { retryAtMs }: Supervisor) =>
    kind === 'crashed' && !this.#arrangement.isDraining && retryAtMs - this.#deps.clock.nowMs() <= SHORT_RETRY_MS

  #toError = ({ supervisor, spec }: ManagedModel, failure: StartFailure): UpstreamError =>
    toStartError(failure, spec.startMs, Math.max(0, supervisor.retryAtMs - this.#deps.clock.nowMs()))
}

/** Whether its words have a place for the model that leads to it. */
const hasSlug = ({ command }: ProcessSpec) => command.some((word) => word.includes('{slug}'))

const toWhat = ({ supervisor: { phase } }: ManagedModel) =>
  phase === 'ready' ? '' : phase === 'stopped' ? 'for memory' : 'loading'

/** By the ids of upstreams the slug of the first model that leads to each. */
function toSlugs(models: Iterable<CatalogModel>): Map<string, string> {
  const slugs = new Map<string, string>()
  for (const { facts, targets } of models)
    for (const { upstream } of targets) slugs.getOrInsertComputed(upstream.id, () => facts.id)
  return slugs
}
