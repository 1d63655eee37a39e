/** Model servers as a part of a running server: their logs and what was measured of them are in its data folder. Called by `server.ts`. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { DialectName } from '../domain/dialects.ts'
import type { Environment } from '../domain/snapshot.ts'
import { withEngines } from '../engines/find.ts'
import type { Log } from '../log.ts'
import { createManagedBackend } from '../processes/backend.ts'
import { systemClock } from '../processes/clock.ts'
import { OWNER_VARIABLE } from '../processes/command.ts'
import { createEngine, logPath } from '../processes/engine.ts'
import { Fleet } from '../processes/fleet.ts'
import { endLeftovers } from '../processes/leftovers.ts'
import { readMeasured } from '../processes/measured.ts'
import type { SuperviseDeps } from '../processes/supervise.ts'
import type { Backend } from '../upstreams/backend.ts'

export interface FleetOptions extends Pick<SuperviseDeps, 'onReady'> {
  dataFolder: string
  environment: Environment
  /** Wall clock, ms. */
  now(): number
  log: Pick<Log, 'info' | 'warn' | 'error'>
}

const logsFolder = (dataFolder: string) => join(dataFolder, 'logs')

/** Where the log of an upstream's model server is; what was written before it is in `<path>.1`. */
export const logOf = (dataFolder: string, id: string) => logPath(logsFolder(dataFolder), id)

/** First ends what an earlier server on the same data has left, where that was killed. The caller holds `serve.lock`. */
export async function createFleet({ dataFolder, environment, now, log, ...hooks }: FleetOptions): Promise<Fleet> {
  const owner = toOwner(dataFolder)
  const left = await endLeftovers(OWNER_VARIABLE, owner)
  if (left > 0)
    log.warn('process_left', 'processes of model servers were left by an earlier server, and are ended', {
      count: left,
    })
  return new Fleet({
    ...hooks,
    clock: systemClock,
    measured: readMeasured(join(dataFolder, 'run', 'memory.json'), log),
    engine: createEngine({
      folder: logsFolder(dataFolder),
      owner,
      environment: withEngines(environment, dataFolder),
      now,
    }),
    log,
  })
}

/** Which folder it is, whatever path leads to it: in a container another one may have the same path. */
function toOwner(dataFolder: string): string {
  const { dev, ino } = statSync(dataFolder, { bigint: true })
  return `${dev}:${ino}`
}

/** The same backends, for upstreams too whose servers are started here. */
export function withFleet(backends: Record<DialectName, Backend>, fleet: Fleet): Record<DialectName, Backend> {
  const managed = Object.entries(backends).map(([name, backend]): [string, Backend] => [
    name,
    createManagedBackend(backend, fleet),
  ])
  return { ...backends, ...Object.fromEntries(managed) }
}
