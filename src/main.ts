/**
 * Entry point. Behind a proxy, upstreams are called with `fetch`: `serve` then re-executes itself with Bun's limit on concurrent fetches
 * raised, before loading anything else.
 */

import { execPath } from 'node:process'
import { createOutputs, isTerminal } from './cli/terminal.ts'
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

const { stdout, stderr } = createOutputs()
const drained = () => Promise.all([stdout.drained(), stderr.drained()])
const { runProgram } = await import('./cli/program.ts')
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
    await drained()
    return (await import('./cli/prompt.ts')).askTerminal(question, isSecret)
  },
  run: async (...program) => {
    await drained()
    return (await import('./cli/launch.ts')).runProgramAs(...program)
  },
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
if (lost !== null) stderr.write(`error: Output may be lost: write failed: ${lost}.\n`)
await Promise.race([stderr.drained(), Bun.sleep(STDERR_MS)])
process.exit(code === 0 && lost !== null ? 1 : code)
