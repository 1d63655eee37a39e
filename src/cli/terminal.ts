/** Output, terminal detection, colors, and the progress bar. */
import { fstatSync, statSync } from 'node:fs'
import { codeOf, messageOf } from '../domain/error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { writeAll } from '../log.ts'
import type { Context } from './io.ts'

type Output = ReturnType<typeof createOutput>

/** Standard output and error. If both go to one file, they share an output, so that texts stay in order. */
export function createOutputs(): { stdout: Output; stderr: Output } {
  const stdout = createOutput(1)
  return { stdout, stderr: isOneFile(1, 2) ? stdout : createOutput(2) }
}

function isOneFile(one: number, other: number): boolean {
  try {
    const [a, b] = [fstatSync(one), fstatSync(other)]
    return a.ino !== 0 && a.ino === b.ino && a.dev === b.dev
  } catch {
    // A descriptor is closed.
    return false
  }
}

/** Tracks when all output is written; a closed pipe counts as written. */
function createOutput(fd: 1 | 2) {
  let left = Promise.resolve()
  let failure: string | null = null
  let isRead = true
  const fail = (error: unknown) => {
    if (codeOf(error) === 'EPIPE') isRead = false
    else failure ??= messageOf(error)
  }
  return {
    write(text: string): void {
      left = left.then(() => writeAll(fd, Buffer.from(text))).catch(fail)
    },
    drained: () => left,
    /** False once the reader has closed the pipe. */
    isRead: () => isRead,
    /** Message of the first write error, such as a full disk. */
    failure: () => failure,
  }
}

/** Loading `node:tty` takes a tenth of a server's start. */
export function isTerminal(fd: number): boolean {
  try {
    const stat = fstatSync(fd)
    return stat.isCharacterDevice() && stat.rdev !== statSync('/dev/null').rdev
  } catch {
    // The descriptor is closed.
    return false
  }
}

export interface Paint {
  head(text: string): string
  /** Less important text. */
  aside(text: string): string
  /** An error. */
  bad(text: string): string
  /** A state, colored if known. */
  state(word: string): string
  mark(mark: ChangeMark): string
}

export type ChangeMark = '+' | '~' | '-' | '='

/** https://no-color.org */
const wantsColor = ({ NO_COLOR, TERM }: Environment): boolean => !NO_COLOR && TERM !== 'dumb'

const as =
  (on: number, off: number) =>
  (text: string): string =>
    text === '' ? '' : `\u001b[${on}m${text}\u001b[${off}m`

// From the 16 colors that users can adjust.
const [bold, dim, red, green, yellow] = [as(1, 22), as(2, 22), as(31, 39), as(32, 39), as(33, 39)]

const STATES: readonly [words: readonly string[], paint: (text: string) => string][] = [
  [['ok', 'ready', 'yes', 'active'], green],
  [['warning', 'degraded', 'unknown', 'cut', 'open'], yellow],
  [['problem', 'down', 'timeout', 'refused', 'not ready', 'no', 'failed', 'abandoned'], red],
  [['disabled', 'revoked', 'expired'], dim],
]

const MARKS: Record<ChangeMark, (text: string) => string> = { '+': green, '~': yellow, '-': red, '=': dim }

const COLORS: Paint = {
  head: bold,
  aside: dim,
  bad: red,
  state: (word) => STATES.find(([words]) => words.includes(word.trim()))?.[1](word) ?? word,
  mark: (mark) => MARKS[mark](mark),
}

const same = (text: string) => text
export const PLAIN: Paint = { head: same, aside: same, bad: same, state: same, mark: same }

export const toPaint = (isRead: boolean, environment: Environment): Paint =>
  isRead && wantsColor(environment) ? COLORS : PLAIN

interface Progress {
  (done: number, of: number): void
  end(): void
}

const WIDTH = 30
/** Delay before the bar, and its update interval. */
const EVERY_MS = 200

/** @param what label, such as `Checking`. */
export function createBar(
  io: Pick<Context, 'stderr' | 'isTerminal' | 'json'>,
  what: string,
  monotonicMs = () => performance.now(),
): Progress {
  const isSeen = !io.json && io.isTerminal(2)
  let drawnMs = monotonicMs()
  let isDrawn = false
  const draw = (done: number, of: number) => {
    if (!isSeen || of === 0) return
    const nowMs = monotonicMs()
    if (nowMs - drawnMs < EVERY_MS) return
    drawnMs = nowMs
    isDrawn = true
    const full = Math.floor((done / of) * WIDTH)
    const percent = Math.floor((done / of) * 100)
    io.stderr(`\r${what} ${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${String(percent).padStart(3)}%`)
  }
  const end = () => {
    // Clear the line.
    if (isDrawn) io.stderr('\r\u001b[K')
    isDrawn = false
  }
  return Object.assign(draw, { end })
}
