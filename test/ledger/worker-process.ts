/**
 * A worker as a separate process, which records a test's requests: `bun worker-process.ts <data folder> <socket>
 * <instance>`.
 */
import { appendFileSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { topic } from '../../src/domain/link.ts'
import { isOf, listSegments, toRecordLine } from '../../src/ledger/journal-file.ts'
import { openWorkerStorage } from '../../src/server/worker-storage.ts'
import { connectLink } from '../../src/server/workers/link.ts'
import type { OpenRow } from '../../src/store/ledger-rows.ts'
import { createTestLog, HOUR, opening, toOpen, toSettled } from './fixture.ts'

/** Opens requests, and returns their IDs once they are durable. */
export const OPEN = topic<{ count: number; fields?: Partial<OpenRow> }, string[]>('test.open')
/** Settles requests that are open in this worker. */
export const SETTLE = topic<{ ids: readonly string[]; costNanoUsd: number }, null>('test.settle')
/** Opens and settles until it is killed. Each acknowledgment is a line of the file: `open` or the cost, and the ID. */
export const LOAD = topic<string>('test.load')
/** Opens requests after the keeper's end of the link is closed. */
export const WRITE_ALONE = topic<number>('test.write-alone')
/** Begins a line, and ends the process. */
export const TEAR = topic<null>('test.tear')
export const BACKLOG = topic<null, { records: number; state: string }>('test.backlog')
export const FLUSH_HERE = topic<null, { applied: number; waiting: number }>('test.flush')
export const CLOSE = topic<null>('test.close')

if (import.meta.main) {
  const [dataFolder = '', socket = '', instance = ''] = process.argv.slice(2)
  const link = await connectLink(socket)
  const cleanup = new AsyncDisposableStack()
  const log = createTestLog()
  const { ledger } = await openWorkerStorage(
    { dataFolder, instance, link, durability: 'process', maxJournalBytes: 64 * 1024 ** 2, log },
    cleanup,
  )
  const rows = new Map<string, OpenRow>()
  const open = async (fields: Partial<OpenRow> = {}) => {
    const row = toOpen({ ...fields, instance })
    await ledger.open(row)
    rows.set(row.id, row)
    return row
  }
  const settle = async (id: string, costNanoUsd: number) => {
    const row = rows.get(id)
    if (row) await ledger.settle(toSettled(row, { costNanoUsd }))
    rows.delete(id)
  }
  link.on(OPEN, async ({ count, fields }) => {
    const opened = await Promise.all(Array.from({ length: count }, () => open(fields)))
    return opened.map(({ id }) => id)
  })
  link.on(SETTLE, async ({ ids, costNanoUsd }) => {
    await Promise.all(ids.map((id) => settle(id, costNanoUsd)))
    return null
  })
  link.on(LOAD, async (file) => {
    const note = (what: string | number, id: string) => appendFileSync(file, `${what} ${id}\n`)
    const one = async (costNanoUsd: number) => {
      const { id } = await open({ user: 'x'.repeat(3_000) })
      note('open', id)
      await settle(id, costNanoUsd)
      note(costNanoUsd, id)
    }
    for (let turn = 1; ; turn++) {
      await Promise.all(Array.from({ length: 20 }, (_, at) => one(turn * 100 + at)))
      while (ledger.backlog().records > 2_000) await Bun.sleep(1)
    }
  })
  link.on(WRITE_ALONE, async (count) => {
    await link.ended
    await Promise.all(Array.from({ length: count }, () => open()))
  })
  link.on(TEAR, () => {
    const path = listSegments(join(dataFolder, 'journal')).find((each) => isOf(each, instance)) ?? ''
    const line = toRecordLine(opening(toOpen({ instance, createdMs: HOUR })))
    writeSync(openSync(path, 'r+'), line.slice(0, -20), readFileSync(path).indexOf(0))
    process.kill(process.pid, 'SIGKILL')
  })
  link.on(BACKLOG, () => ({ records: ledger.backlog().records, state: ledger.state() }))
  link.on(FLUSH_HERE, () => ledger.flush())
  const close = async () => {
    await cleanup.disposeAsync()
    process.exit(log.messages.length)
  }
  link.on(CLOSE, () => void close())
  process.on('SIGTERM', () => void close())
}
