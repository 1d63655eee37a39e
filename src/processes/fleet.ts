/**
 * All model servers that run here, as the rest of a server sees them: places at one are asked for (`wait.ts`), a configuration is taken
 * over (`configure.ts`), their state is told, they are started and stopped by hand. `arrange.ts` decides which of them run.
 */
import type { ProcessSpecs, ServerState, ServerStatus } from '../domain/model-server.ts'
import type { Snapshot, Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { Arrangement } from './arrange.ts'
import { sleep } from './clock.ts'
import { configure } from './configure.ts'
import type { Lease, ManagedModel } from './model.ts'
import { TOO_LARGE, toFailed, toFailedReadiness, toStopping } from './refusals.ts'
import { type SuperviseDeps, supervise } from './supervise.ts'
import { type Ask, waitForPlace } from './wait.ts'

/** How often somebody who waits for a server looks at it. */
const LOOK_MS = 50

export class Fleet {
  readonly #deps: SuperviseDeps
  readonly #arrangement: Arrangement

  constructor(deps: SuperviseDeps) {
    this.#deps = deps
    this.#arrangement = new Arrangement(deps)
  }

  /** Takes over a configuration. What is gone from it, or has another command, ends once it has answered what it is answering. */
  renew(snapshot: Snapshot, specs: ProcessSpecs): void {
    const arrangement = this.#arrangement
    const deps = {
      arrangement,
      nowMs: this.#deps.clock.nowMs,
      supervise: supervise.bind(null, this.#deps, arrangement),
    }
    configure(deps, snapshot, specs)
  }

  /** Resolves to a place at its server, once that is ready and it is the owner's turn. Rejects with an UpstreamError. */
  lease(ask: Ask): Promise<Lease> {
    return waitForPlace({ arrangement: this.#arrangement, clock: this.#deps.clock }, ask)
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
