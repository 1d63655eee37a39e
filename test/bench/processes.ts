/**
 * Child processes, and their CPU time and memory with descendants from /proc. Each has its own process group, killed
 * with the benchmark.
 */
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'

/** CLK_TCK of every Linux that Bun runs on. */
const TICKS_PER_SECOND = 100

const running = new Set<Bun.Subprocess>()

export interface Started {
  pid: number
  /** Kills its group and waits. */
  stop(): Promise<void>
  /** Ends it gracefully. */
  drain(): Promise<void>
}

/** Output goes to a file. If it exits early, the benchmark fails. */
export function startProcess(command: string[], logFile: string, env: Record<string, string> = {}): Started {
  const log = openSync(logFile, 'a')
  const child = Bun.spawn(command, {
    stdin: 'pipe',
    stdout: log,
    stderr: log,
    env: { ...process.env, ...env },
    // Its own group: killing only nginx's master leaves its worker behind.
    detached: true,
  })
  closeSync(log)
  running.add(child)
  let wanted = true
  const ended = child.exited.then((code) => {
    running.delete(child)
    if (!wanted) return
    const said = readFileSync(logFile, 'utf8').split('\n').slice(-20).join('\n')
    console.error(`ended unasked with ${child.signalCode ?? code}: ${command.join(' ')}\n${said}`)
    process.exit(1)
  })
  return {
    pid: child.pid,
    async stop() {
      wanted = false
      killGroup(child)
      await ended
    },
    async drain() {
      wanted = false
      child.kill('SIGTERM')
      await ended
    },
  }
}

function killGroup(child: Bun.Subprocess): void {
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    child.kill('SIGKILL')
  }
}

/** On the benchmark's end, an interrupt, or after `limitMs`. */
export function guardChildren(limitMs: number): void {
  const killAll = () => {
    for (const child of running) killGroup(child)
  }
  process.on('exit', killAll)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(130))
  const timer = setTimeout(() => {
    console.error(`the benchmark did not end within ${limitMs / 1000} s`)
    process.exit(1)
  }, limitMs)
  timer.unref()
}

/** User and system time with descendants, in microseconds, to 10 ms. */
export function cpuMicros(pid: number): number {
  return sumOver(pid, (id) => toMicros(readFileSync(`/proc/${id}/stat`, 'utf8')))
}

function toMicros(stat: string): number {
  // The name in parentheses may hold blanks; fields count after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1e6
}

/**
 * Returns the CPU of compiler threads since, in microseconds, to 10 ms per thread; without ended threads, which end
 * only when idle.
 */
export function followJit(pid: number): () => number {
  const before = jitMicrosByThread(pid)
  return () => {
    const used = [...jitMicrosByThread(pid)].map(([thread, micros]) => micros - (before.get(thread) ?? 0))
    return used.reduce((sum, micros) => sum + micros, 0)
  }
}

function jitMicrosByThread(pid: number): Map<string, number> {
  const found = new Map<string, number>()
  for (const thread of readdirSync(`/proc/${pid}/task`))
    try {
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')
      if (stat.includes('(JIT')) found.set(thread, toMicros(stat))
    } catch {
      // It ended between the two reads.
    }
  return found
}

/** The same to the microsecond, for short periods: ended threads are missing; null if the kernel doesn't report it. */
export function fineCpuMicros(pid: number): number | null {
  const nanos = sumOver(pid, (id) =>
    readdirSync(`/proc/${id}/task`).reduce((sum, thread) => {
      const [running = 0] = readFileSync(`/proc/${id}/task/${thread}/schedstat`, 'utf8').split(' ').map(Number)
      return sum + running
    }, 0),
  )
  return nanos > 0 ? nanos / 1000 : null
}

/** Including descendants, in MB. */
export const rssMegabytes = (pid: number): number => sumOver(pid, (id) => statusMegabytes(id, 'VmRSS'))

/** Sum of each one's peak. */
export const peakMegabytes = (pid: number): number => sumOver(pid, (id) => statusMegabytes(id, 'VmHWM'))

function statusMegabytes(pid: number, name: string): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1024
}

function sumOver(pid: number, measure: (pid: number) => number): number {
  return [pid, ...descendantsOf(pid)].reduce((sum, id) => {
    try {
      return sum + measure(id)
    } catch {
      return sum
    }
  }, 0)
}

function descendantsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')
        .split(' ')
        .filter((id) => id !== '')
        .flatMap((id) => [Number(id), ...descendantsOf(Number(id))]),
    )
  } catch {
    return []
  }
}

/** Repeats until `url` returns 2xx. Throws after `limitMs`. */
export async function waitUntilUp(
  url: string,
  init: RequestInit = {},
  limitMs = 10_000,
  pauseMs = 10,
): Promise<Response> {
  const until = performance.now() + limitMs
  for (;;) {
    const answer = await fetch(url, init).catch(() => null)
    if (answer?.ok) return answer
    const said = answer ? `${answer.status} ${await answer.text()}` : 'no answer'
    if (performance.now() > until) throw new Error(`${url} was not up within ${limitMs} ms: ${said}`)
    await Bun.sleep(pauseMs)
  }
}
