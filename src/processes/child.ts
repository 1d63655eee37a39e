/** A model server as a child process under a guard, and the command that ends one where signals do not. */
import { readFileSync } from 'node:fs'
import type { ProcessSpec } from '../domain/model-server.ts'
import { explainProgram, type Filling, fill, KEY_VARIABLE, toServerEnvironment } from './command.ts'
import { runGuarded, spawnGuarded } from './guarded.ts'
import { endLeftovers } from './leftovers.ts'

/** A server that was started. */
export interface Launched extends Filling {
  pid: number
  /** Its command as it was run. */
  words: readonly string[]
  /** Resolves once it has ended, and nothing of it is left: to how, such as `exited with 1`. */
  exited: Promise<string>
  /** Null while it runs; how it has ended. */
  ended: string | null
  /** Sends a signal to its whole group. */
  signal(name: 'SIGTERM' | 'SIGKILL'): void
  /** What it has in memory now; null where that is not known. */
  memoryBytes(): number | null
}

export interface LaunchOptions {
  environment: Readonly<Record<string, string | undefined>>
  /** See `toServerEnvironment`. */
  owner: string | null
  /** Takes what it writes, without its key. */
  write(text: string): void
}

/** Starts a server. Throws an Error whose message says what to do, where that cannot be. */
export function launch(spec: ProcessSpec, filling: Filling, options: LaunchOptions): Launched {
  const words = fill(spec.command, filling)
  const guarded = spawnGuarded(words, toGuarded(words, filling, options))
  // It alone must not keep a command alive; a server stops it by itself.
  guarded.unref()
  return {
    ...filling,
    words,
    pid: guarded.pid,
    get ended() {
      return guarded.ending?.how ?? null
    },
    exited: guarded.exited.then(async ({ how }) => {
      await endLeftovers(KEY_VARIABLE, filling.key, 2)
      return how
    }),
    signal: guarded.signal,
    memoryBytes: () => (guarded.ending === null ? readMemory(guarded.pid) : null),
  }
}

/** Throws an Error whose message says what to do, where there is no such program. */
function toGuarded([program = '']: readonly string[], { key }: Filling, { environment, owner, write }: LaunchOptions) {
  const problem = explainProgram(program, environment.PATH ?? '')
  if (problem !== null) throw new Error(problem)
  return { environment: toServerEnvironment(environment, key, owner), secret: key, write }
}

/** Resident memory of a process and of what it has started, as Linux tells it (proc_pid_status(5)); null elsewhere. */
function readMemory(pid: number): number | null {
  try {
    const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
    return children.reduce((sum, child) => sum + (readMemory(Number(child)) ?? 0), Number(kib ?? 0) * 1024)
  } catch {
    return null
  }
}

/** Most that a stop command may take. */
const STOP_COMMAND_MS = 15_000

/** Runs the command that ends a server where signals do not. Never throws: there may be nothing to end. */
export async function runStopCommand(spec: ProcessSpec, filling: Filling, options: LaunchOptions): Promise<void> {
  if (spec.stopCommand === null) return
  const words = fill(spec.stopCommand, filling)
  try {
    const { isLate } = await runGuarded(words, { ...toGuarded(words, filling, options), mostMs: STOP_COMMAND_MS })
    if (isLate) options.write(`its stop_command had not ended after ${STOP_COMMAND_MS / 1_000} s, and was ended\n`)
  } catch (error) {
    options.write(`its stop_command could not be run: ${error instanceof Error ? error.message : String(error)}\n`)
  }
}
