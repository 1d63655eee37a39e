/** Model servers as a part of a running server: their logs and what was measured of them are in its data folder. Called by `server.ts`. */
import { join } from 'node:path'
import type { DialectName } from '../domain/settings.ts'
import type { Environment } from '../domain/snapshot.ts'
import { withEngines } from '../engines/find.ts'
import type { Log } from '../log.ts'
import { createManagedBackend } from '../processes/backend.ts'
import { systemClock } from '../processes/clock.ts'
import { createEngine, logPath } from '../processes/engine.ts'
import { Fleet, type FleetDeps } from '../processes/fleet.ts'
import { readMeasured } from '../processes/measured.ts'
import type { Backend } from '../upstreams/backend.ts'

export interface FleetOptions extends Pick<FleetDeps, 'onReady'> {
  dataFolder: string
  environment: Environment
  /** Wall clock, ms. */
  now(): number
  log: Log
}

const logsFolder = (dataFolder: string) => join(dataFolder, 'logs')

/** Where the log of an upstream's model server is; what was written before it is in `<path>.1`. */
export const logOf = (dataFolder: string, id: string) => logPath(logsFolder(dataFolder), id)

export const createFleet = ({ dataFolder, environment, now, log, ...hooks }: FleetOptions): Fleet =>
  new Fleet({
    ...hooks,
    clock: systemClock,
    measured: readMeasured(join(dataFolder, 'run', 'memory.json'), log),
    engine: createEngine({ folder: logsFolder(dataFolder), environment: withEngines(environment, dataFolder), now }),
    log,
  })

/** The same backends, for upstreams too whose servers are started here. */
export function withFleet(backends: Record<DialectName, Backend>, fleet: Fleet): Record<DialectName, Backend> {
  const managed = Object.entries(backends).map(([name, backend]): [string, Backend] => [
    name,
    createManagedBackend(backend, fleet),
  ])
  return { ...backends, ...Object.fromEntries(managed) }
}
