/**
 * A model server in its own process group with a guard: a shell that kills the group when its pipe from Tollgate
 * closes, even if Tollgate is killed.
 */
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import type { ProcessSpec } from '../domain/model-server.ts'
import { explainProgram, type Filling, fill, KEY_VARIABLE, toServerEnvironment } from './command.ts'

export interface Launched extends Filling {
  pid: number
  words: readonly string[]
  /** Resolves once its whole group has ended, with text such as `exited with 1`. */
  exited: Promise<string>
  /** Null while it runs. */
  ended: string | null
  signal(name: 'SIGTERM' | 'SIGKILL'): void
  memoryBytes(): number | null
}

interface LaunchOptions {
  environment: Readonly<Record<string, string | undefined>>
  /** See `toServerEnvironment`. */
  owner: string | null
  /** Its output, with the key redacted. */
  write(text: string): void
}

/** @throws an Error that says what to do. */
export function launch(spec: ProcessSpec, filling: Filling, options: LaunchOptions): Launched {
  const words = fill(spec.command, filling)
  const guarded = spawnGuarded(words, toGuarded(words, filling, options))
  // A CLI command may exit without it; `serve` stops it explicitly.
  guarded.unref()
  return {
    ...filling,
    words,
    pid: guarded.pid,
    get ended() {
      return guarded.ending?.how ?? null
    },
    exited: guarded.exited.then(async ({ how }) => {
      await killOrphans(KEY_VARIABLE, filling.key, 2)
      return how
    }),
    signal: guarded.signal,
    memoryBytes: () => (guarded.ending === null ? readMemory(guarded.pid) : null),
  }
}

/** @throws an Error that says what to do if the program doesn't exist. */
function toGuarded([program = '']: readonly string[], { key }: Filling, { environment, owner, write }: LaunchOptions) {
  const problem = explainProgram(program, environment.PATH ?? '')
  if (problem !== null) throw new Error(problem)
  return { environment: toServerEnvironment(environment, key, owner), secret: key, write }
}

/** Resident memory with children (Linux: proc_pid_status(5)); null elsewhere. */
function readMemory(pid: number): number | null {
  try {
    const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
    return children.reduce((sum, child) => sum + (readMemory(Number(child)) ?? 0), Number(kib ?? 0) * 1024)
  } catch {
    return null
  }
}

const STOP_COMMAND_MS = 15_000

/** Runs the stop command of a server that signals don't stop. Never throws. */
export async function runStopCommand(spec: ProcessSpec, filling: Filling, options: LaunchOptions): Promise<void> {
  if (spec.stopCommand === null) return
  const words = fill(spec.stopCommand, filling)
  try {
    const { isLate } = await runGuarded(words, { ...toGuarded(words, filling, options), mostMs: STOP_COMMAND_MS })
    if (isLate) options.write(`stop_command timed out after ${STOP_COMMAND_MS / 1_000} s and was killed\n`)
  } catch (error) {
    options.write(`stop_command failed: ${error instanceof Error ? error.message : String(error)}\n`)
  }
}

/** Redacts a secret, also across pieces of text. */
export class Redactor {
  readonly #secret: string
  /** A possible start of the secret, not shown yet. */
  #held = ''

  constructor(secret: string) {
    this.#secret = secret
  }

  /** Returns text that is safe to show. */
  take(piece: string): string {
    const text = `${this.#held}${piece}`.replaceAll(this.#secret, HIDDEN)
    const shown = text.length - this.#begun(text)
    this.#held = text.slice(shown)
    return text.slice(0, shown)
  }

  end(): string {
    return this.#held.length < TELLING ? this.#held : HIDDEN
  }

  /** Length of the secret's start at the end of the text. */
  #begun(text: string): number {
    let count = Math.min(this.#secret.length - 1, text.length)
    while (count > 0 && !text.endsWith(this.#secret.slice(0, count))) count--
    return count
  }
}

const HIDDEN = '…'
/** This many characters don't match by coincidence. */
const TELLING = 4

interface Ending {
  /** Null if killed by a signal. */
  code: number | null
  how: string
}

interface GuardedOptions {
  environment: Readonly<Record<string, string>>
  /** Redacted from its output. */
  secret: string | null

  write(text: string): void
}

/** Ignores all signals except KILL, and keeps none of the program's files open. */
const SCRIPT =
  'exec 3<&0; (trap "" TERM INT HUP; read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & exec "$@" </dev/null 3<&-'

/** A process that left the group may hold the pipes open. */
const LAST_WORDS_MS = 1_000

/** The program must exist. */
function spawnGuarded(words: readonly string[], { environment, secret, write }: GuardedOptions) {
  const child = Bun.spawn(['sh', '-c', SCRIPT, 'tollgate-server', ...words], {
    env: environment,
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
      // While the guard runs, the group's number can't be reused.
      if (!isGone) process.kill(-child.pid, name)
    } catch {
      // The group has ended.
    }
  }
  const exited = child.exited.then(async () => {
    const { exitCode: code, signalCode } = child
    ending = { code, how: signalCode === null ? `exited with ${code}` : `was killed by ${signalCode}` }
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

    unref: () => child.unref(),
  }
}

/** The program must exist. Its group is killed after `mostMs`, with `isLate` true. */
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
  const hider = secret === null ? null : new Redactor(secret)
  const show = (text: string) => {
    if (text !== '') write(text)
  }
  try {
    for await (const piece of stream) {
      const text = utf8.decode(piece, { stream: true })
      show(hider ? hider.take(text) : text)
    }
  } catch {
    // The stream has ended.
  }
  show(hider?.end() ?? '')
}

/** Repeated, because a killed process may have just started another. */
const MAX_LOOKS = 10
const LOOK_MS = 10

/**
 * Kills daemonized descendants that left their process group, found by an environment variable (Linux only:
 * proc_pid_environ(5)). Never throws.
 * @param leastLooks 2 if a process may be in exec now, when its environment can't be read.
 * @returns the number killed.
 */
export async function killOrphans(variable: string, value: string, leastLooks = 1): Promise<number> {
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
