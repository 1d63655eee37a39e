/**
 * The built executable as a process: `dist/tollgate`, or TOLLGATE_BINARY, with its own folder and a clean environment.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const BINARY = process.env.TOLLGATE_BINARY ?? join(import.meta.dir, '../../dist/tollgate')

export interface Ran {
  code: number | null
  stdout: string
  stderr: string
}

export interface RunOptions {
  cwd?: string
  environment?: Record<string, string>
  /** Path of another copy. */
  binary?: string
  /** Options of the shell's `ulimit`, such as `-n 256`. */
  ulimit?: string
}

export interface RunningBinary {
  /** Ends in `/v1`. */
  baseUrl: string
  key: string | null
  pid: number
  stdout(): string
  stderr(): string
  signal(name: NodeJS.Signals): void
  exited: Promise<number>
  logged(text: string): Promise<void>
  /** Resident memory in bytes. */
  rss(): Promise<number>
}

/** Hides everything else that runs on the machine. */
const environmentOf = ({ environment = {} }: RunOptions) => ({
  ...{ PATH: process.env.PATH ?? '', TOLLGATE_DISCOVER: 'off' },
  ...environment,
})

const commandOf = (args: string[], { binary = BINARY, ulimit }: RunOptions) =>
  ulimit === undefined ? [binary, ...args] : ['sh', '-c', `ulimit ${ulimit} && exec "$0" "$@"`, binary, ...args]

function requireBinary(): void {
  if (existsSync(BINARY)) return
  throw new Error(`There is no ${BINARY}. These tests drive the built executable: make it with \`bun run build\`.`)
}

export async function runBinary(args: string[], options: RunOptions = {}): Promise<Ran> {
  requireBinary()
  const child = Bun.spawn([BINARY, ...args], {
    cwd: options.cwd ?? tmpdir(),
    env: environmentOf(options),
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 20_000,
  })
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
  await child.exited
  return { code: child.exitCode, stdout, stderr }
}

/** Starts `serve` on a free port and waits for it. Throws its standard error if it ends first. */
export async function startBinary(args: string[], options: RunOptions = {}): Promise<RunningBinary> {
  requireBinary()
  const child = Bun.spawn(commandOf(['serve', '--port', '0', ...args], options), {
    cwd: options.cwd ?? tmpdir(),
    env: environmentOf(options),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr] = [keep(child.stdout), keep(child.stderr)]
  const until = async (what: string, test: () => boolean) => {
    const end = performance.now() + 20_000
    while (!test()) {
      if (child.exitCode !== null) {
        // A process that the server started may hold it open.
        await Promise.race([stderr.ended, Bun.sleep(1_000)])
        throw new Error(`tollgate ended with ${child.exitCode}: ${stderr()}`)
      }
      if (performance.now() > end) throw new Error(`tollgate never said ${what}: ${stdout()} ${stderr()}`)
      await Bun.sleep(2)
    }
  }
  await until('how to reach it', () => stdout().includes('Try it from') && stdout().endsWith('\n\n'))
  const baseUrl = /is running at (https?:\S+)/.exec(stdout())?.[1]
  if (baseUrl === undefined) throw new Error(`tollgate did not say where it serves: ${stdout()}`)
  if (baseUrl.startsWith('http:')) await fetch(new URL('/healthz', baseUrl))
  return {
    baseUrl,
    key: /^sk-tg-\w+$/m.exec(stdout())?.[0] ?? null,
    pid: child.pid,
    stdout,
    stderr,
    signal: (name) => child.kill(name),
    exited: child.exited,
    logged: (text) => until(text, () => stderr().includes(text)),
    async rss() {
      const status = await Bun.file(`/proc/${child.pid}/status`).text()
      return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024
    },
  }
}

/** Makes the server apply its journal, for tests that read the database. */
export async function applyJournal(dataFolder: string): Promise<void> {
  const response = await fetch('http://localhost/ledger/flush', {
    unix: join(dataFolder, 'control.sock'),
    method: 'POST',
  })
  const flushed: unknown = await response.json()
  if (JSON.stringify(flushed).includes('"waiting":0')) return
  throw new Error(`the server did not apply its journal: ${JSON.stringify(flushed)}`)
}

function keep(stream: ReadableStream<Uint8Array>): (() => string) & { ended: Promise<void> } {
  let text = ''
  const utf8 = new TextDecoder()
  const read = async () => {
    for await (const piece of stream) text += utf8.decode(piece, { stream: true })
  }
  return Object.assign(() => text, { ended: read() })
}

export interface Workplace {
  /** An empty folder. */
  folder: string
  write(name: string, text: string): Promise<string>
  serve(args?: string[], options?: RunOptions): Promise<RunningBinary>
  run(...args: string[]): Promise<Ran>
  /** `tollgate restart`; also returns the new server's process ID, 0 if there is none. */
  restart(...args: string[]): Promise<Ran & { pid: number }>
  close(): Promise<void>
}

/** A folder for one test; servers and commands use `<folder>/data`. */
export function createWorkplace(): Workplace {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-e2e-'))
  const data = join(folder, 'data')
  const started: RunningBinary[] = []
  const successors: number[] = []
  return {
    folder,
    async write(name, text) {
      await Bun.write(join(folder, name), text)
      return join(folder, name)
    },
    async serve(args = [], options = {}) {
      const server = await startBinary(['--data', data, ...args], { cwd: folder, ...options })
      started.push(server)
      return server
    },
    run: (...args) => runBinary([...args, '--data', data], { cwd: folder }),
    async restart(...args) {
      const ran = await runBinary(['restart', '--data', data, ...args], { cwd: folder })
      const pid = Number(/as process (\d+)/.exec(ran.stdout)?.[1] ?? 0)
      if (pid > 0) successors.push(pid)
      return { ...ran, pid }
    },
    async close() {
      for (const pid of successors) if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL')
      for (const server of started) {
        server.signal('SIGKILL')
        await server.exited
      }
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
