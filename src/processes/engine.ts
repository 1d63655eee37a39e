/** Model servers as processes of this machine: each start has a free port, a new key, and the log of its upstream. Called by `fleet.ts`. */
import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { launch, runStopCommand } from './child.ts'
import type { Filling } from './command.ts'
import { LogFile } from './log-file.ts'
import { lookAt } from './look.ts'
import type { Engine } from './supervise.ts'

export interface EngineOptions {
  /** Where logs are. */
  folder: string
  /** See `toServerEnvironment`. */
  owner: string | null
  environment: Readonly<Record<string, string | undefined>>
  /** Wall clock, ms. */
  now(): number
  /** A port of 127.0.0.1 where nobody listens. */
  findPort?(): number
}

/** Where the log of an upstream's server is; what was written before it is in `<path>.1`. */
export const logPath = (folder: string, id: string) => join(folder, `${id}.log`)

export function createEngine({ folder, owner, environment, now, findPort = findFreePort }: EngineOptions): Engine {
  const logs = new Map<string, LogFile>()
  const logOf = (id: string) => logs.getOrInsertComputed(id, () => new LogFile(logPath(folder, id)))
  const optionsOf = (id: string) => ({ environment, owner, write: (text: string) => logOf(id).write(text) })
  const tell = (id: string, what: string) => logOf(id).write(`--- ${new Date(now()).toISOString()} ${what}\n`)
  return {
    async launch(id, slug, spec) {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      const filling: Filling = { port: findPort(), key: randomBytes(24).toString('base64url'), slug }
      // One of an earlier process may be left, where a signal does not reach it.
      await runStopCommand(spec, filling, optionsOf(id))
      try {
        const server = launch(spec, filling, optionsOf(id))
        tell(id, `started as process ${server.pid} on port ${server.port}`)
        void server.exited.then((how) => tell(id, how))
        return server
      } catch (error) {
        tell(id, `not started: ${error instanceof Error ? error.message : String(error)}`)
        throw error
      }
    },
    look: lookAt,
    runStopCommand: (id, server, spec) => runStopCommand(spec, server, optionsOf(id)),
  }
}

/** A port of 127.0.0.1 where nobody listens. */
export function findFreePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  listener.stop(true)
  return listener.port
}
