/** Runs a command in this process against a data folder of its own, and keeps what it wrote. For the tests of `cli/`. */
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
  /** What is piped into the commands; null for a terminal. */
  piped: string | null
  /** What whoever sits at its terminal answers, one after the other; none left = nobody sits there. */
  answers: string[]
  /** What was asked there. */
  asked: { question: string; isSecret: boolean }[]
  /** Whether anything reads what they print. */
  isRead: boolean
  /** Whether a person reads what they print. */
  isWatched: boolean
  /** Variables of the environment, beside the data folder. */
  environment: Record<string, string>
  /** What other programs that a command runs end with, and which ones it has run. */
  programs: { code: number | null; ran: { command: string; args: string[]; environment: object }[] }
  /** Columns of its terminal. */
  columns: number
  /** Hears what a command prints, as it does. */
  onStdout: (text: string) => void
  run(...argv: string[]): Promise<Ran>
  close(): void
}

/** Makes a folder with an empty database, as `serve` leaves it, and the command line that works in it. */
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
