import { expect, test } from 'bun:test'
import { createCsvExports } from '../../src/admin/requests-csv.ts'

test('a connection is never idle while pages without a match are read, but is once its client must read', async () => {
  let isKept = false
  const kept: boolean[] = []
  const response = await createCsvExports()({
    asker: { id: 'ann' },
    wanted: { limit: 10 },
    nowMs: 0,
    read: async () => {
      kept.push(isKept)
      return { text: '', rows: 0, next: kept.length < 4 ? 'next' : null }
    },
    isLetIn: async () => true,
    keepOpen: (on) => {
      isKept = on
    },
  })
  expect((await response.text()).split('\r\n')).toHaveLength(2)
  // The first page is read before there is a response.
  expect([kept, isKept]).toEqual([[false, true, true, true], false])
})
