/** Reports on their thread: as of now, in turn, in bounds, and none once the server has stopped. */
import { expect, test } from 'bun:test'
import { createKey, editKey } from '../../src/keys/service.ts'
import { type ReportReply, type ReportRequest, report } from '../../src/server/admin-view/report.ts'
import { createReports } from '../../src/server/admin-view/reports.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import type { AskOptions, NoReply } from '../../src/threads/thread.ts'
import { createFolder, type Folder, HOUR, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

const folder = forEachTest(createFolder)

const BY = { actor: 'test', nowMs: 1 }
const USAGE = { sinceMs: 0, untilMs: null, where: {}, limit: 10 } as const
const ANN = { id: 'ann' }
const BOB = { id: 'bob' }

test('the thread reads what was settled before it was asked, and is gone with the server', async () => {
  const row = toSettled(toOpen())
  // As a server's journal: nothing of it is in the database before.
  const flush = async () => {
    createLedgerWriter(folder.database).apply([settling(row)])
    return { applied: 1, waiting: 3 }
  }
  const reports = createReports({
    dataFolder: folder.path,
    ledger: { flush },
    refusals: { flush: async () => {} },
    cluster: null,
    now: () => HOUR + 5_000,
  })
  const usage = { ...USAGE, by: ['model'] } as const
  const [statusOf, found, page, charge, refused] = await Promise.all([
    reports.spendStatuses(ANN, 'key'),
    reports.usage(ANN, usage),
    reports.requests(ANN, { limit: 10 }),
    reports.request(ANN, row.id),
    reports.request(ANN, 'ffffffff').catch((error) => error.failure),
  ])
  expect(statusOf({ id: row.keyId, budget: { nanoUsd: 1_000, period: 'day' } })).toMatchObject({
    ...{ totalNanoUsd: 500, budget: { spentNanoUsd: 500 }, lastUse: { model: row.model } },
  })
  expect(JSON.parse(found)).toMatchObject({ usage: [{ model: row.model, requests: 1 }], pending_records: 3 })
  expect(JSON.parse(page).requests).toMatchObject([{ id: row.id }])
  expect(JSON.parse(charge)).toMatchObject({ id: row.id, calls: [{ number: 1 }] })
  expect(refused).toEqual({ kind: 'request_not_found', request: 'ffffffff' })
  reports.close()
  expect(await reports.audit(ANN, { limit: 1 }).catch((error) => error.kind)).toBe('stopping')
})

test('a key that is renamed has its new name in the next report, and another folder its own keys', async () => {
  const other = createFolder()
  try {
    const usage = { kind: 'usage', options: { ...USAGE, by: ['key'], limitMs: 10_000 } } as const
    const ask = async ({ path }: Folder): Promise<string[]> => {
      const reply = await report({ dataFolder: path, question: usage, nowMs: HOUR, waiting: 0 })
      if (reply.kind !== 'document') throw new Error(JSON.stringify(reply))
      return JSON.parse(reply.json).usage.map(({ key }: { key: string | null }) => key)
    }
    for (const { database } of [folder, other]) {
      const store = createConfigStore(database)
      const { key } = await createKey(store, { name: 'dev' }, BY)
      createLedgerWriter(database).apply([settling(toSettled(toOpen({ keyId: key.id })))])
    }
    expect([await ask(folder), await ask(other)]).toEqual([['dev'], ['dev']])
    await editKey(createConfigStore(folder.database), 'dev', { name: 'prod' }, BY)
    expect([await ask(folder), await ask(other), await ask(folder)]).toEqual([['prod'], ['dev'], ['prod']])
  } finally {
    other.close()
  }
})

/** A thread whose questions are answered by the test, and a ledger that counts how often it was to apply its journal. */
function open() {
  const asked: { request: ReportRequest; owner: string; answer(reply: ReportReply | NoReply): void }[] = []
  const flushes: (() => void)[] = []
  const thread = {
    ask(request: ReportRequest, { owner }: AskOptions) {
      const { promise, resolve } = Promise.withResolvers<ReportReply | NoReply>()
      asked.push({ request, owner, answer: resolve })
      return promise
    },
    dismiss() {},
    close() {},
  }
  const flush = () => {
    const { promise, resolve } = Promise.withResolvers<{ applied: number; waiting: number }>()
    flushes.push(() => resolve({ applied: 0, waiting: 0 }))
    return promise
  }
  const reports = createReports({
    dataFolder: folder.path,
    ledger: { flush },
    refusals: { flush: async () => {} },
    cluster: null,
    now: () => HOUR,
    thread,
  })
  return { reports, asked, flushes }
}

const settled = () => new Promise(setImmediate)

test('many who ask at once have the journal applied once, and who comes meanwhile has it applied again', async () => {
  const { reports, asked, flushes } = open()
  const first = [ANN, BOB, ANN].map((asker) => reports.request(asker, '1'))
  await settled()
  const second = [BOB, BOB].map((asker) => reports.request(asker, '2'))
  await settled()
  expect([flushes.length, asked.length]).toEqual([1, 0])
  flushes[0]?.()
  await settled()
  expect([flushes.length, asked.map(({ owner }) => owner)]).toEqual([2, ['ann', 'bob', 'ann']])
  flushes[1]?.()
  await settled()
  expect(asked).toHaveLength(5)
  for (const { answer } of asked) answer({ kind: 'document', json: '{}' })
  expect(await Promise.all([...first, ...second])).toEqual(['{}', '{}', '{}', '{}', '{}'])
})

test('who asks for too much at once is refused at once, others are not, and each answer makes room', async () => {
  const { reports, asked, flushes } = open()
  const kindOf = (error: { kind: string }) => error.kind
  const all = Array.from({ length: 100 }, () => reports.audit(ANN, { limit: 1 }).catch(kindOf))
  const other = reports.audit(BOB, { limit: 1 })
  await settled()
  flushes[0]?.()
  await settled()
  expect(asked.map(({ owner }) => owner)).toEqual([...Array.from({ length: 16 }, () => 'ann'), 'bob'])
  for (const { answer } of asked) answer({ kind: 'document', json: '{}' })
  expect(new Set(await Promise.all(all.slice(16)))).toEqual(new Set(['too_many_reports']))
  expect([await all[0], await other]).toEqual(['{}', '{}'])
  void reports.audit(ANN, { limit: 1 })
  await settled()
  flushes[1]?.()
  await settled()
  expect(asked).toHaveLength(18)
})

test.each([
  ['limit', 'report_too_long'],
  ['patience', 'reports_busy'],
  ['aborted', 'aborted'],
  ['closed', 'stopping'],
] as const)('a thread that says %s is told as %s', async (reply, kind) => {
  const { reports, asked, flushes } = open()
  const refused = reports.audit(ANN, { limit: 1 }).catch((error) => error.failure?.kind ?? error.kind)
  await settled()
  flushes[0]?.()
  await settled()
  asked[0]?.answer(reply)
  expect(await refused).toBe(kind)
})
