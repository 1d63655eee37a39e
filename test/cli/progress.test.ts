/** The progress bar is only for terminals, and leaves nothing behind. */
import { expect, test } from 'bun:test'
import { createBar } from '../../src/cli/terminal.ts'

/** Output of a bar for ten hours of data, each of which takes this long. */
function watch(each: number, io: { isTerminal?: boolean; json?: boolean } = {}): string[] {
  const said: string[] = []
  let nowMs = 0
  const { isTerminal = true, json = false } = io
  const seen = { stderr: (text: string) => void said.push(text), isTerminal: () => isTerminal, json }
  const bar = createBar(seen, 'Looking', () => nowMs)
  for (let done = 1; done <= 10; done++) {
    nowMs += each
    bar(done, 10)
  }
  bar.end()
  return said
}

test('a bar grows while work continues, and disappears with it', () => {
  const said = watch(100)
  expect(said[0]).toBe(`\rLooking ${'█'.repeat(6)}${'░'.repeat(24)}  20%`)
  expect(said.at(-2)).toBe(`\rLooking ${'█'.repeat(30)} 100%`)
  expect(said.at(-1)).toBe('\r\u001b[K')
  expect(said).toHaveLength(6)
})

test('fast work, and output that is not a terminal, have none', () => {
  expect(watch(10)).toEqual([])
  expect(watch(1_000, { isTerminal: false })).toEqual([])
  expect(watch(1_000, { json: true })).toEqual([])
})
