/**
 * Spend of keys and teams, for each store of the ledger: settled and reserved amounts, and their last use and refusal.
 */
import { expect, test } from 'bun:test'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { createRefusalWriter } from '../../src/store/sqlite/refusals.ts'
import { calling, HOUR, opening, settling, since, toCall, toOpen, toSettled } from './fixture.ts'
import { overStores } from './stores.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const TODAY = HOUR - (HOUR % DAY_MS)
const SPANS = {
  day: { fromMs: TODAY, untilMs: TODAY + DAY_MS },
  week: { fromMs: TODAY - DAY_MS, untilMs: TODAY + DAY_MS },
  month: { fromMs: TODAY - 2 * DAY_MS, untilMs: TODAY + DAY_MS },
  total: since(0),
}

overStores((folder) => {
  const commit = (...records: Parameters<ReturnType<typeof createLedgerWriter>['apply']>[0]) =>
    createLedgerWriter(folder.database).apply(records)
  const spending = async (kind: 'key' | 'team', id?: string) =>
    Object.fromEntries(await (await folder.readers()).spend.spending(kind, SPANS, id))

  test('keys and teams have their settled and open amounts, per period, and their last use', async () => {
    const at = (days: number, costNanoUsd: number, keyId = 'key-a') =>
      settling(toSettled(toOpen({ createdMs: HOUR + days * DAY_MS, keyId, teamId: 'team-a' }), { costNanoUsd }))
    commit(at(0, 1), at(-1, 10), at(-2, 100), at(-3, Number.MAX_SAFE_INTEGER - 200), at(1, 7, 'key-b'))
    const open = toOpen({ createdMs: TODAY - 1, reservedNanoUsd: 20 })
    commit(opening(open), calling(toCall(open, 2, { reservedNanoUsd: 300 })))
    expect(await spending('key')).toEqual({
      'key-a': {
        nanoUsd: { day: 1, week: 331, month: 431, total: Number.MAX_SAFE_INTEGER + 231 },
        lastUse: { atMs: HOUR, model: 'acme/large' },
      },
      'key-b': {
        nanoUsd: { day: 0, week: 0, month: 0, total: 7 },
        lastUse: { atMs: HOUR + DAY_MS, model: 'acme/large' },
      },
    })
    for (const [id, one] of Object.entries(await spending('key')))
      expect(await spending('key', id)).toEqual({ [id]: one })
    expect(await spending('team')).toMatchObject({ 'team-a': { nanoUsd: { day: 1, week: 11 }, lastUse: null } })
    expect(Object.keys(await spending('key', 'nobody'))).toEqual([])
    expect(await (await folder.readers()).spend.latestHour(HOUR + 1)).toBe(HOUR)
  })

  test('their last refusal is the newest, with the number since a time', async () => {
    const count = { teamId: 'team-a', code: 'no_key', refused: 2 } as const
    folder.database.run(
      `INSERT INTO keys (id, name, metadata, created_ms) VALUES ('key-a', 'a', '{}', 0), ('key-b', 'b', '{}', 0)`,
    )
    folder.database.run(`INSERT INTO teams (id, name, metadata, created_ms) VALUES ('team-a', 'a', '{}', 0)`)
    createRefusalWriter(folder.database).add([
      { ...count, keyId: 'key-a', hourMs: HOUR - HOUR_MS, lastMs: HOUR - 1 },
      { ...count, keyId: 'key-a', hourMs: HOUR, lastMs: HOUR + 5, code: 'over_share' },
      { ...count, keyId: 'key-b', hourMs: HOUR - HOUR_MS, lastMs: HOUR - 2 },
      { ...count, keyId: '', hourMs: HOUR, lastMs: HOUR + 9 },
    ])
    const { spend } = await folder.readers()
    const refused = async (kind: 'key' | 'team', id?: string) => Object.fromEntries(await spend.refused(kind, HOUR, id))
    const ofA = { atMs: HOUR + 5, code: 'over_share', refused: 2 }
    expect(await refused('key')).toEqual({ 'key-a': ofA, 'key-b': { atMs: HOUR - 2, code: 'no_key', refused: 0 } })
    expect([await refused('key', 'key-a'), await refused('key', 'nobody')]).toEqual([{ 'key-a': ofA }, {}])
    expect(await refused('team')).toEqual({ 'team-a': { atMs: HOUR + 9, code: 'no_key', refused: 4 } })
  })
})
