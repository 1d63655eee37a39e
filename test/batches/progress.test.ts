/** A batch's files after a power cut, which kept some of the written bytes and lost the rest. */
import { expect, test } from 'bun:test'
import { truncateSync } from 'node:fs'
import { Contents } from '../../src/batches/contents.ts'
import { Progress } from '../../src/batches/progress.ts'
import { NO_BATCH_USAGE } from '../../src/domain/batches.ts'
import { mintId } from '../../src/domain/id.ts'
import { createLog } from '../../src/log.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const log = createLog({ now: () => 0, write: async () => {} })
const root = forEachTest(createTestFolder)

test('a recorded but lost response leaves its line begun: it counts as none, and the files continue', async () => {
  const contents = new Contents(root.path)
  const batch = { id: 'batch_1', detail: { outputFileId: 'file-o', errorFileId: 'file-e' } }
  const open = () => Progress.open({ contents, log, now: () => 1, sleep: () => Promise.resolve() }, batch, 3)
  const ids = [0, 1, 2].map((number) => ({ number, requestId: mintId(number + 1) }))
  const finish = (progress: Progress, number: number) =>
    progress.done(
      { number, customId: `line ${number}` },
      { status: 200, body: '{"a":1}', requestId: ids[number]?.requestId ?? null, usage: NO_BATCH_USAGE },
    )
  const before = await open()
  await before.begin(ids)
  for (const number of [0, 1]) await finish(before, number)
  truncateSync(contents.path('file-o'), contents.size('file-o') - 10)

  const after = await open()
  expect(after.pending()).toEqual([1, 2])
  expect(after.requestIdOf(1)).toBe(ids[1]?.requestId ?? '')
  expect(after.counts).toMatchObject({ total: 3, completed: 1 })
  await finish(after, 2)
  const text = await contents.read('file-o', 0, contents.size('file-o'))
  expect(
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).custom_id),
  ).toEqual(['line 0', 'line 2'])
  expect((await open()).pending()).toEqual([1])
})
