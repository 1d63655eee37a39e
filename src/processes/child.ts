/**
 * A model server as a child process, in a process group of its own together with a guard: a shell that reads a pipe from us, and
 * ends the whole group when that pipe closes, whatever has closed it. So nothing of it is left when this process is gone, also
 * where that was killed.
 */
import { readFileSync } from 'node:fs'
import type { ProcessSpec } from '../domain/model-server.ts'
import { explainProgram, type Filling, fill, toServerEnvironment } from './command.ts'
import { Hider } from './hide.ts'

/** A server that was started. */
export interface Launched extends Filling {
  pid: number
  /** Its command as it was run. */
  words: readonly string[]
  /** Resolves once it has ended, and nothing of its group is left: to how, such as `exited with 1`. */
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
  /** Takes what it writes, without its key. */
  write(text: string): void
}

/** The guard hears no signal but KILL, and holds none of the server's files. */
const GUARDED =
  'exec 3<&0; (trap "" TERM INT HUP; read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & exec "$@" </dev/null 3<&-'

/** Starts a server. Throws an Error whose message says what to do, where that cannot be. */
export function launch(spec: ProcessSpec, filling: Filling, { environment, write }: LaunchOptions): Launched {
  const words = fill(spec.command, filling)
  const [program = ''] = words
  const problem = explainProgram(program, environment.PATH ?? '')
  if (problem !== null) throw new Error(problem)
  const child = Bun.spawn(['sh', '-c', GUARDED, 'tollgate-server', ...words], {
    env: toServerEnvironment(environment, filling.key),
    // A group of its own.
    detached: true,
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  // It alone must not keep a command alive; a server stops it by itself.
  child.unref()
  const read = [keep(child.stdout, filling.key, write), keep(child.stderr, filling.key, write)]
  const launched: Launched = {
    ...filling,
    words,
    pid: child.pid,
    ended: null,
    exited: child.exited.then(async () => {
      launched.ended = child.signalCode === null ? `exited with ${child.exitCode}` : `was ended by ${child.signalCode}`
      // What it has started itself goes with its guard.
      child.stdin.end()
      signalGroup(child.pid, 'SIGKILL')
      await Promise.race([Promise.all(read), Bun.sleep(LAST_WORDS_MS)])
      return launched.ended
    }),
    signal: (name) => signalGroup(child.pid, name),
    memoryBytes: () => (launched.ended === null ? readMemory(child.pid) : null),
  }
  return launched
}

/** What is still in its pipes when it ends is read for so long. */
const LAST_WORDS_MS = 1_000

/** The guard keeps the number of the group from becoming somebody else's. */
function signalGroup(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(-pid, name)
  } catch {
    // All of it has ended.
  }
}

async function keep(stream: ReadableStream<Uint8Array>, key: string, write: (text: string) => void): Promise<void> {
  const utf8 = new TextDecoder()
  const hider = new Hider(key)
  try {
    for await (const piece of stream) write(hider.take(utf8.decode(piece, { stream: true })))
  } catch {
    // It has ended.
  }
  write(hider.end())
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
export async function runStopCommand(
  spec: ProcessSpec,
  filling: Filling,
  { environment, write }: LaunchOptions,
): Promise<void> {
  if (spec.stopCommand === null) return
  try {
    const child = Bun.spawn(fill(spec.stopCommand, filling), {
      env: toServerEnvironment(environment, filling.key),
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
      timeout: STOP_COMMAND_MS,
      killSignal: 'SIGKILL',
    })
    const said = Promise.all([keep(child.stdout, filling.key, write), keep(child.stderr, filling.key, write)])
    await child.exited
    // What it has left running may hold its pipes for ever.
    await Promise.race([said, Bun.sleep(LAST_WORDS_MS)])
  } catch (error) {
    write(`its stop_command could not be run: ${error instanceof Error ? error.message : String(error)}\n`)
  }
}
