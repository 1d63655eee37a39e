/** Work on the event loop: order of owners, and pauses. */
import { expect, test } from 'bun:test'
import { Pace } from '../../src/threads/pace.ts'

/** A pace on the test's clock: work takes as long as it says. */
function createPaced() {
  let nowMs = 0
  const done: string[] = []
  const pending: { atMs: number; then(): void }[] = []
  const pace = new Pace({ nowMs: () => nowMs, after: (ms, then) => pending.push({ atMs: nowMs + ms, then }) })
  return {
    done,
    pace,
    run: (owner: string, ms: number, elsewhereMs?: number) =>
      void pace.run(
        owner,
        () => {
          done.push(`${owner} at ${nowMs}`)
          nowMs += ms
        },
        elsewhereMs,
      ),
    pass(ms: number) {
      nowMs += ms
      for (const one of pending.splice(0)) {
        if (one.atMs <= nowMs) one.then()
        else pending.push(one)
      }
    },
    settle() {
      while (pending.length > 0) this.pass(1)
    },
  }
}

test('after each piece of work, the loop is free for three times as long', () => {
  const paced = createPaced()
  for (let i = 0; i < 3; i++) paced.run('a', 40)
  expect(paced.done).toEqual(['a at 0'])
  paced.pass(109)
  expect(paced.done).toHaveLength(1)
  paced.settle()
  expect(paced.done).toEqual(['a at 0', 'a at 150', 'a at 300'])
})

test('the last owner waits for one piece of each other owner, however many they have', () => {
  const paced = createPaced()
  for (let i = 0; i < 20; i++) paced.run('a', 50)
  for (let i = 0; i < 20; i++) paced.run('b', 50)
  paced.run('c', 1)
  paced.settle()
  expect(paced.done.slice(0, 4).map((one) => one[0])).toEqual(['a', 'a', 'b', 'c'])
  expect(paced.done).toHaveLength(41)
})

test("small pieces don't wait for each other, and an idle loop waits for no one", () => {
  const paced = createPaced()
  for (let i = 0; i < 4; i++) paced.run('a', 1)
  expect(paced.done).toHaveLength(4)
  paced.pass(1_000)
  paced.run('a', 1)
  expect(paced.done).toHaveLength(5)
})

test('an error of work goes to its caller, and the next piece continues', async () => {
  const pace = new Pace()
  const failed = pace
    .run('a', () => {
      throw new Error('broken')
    })
    .catch(String)
  expect(await pace.run('a', () => 'done')).toBe('done')
  expect(await failed).toBe('Error: broken')
})

test('cost elsewhere counts like the work itself', () => {
  const paced = createPaced()
  for (let i = 0; i < 3; i++) paced.run('a', 0, 20)
  paced.settle()
  expect(paced.done).toEqual(['a at 0', 'a at 50', 'a at 110'])
})
