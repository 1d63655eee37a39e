/** Has a model's server supervised: by which engine it is run, and what is said, measured and refused as its phase changes. Called by `fleet.ts`. */
import type { ProcessSpec } from '../domain/model-server.ts'
import type { Upstream } from '../domain/snapshot.ts'
import type { ArrangeDeps, Arrangement } from './arrange.ts'
import type { Launched } from './child.ts'
import type { Look } from './look.ts'
import { toFailed } from './refusals.ts'
import { Supervisor } from './supervisor.ts'

/** What servers are made of: processes, but for tests. */
export interface Engine {
  /** Throws or rejects with an Error whose message says what to do. */
  launch(id: string, slug: string, spec: ProcessSpec): Promise<Launched>
  look(server: Launched, spec: ProcessSpec): Promise<Look>
  runStopCommand(id: string, server: Launched, spec: ProcessSpec): Promise<void>
}

export interface SuperviseDeps extends ArrangeDeps {
  engine: Engine
  /** A server can be asked from now on; the upstream has its address and key. */
  onReady?(upstream: Upstream, server: Launched): void
}

/** Makes the supervisor of the server of an upstream, which it does not start. */
export function supervise(
  { engine, clock, log, onReady }: SuperviseDeps,
  arrangement: Arrangement,
  id: string,
  spec: ProcessSpec,
): Supervisor {
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
