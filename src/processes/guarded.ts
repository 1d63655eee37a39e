/**
 * A program in a process group of its own together with a guard: a shell that reads a pipe from us, and ends the whole group when that
 * pipe closes, whatever has closed it. So nothing of the group is left when this process is gone, also where that was killed.
 */
import { Hider } from './hide.ts'

/** How a program has ended. */
export interface Ending {
  /** Null where a signal did it. */
  code: number | null
  /** Such as `exited with 1`. */
  how: string
}

export interface Guarded {
  pid: number
  /** Null while it runs. */
  readonly ending: Ending | null
  /** Resolves once it has ended, nothing of its group is left, and what it wrote has been taken. */
  exited: Promise<Ending>
  /** Sends a signal to its whole group. */
  signal(name: 'SIGTERM' | 'SIGKILL'): void
}

export interface GuardedOptions {
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
export function spawnGuarded(words: readonly string[], { environment, secret, write }: GuardedOptions) {
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
