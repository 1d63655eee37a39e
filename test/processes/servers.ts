/** Simulated servers without processes, for tests of scheduling: each does what the test says. */
import type { ProcessSpec } from '../../src/domain/model-server.ts'
import type { Launched } from '../../src/processes/child.ts'
import type { Look } from '../../src/processes/engine.ts'

export const toSpec = (fields: Partial<ProcessSpec> = {}): ProcessSpec => ({
  command: ['llama-server'],
  stopCommand: null,
  health: '/health',
  idleMs: 600_000,
  memoryBytes: null,
  device: null,
  pin: false,
  preload: false,
  startMs: 120_000,
  hash: 'h',
  ...fields,
})

export interface FakeServer extends Launched {
  look: Look['state']
  /** Signals sent to it. */
  signals: string[]
  /** Ends it as if it had crashed. */
  end(how: string): void
}

/** @param isStubborn true if it only ends by KILL. */
export function createServer(
  port: number,
  { isStubborn = false, memoryBytes = null as number | null } = {},
): FakeServer {
  const ended = Promise.withResolvers<string>()
  const server: FakeServer = {
    ...{ port, key: `key ${port}`, slug: 'local/x', words: [], pid: port, ended: null, look: 'loading', signals: [] },
    exited: ended.promise,
    end(how) {
      server.ended = how
      ended.resolve(how)
    },
    signal(name) {
      server.signals.push(name)
      if (name === 'SIGKILL' || !isStubborn) server.end(`was killed by ${name}`)
    },
    memoryBytes: () => memoryBytes,
  }
  return server
}
