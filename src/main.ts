/**
 * Entry point. Behind a proxy, upstreams are called with `fetch`: `serve` then re-executes itself with Bun's limit on concurrent fetches
 * raised, before loading anything else.
 */

import { execPath } from 'node:process'
import { FETCHES, hasProxy } from './config.ts'

const args = process.argv.slice(2)
if (args.includes('serve') && hasProxy(process.env) && !process.env[FETCHES.variable] && process.execve) {
  const script = Bun.main.startsWith('/$bunfs/') ? [] : [Bun.main]
  process.execve(execPath, [execPath, ...script, ...args], {
    ...process.env,
    [FETCHES.variable]: String(FETCHES.raised),
  })
}

/** JavaScriptCore compiles this much later: code of a start runs once. `serve` returns to 1 once it listens. */
const START_JIT_POLICY = 8
Bun.unsafe.setJITPolicy(START_JIT_POLICY)

/** If no one reads stderr, unwritten output is dropped after this. */
const STDERR_MS = 1_000

/** Niceness of background work. */
const BEHIND = 10

/** Tracks when all output is written; a closed pipe counts as written. */
function createOutput(open: () => NodeJS.WriteStream) {
  let left: Promise<unknown> = Promise.resolve()
  let stream: NodeJS.WriteStream | null = null
  let failure: NodeJS.ErrnoException | null = null
  let isRead = true
  return {
    write(text: string): void {
      stream ??= open().on('error', () => {})
      const to = stream
      // Bun calls back at once for an empty text even while writes are pending, so each write is awaited.
      const written = new Promise<void>((resolve) => {
        to.write(text, (error: NodeJS.ErrnoException | null | undefined) => {
          if (error?.code === 'EPIPE') isRead = false
          else if (error) failure ??= error
          resolve()
        })
      })
      left = Promise.all([left, written]).then(() => {})
    },
    drained: () => left,
    /** False once the reader has closed the pipe. */
    isRead: () => isRead,
    /** The first write error, such as a full disk. */
    failure: () => failure,
  }
}

const stdout = createOutput(() => process.stdout)
const stderr = createOutput(() => process.stderr)
const [{ runProgram }, { isTerminal }] = await Promise.all([import('./cli/program.ts'), import('./cli/terminal.ts')])
const code = await runProgram(args, {
  stdout: stdout.write,
  stderr: stderr.write,
  stdoutLeft: async () => {
    await stdout.drained()
    return stdout.isRead()
  },
  // `node:tty` takes as long to load as all the rest of a command.
  stdin: async () => ((await import('node:tty')).isatty(0) ? null : Bun.stdin.text()),
  ask: async (question, isSecret) => {
    await stdout.drained()
    return (await import('./cli/prompt.ts')).askTerminal(question, isSecret)
  },
  run: async (...program) => (await import('./cli/launch.ts')).runProgramAs(...program),
  isTerminal,
  columns: () => process.stdout.columns || 80,
  giveWay: async () => {
    const { setPriority } = await import('node:os')
    try {
      setPriority(BEHIND)
    } catch {
      // Not permitted: run at normal priority.
    }
  },
  environment: process.env,
  nowMs: Date.now,
  cwd: process.cwd(),
})
await stdout.drained()
const lost = stdout.failure()
if (lost) stderr.write(`error: Output may be lost: write failed: ${lost.message}.\n`)
await Promise.race([stderr.drained(), Bun.sleep(STDERR_MS)])
process.exit(code === 0 && lost ? 1 : code)
