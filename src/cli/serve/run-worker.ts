/** A process that `serve --processes` starts; see `server/workers/keeper.ts`. */
import { toServeConfig } from '../../config.ts'
import { createLog } from '../../log.ts'
import { runWorker } from '../../server/workers/worker.ts'
import { type Context, version } from '../io.ts'
import { type Flags, installCrashHandlers, toLogLevel, withJoined } from './run-server.ts'

/** Resolves after a graceful stop. Throws a ServiceError on a failed start. */
export async function runWorkerProcess(io: Context, given: Flags, keeper: string): Promise<void> {
  const { dataFolder, environment, nowMs: now } = io
  const flags = withJoined(given, io)
  // The keeper stops it, even on a terminal, where Ctrl-C reaches all processes.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
  process.umask(0o077)
  const log = createLog({ now })
  installCrashHandlers(log)
  const isClean = await runWorker({
    ...{ dataFolder, keeper, environment, log, now, version: version() },
    configure(settings) {
      const config = toServeConfig({ flags, environment, settings })
      log.setLevel(toLogLevel(config, io))
      return config
    },
    onServing: () => Bun.unsafe.setJITPolicy(1),
  })
  if (!isClean) process.exit(1)
}
