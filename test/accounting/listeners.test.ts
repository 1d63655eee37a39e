/** Listeners to finished requests can't affect them. */
import { expect, test } from 'bun:test'
import { type Finished, toAll } from '../../src/accounting/settle.ts'
import { createLog } from '../../src/log.ts'

test('a failing listener affects neither the next one nor the request, and its error is logged', async () => {
  let text = ''
  const log = createLog({
    now: () => 0,
    async write(more) {
      text += more
    },
  })
  const told: string[] = []
  const tell = toAll(
    [
      () => {
        throw new Error('no such metric')
      },
      ({ row }) => told.push(row.id),
    ],
    log,
  )
  tell({ row: { id: 'r1' }, reason: null, mistake: undefined } as Finished)
  await log.flush()
  expect(told).toEqual(['r1'])
  expect(text).toContain('"event":"internal_error"')
  expect(text).toContain('no such metric')
})
