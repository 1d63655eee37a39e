/** A bar on a terminal while something takes its time; nothing for whoever else reads. */
import type { Context } from './io.ts'

/** What is done, and of how much. */
export interface Progress {
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
