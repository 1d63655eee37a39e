/** The log: a reader that does not keep up costs lines, never memory, however often it stalls. */
import { expect, test } from 'bun:test'
import { createLog } from '../src/log.ts'

const LINE = 'x'.repeat(64 * 1024)
/** 4 MiB of such lines, and the one that goes beyond it. */
const MOST = 65

test('what may wait for a stalled reader is bounded, also after an earlier stall', async () => {
  let gate = Promise.withResolvers<void>()
  let written = ''
  const log = createLog({
    now: () => 0,
    async write(text) {
      await gate.promise
      written += text
    },
  })
  for (const stall of ['first', 'second', 'third']) {
    written = ''
    gate = Promise.withResolvers()
    // Two flushes in flight at a time.
    for (let i = 0; i < 40; i++) log.info(LINE, {})
    void log.flush()
    for (let i = 0; i < 200; i++) log.info(LINE, {})
    void log.flush()
    gate.resolve()
    await log.flush()
    const lines = written.split('\n').length - 1
    expect(`${stall}: ${lines}`).toBe(`${stall}: ${Math.min(lines, MOST)}`)
    expect(lines).toBeGreaterThan(MOST - 5)
  }
})
