/**
 * A model server as a child process. It runs in a process group of its own together with a guard: a shell that reads a pipe from us, and ends the
 * whole group when that pipe closes, whatever has closed it. So nothing of the group is left when this process is gone, also where that was killed.
 */
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import type { ProcessSpec } from '../domain/model-server.ts'
import { explainProgram, type Filling, fill, KEY_VARIABLE, toServerEnvironment } from './command.ts'

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

interface LaunchOptions {
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

/** Text that comes in pieces, without a secret: also where that lies across two of them. */
export class Hider {
  readonly #secret: string
  /** The end of what came, where the secret may begin there. */
  #held = ''

  constructor(secret: string) {
    this.#secret = secret
  }

  /** Returns what may be shown by now. */
  take(piece: string): string {
    const text = `${this.#held}${piece}`.replaceAll(this.#secret, HIDDEN)
    const shown = text.length - this.#begun(text)
    this.#held = text.slice(shown)
    return text.slice(0, shown)
  }

  /** Returns the rest, once nothing more comes. */
  end(): string {
    return this.#held.length < TELLING ? this.#held : HIDDEN
  }

  /** With how many of its characters, but not all, a text ends. */
  #begun(text: string): number {
    let count = Math.min(this.#secret.length - 1, text.length)
    while (count > 0 && !text.endsWith(this.#secret.slice(0, count))) count--
    return count
  }
}

const HIDDEN = '…'
/** So many of its characters are no chance any more. */
const TELLING = 4

/** How a program has ended. */
interface Ending {
  /** Null where a signal did it. */
  code: number | null
  /** Such as `exited with 1`. */
  how: string
}

interface GuardedOptions {
  environment: Readonly<Record<string, string>>
  /** Is taken out of what it writes; null = nothing. */
  secret: string | null
  /** Takes what it writes. */
  write(text: string): void
}

/** The guard hears no signal but KILL, and holds none of the program's files. */
const SCRIPT =
  'exec 3<&0; (trap "" TERM INT HUP; read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & exec "$@" </dev/null 3<&-'

/** What is still in its pipes when it ends is read for so long: whoever has left its group may hold them for ever. */
const LAST_WORDS_MS = 1_000

/** Starts a program that there is. */
function spawnGuarded(words: readonly string[], { environment, secret, write }: GuardedOptions) {
  const child = Bun.spawn(['sh', '-c', SCRIPT, 'tollgate-server', ...words], {
    env: environment,
    // A group of its own.
    detached: true,
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const read = [child.stdout, child.stderr].map((stream) => keep(stream, secret, write))
  let ending: Ending | null = null
  let isGone = false
  const signal = (name: NodeJS.Signals) => {
    try {
      // The guard keeps the number of the group from becoming somebody else's.
      if (!isGone) process.kill(-child.pid, name)
    } catch {
      // All of it has ended.
    }
  }
  const exited = child.exited.then(async () => {
    const { exitCode: code, signalCode } = child
    ending = { code, how: signalCode === null ? `exited with ${code}` : `was ended by ${signalCode}` }
    // What it has started itself goes with its guard.
    child.stdin.end()
    signal('SIGKILL')
    isGone = true
    await Promise.race([Promise.all(read), Bun.sleep(LAST_WORDS_MS)])
    return ending
  })
  return {
    pid: child.pid,
    get ending() {
      return ending
    },
    exited,
    signal,
    /** It alone keeps no command alive. */
    unref: () => child.unref(),
  }
}

/** Runs a program that there is to its end. After `mostMs` it is ended, with all of its group, and `isLate`. */
export async function runGuarded(
  words: readonly string[],
  options: GuardedOptions & { mostMs: number },
): Promise<Ending & { isLate: boolean }> {
  const child = spawnGuarded(words, options)
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    child.signal('SIGKILL')
  }, options.mostMs)
  const ending = await child.exited
  clearTimeout(timer)
  return { ...ending, isLate }
}

async function keep(
  stream: ReadableStream<Uint8Array>,
  secret: string | null,
  write: (text: string) => void,
): Promise<void> {
  const utf8 = new TextDecoder()
  const hider = secret === null ? null : new Hider(secret)
  const show = (text: string) => {
    if (text !== '') write(text)
  }
  try {
    for await (const piece of stream) {
      const text = utf8.decode(piece, { stream: true })
      show(hider ? hider.take(text) : text)
    }
  } catch {
    // It has ended.
  }
  show(hider?.end() ?? '')
}

/** What is ended is looked for anew so often, since it may be starting something just then. */
const MAX_LOOKS = 10
const LOOK_MS = 10

/**
 * Ends what has left the process group that it was started in, and by that its guard, as daemons do: it is known by a variable of the
 * environment that it was started with. On Linux alone, which tells it (proc_pid_environ(5)).
 * Resolves to how many processes were ended. Never throws.
 * @param leastLooks 2 where one may just be becoming another program: it tells no environment then.
 */
export async function endLeftovers(variable: string, value: string, leastLooks = 1): Promise<number> {
  const ended = new Set<number>()
  for (let looks = 0; looks < MAX_LOOKS; looks++) {
    if (looks > 0) await Bun.sleep(LOOK_MS)
    const found = await findBy(`${variable}=${value}`)
    if (found.length === 0 && looks + 1 >= leastLooks) break
    for (const pid of found) if (end(pid)) ended.add(pid)
  }
  return ended.size
}

async function findBy(word: string): Promise<number[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number)
  const found: number[] = []
  for (const pid of pids) {
    if (pid === process.pid) continue
    // Those of other users are not told, and those that have ended have none.
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
    if (environment.split('\0').includes(word)) found.push(pid)
  }
  return found
}

function end(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL')
  } catch {
    return false
  }
}
