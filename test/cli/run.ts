/** Runs a command in this process on a separate data folder, and keeps its output. For the tests of `cli/`. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runProgram } from '../../src/cli/program.ts'
import { putMigrated } from '../support/migrated.ts'

export interface Ran {
  code: number
  stdout: string
  stderr: string
}

export interface Bench {
  folder: string
  /** Piped input; null for a terminal. */
  piped: string | null
  /** Replies at its terminal, one after the other; empty = no one is there. */
  answers: string[]
  /** Prompts so far. */
  asked: { question: string; isSecret: boolean }[]
  /** Whether their output is read. */
  isRead: boolean
  /** Whether their output is a terminal. */
  isWatched: boolean
  /** Environment variables, in addition to the data folder. */
  environment: Record<string, string>
  /** Exit codes of programs that a command runs, and the programs that were run. */
  programs: { code: number | null; ran: { command: string; args: string[]; environment: object }[] }
  /** Columns of its terminal. */
  columns: number
  /** Called with a command's output as it is printed. */
  onStdout: (text: string) => void
  run(...argv: string[]): Promise<Ran>
  close(): void
}

/** Creates a folder with an empty database, as `serve` leaves it, and the command line for it. */
export function createBench(nowMs = Date.UTC(2026, 10, 21)): Bench {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-'))
  putMigrated(folder)
  const bench: Bench = {
    folder,
    piped: null,
    answers: [],
    asked: [],
    isRead: true,
    isWatched: false,
    environment: {},
    programs: { code: 0, ran: [] },
    columns: 80,
    onStdout: () => {},
    async run(...argv) {
      const ran = { code: 0, stdout: '', stderr: '' }
      ran.code = await runProgram(argv, {
        stdout: (text) => {
          ran.stdout += text
          bench.onStdout(text)
        },
        stderr: (text) => {
          ran.stderr += text
        },
        stdoutLeft: async () => bench.isRead,
        stdin: async () => bench.piped,
        ask: async (question, isSecret) => {
          bench.asked.push({ question, isSecret })
          return bench.answers.shift() ?? null
        },
        run: async (command, args, environment) => {
          bench.programs.ran.push({ command, args: [...args], environment })
          return bench.programs.code
        },
        isTerminal: () => bench.isWatched,
        giveWay: async () => {},
        environment: { TOLLGATE_DATA: folder, ...bench.environment },
        columns: () => bench.columns,
        nowMs: () => nowMs,
        cwd: folder,
      })
      return ran
    },
    close: () => rmSync(folder, { recursive: true }),
  }
  return bench
}
