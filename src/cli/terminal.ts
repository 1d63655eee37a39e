/**
 * Who reads what a command writes: a person at a terminal, who may like colours and see a bar while something takes its time, or a file, a pipe,
 * another program.
 */
import { fstatSync, statSync } from 'node:fs'
import type { Environment } from '../domain/snapshot.ts'
import type { Context } from './io.ts'

/** By its device: `node:tty` would take a tenth of the whole start of a server to load. */
export function isTerminal(fd: number): boolean {
  try {
    const stat = fstatSync(fd)
    return stat.isCharacterDevice() && stat.rdev !== statSync('/dev/null').rdev
  } catch {
    // It was closed by whoever started this.
    return false
  }
}

/** What colours tell. */
export interface Paint {
  /** A heading. */
  head(text: string): string
  /** Beside the point. */
  aside(text: string): string
  /** What could not be done. */
  bad(text: string): string
  /** A word for how something is: well, not well and going on, not at all, or over. One that is not known stays as it is. */
  state(word: string): string
  /** What becomes of a row: it is made, changed, deleted or left alone. */
  mark(mark: ChangeMark): string
}

export type ChangeMark = '+' | '~' | '-' | '='

/** `NO_COLOR` with any text in it (https://no-color.org) asks for none, and a terminal that calls itself dumb has none. */
const wantsColour = ({ NO_COLOR, TERM }: Environment): boolean => !NO_COLOR && TERM !== 'dumb'

const as =
  (on: number, off: number) =>
  (text: string): string =>
    text === '' ? '' : `\u001b[${on}m${text}\u001b[${off}m`

// Of the sixteen colours that each terminal has in a shade that its owner can read.
const [bold, dim, red, green, yellow] = [as(1, 22), as(2, 22), as(31, 39), as(32, 39), as(33, 39)]

const STATES: readonly [words: readonly string[], paint: (text: string) => string][] = [
  [['ok', 'ready', 'yes', 'active'], green],
  [['warning', 'degraded', 'unknown', 'cut', 'open'], yellow],
  [['problem', 'down', 'timeout', 'refused', 'not ready', 'no', 'failed', 'abandoned'], red],
  [['disabled', 'revoked', 'expired'], dim],
]

const MARKS: Record<ChangeMark, (text: string) => string> = { '+': green, '~': yellow, '-': red, '=': dim }

const COLOURS: Paint = {
  head: bold,
  aside: dim,
  bad: red,
  state: (word) => STATES.find(([words]) => words.includes(word.trim()))?.[1](word) ?? word,
  mark: (mark) => MARKS[mark](mark),
}

const same = (text: string) => text
export const PLAIN: Paint = { head: same, aside: same, bad: same, state: same, mark: same }

/** Colours where a person reads what is written, and wants some. */
export const toPaint = (isRead: boolean, environment: Environment): Paint =>
  isRead && wantsColour(environment) ? COLOURS : PLAIN

/** What is done, and of how much. */
interface Progress {
  (done: number, of: number): void
  /** Takes the bar away. */
  end(): void
}

const WIDTH = 30
/** What is over by then needs no bar, and none moves more often. */
const EVERY_MS = 200

/**
 * @param what is done, in a word or two: `Checking`.
 * @param monotonicMs a clock that never steps, ms.
 */
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
    io.stderr(`\r${what} ${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${String(percent).padStart(3)} %`)
  }
  const end = () => {
    // To the beginning of the line, and what is right of it away.
    if (isDrawn) io.stderr('\r\u001b[K')
    isDrawn = false
  }
  return Object.assign(draw, { end })
}
