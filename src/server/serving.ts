/** What the admin API asks of a running server, from its parts. Made by `server.ts`. */
import type { Speeds } from '../accounting/settle.ts'
import type { Serving } from '../admin/deps.ts'
import type { BackupShelf } from '../backup/shelf.ts'
import { toUpstreamStatuses } from '../documents/upstream.ts'
import type { Snapshot } from '../domain/snapshot.ts'
import type { Health } from '../health/health.ts'
import { ANY_KEY, listModels } from '../http/models.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Fleet } from '../processes/fleet.ts'
import { listModels as askForModels } from './outward.ts'
import { type RunFacts, toOwnStatus, type WatchedParts } from './status.ts'

export interface ServingDeps extends Pick<Serving, 'settings' | 'test' | 'chat'> {
  live: { readonly snapshot: Snapshot; refresh(): Promise<void> }
  health: Pick<Health, 'states' | 'forRequest'>
  ledger: Pick<Ledger, 'flush'>
  fleet: Pick<Fleet, 'status' | 'stateOf'>
  speeds: Pick<Speeds, 'of'>
  watched: WatchedParts
  shelf: Pick<BackupShelf, 'list'>
  /** As of now. */
  run(): RunFacts
  /** How many scheduled backups are kept. */
  backupKeep: number
}

export function createServing({
  live,
  health,
  ledger,
  fleet,
  speeds,
  watched,
  shelf,
  run,
  backupKeep,
  ...rest
}: ServingDeps): Serving {
  return {
    ...rest,
    async status() {
      const [{ waiting }, all] = await Promise.all([ledger.flush(), shelf.list()])
      const { version, url, started_ms, lost, backups } = run()
      return {
        ...toOwnStatus(watched),
        ...{ version, url, started_ms, lost, waiting },
        backups: { ...backups, keep: backupKeep, newest_ms: all.at(-1)?.madeMs ?? null },
      }
    },
    environment: {},
    readSnapshot: async () => live.snapshot,
    upstreams: () => toUpstreamStatuses(live.snapshot, health.states(), fleet, watched.figuresOf),
    modelsOf: (teamId) =>
      listModels({ live, health, serverStateOf: fleet.stateOf, speedOf: speeds.of }, { ...ANY_KEY, teamId }),
    async models(id) {
      const upstream = live.snapshot.upstreams.get(id)
      return upstream ? askForModels(upstream) : null
    },
    playgroundKey: (adminId) => live.snapshot.playgrounds.get(adminId) ?? null,
    refresh: live.refresh,
  }
}
