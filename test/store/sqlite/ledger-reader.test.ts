/** What limits learn from the ledger: sums for budgets, the last minute for rates. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { type LedgerRecord, withFirstCall } from '../../../src/store/ledger-rows.ts'
import type { LedgerReader } from '../../../src/store/ledger-store.ts'
import { createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import { createLedgerReader, SPEND_QUERIES } from '../../../src/store/sqlite/ledger-reader.ts'
import {
  abandonOthers,
  calling,
  createFolder,
  type Folder,
  HOUR,
  opening,
  settling,
  since,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from '../../ledger/fixture.ts'

const HOUR_MS = 3_600_000

let folder: Folder
let reader: LedgerReader
const commit = (...records: LedgerRecord[]) => createLedgerWriter(folder.database).apply(records)
beforeEach(() => {
  folder = createFolder()
  reader = createLedgerReader(folder.database)
})
afterEach(() => folder.close())

const ofKey = (fromMs: number) => reader.spent({ kind: 'key', id: 'key-a' }, since(fromMs))
const ofTeam = (fromMs: number) => reader.spent({ kind: 'team', id: 'team-a' }, since(fromMs))

describe('spent', () => {
  test('is nothing for a key, or a team, that never asked for anything', () => {
    expect([ofKey(0), ofTeam(0), reader.spent({ kind: 'team', id: 'nobody' }, since(0))]).toEqual([0, 0, 0])
  })

  test('is the cost of what was settled since, across models and upstreams', () => {
    const before = toOpen({ createdMs: HOUR - 1 })
    const first = toOpen({ createdMs: HOUR })
    const elsewhere = toOpen({ createdMs: HOUR + HOUR_MS, model: 'acme/small', upstream: 'spare' })
    commit(
      settling(toSettled(before, { costNanoUsd: 1 })),
      settling(toSettled(first, { costNanoUsd: 10 })),
      settling(toSettled(elsewhere, { costNanoUsd: 100, status: 'cut' })),
    )
    expect([ofKey(0), ofKey(HOUR), ofKey(HOUR + HOUR_MS), ofKey(HOUR + 2 * HOUR_MS)]).toEqual([111, 110, 100, 0])
  })

  test('ends where it is asked to, whatever a clock that was ahead has left behind that', () => {
    const [now, ahead] = [toOpen({ createdMs: HOUR }), toOpen({ createdMs: HOUR + HOUR_MS })]
    commit(settling(toSettled(now, { costNanoUsd: 1 })), settling(toSettled(ahead, { costNanoUsd: 10 })))
    commit(opening(toOpen({ createdMs: HOUR + HOUR_MS, reservedNanoUsd: 100 })))
    const until = (untilMs: number) => reader.spent({ kind: 'key', id: 'key-a' }, { fromMs: 0, untilMs })
    expect([HOUR, HOUR + HOUR_MS, HOUR + 2 * HOUR_MS].map(until)).toEqual([0, 1, 111])
    expect([0, HOUR, HOUR + 1, HOUR + 5 * HOUR_MS].map(reader.latestHour)).toEqual([0, 0, HOUR, HOUR + HOUR_MS])
  })

  test('holds all that an open request has reserved, further calls included, in the period in which it came', () => {
    const early = toOpen({ createdMs: HOUR - 1, reservedNanoUsd: 1 })
    const late = toOpen({ createdMs: HOUR, reservedNanoUsd: 10 })
    commit(opening(early), opening(late))
    // Made after the hour, for a request of before it: its cost will stand in the hour of the request.
    commit(calling(toCall(early, 2, { createdMs: HOUR + 5, reservedNanoUsd: 100 })))
    commit(calling(toCall(late, 2, { reservedNanoUsd: 1_000 })), calling(toCall(late, 3, { reservedNanoUsd: 10_000 })))
    expect([ofKey(HOUR), ofKey(0)]).toEqual([11_010, 11_111])
  })

  test('takes the cost for the reserve once a request is settled, and the reserve once it is given up', () => {
    const [settled, lost] = [toOpen({ reservedNanoUsd: 50 }), toOpen({ reservedNanoUsd: 700, instance: 'gone' })]
    const further = toCall(settled, 2, { reservedNanoUsd: 60 })
    commit(opening(settled), opening(lost), calling(further))
    expect(ofKey(HOUR)).toBe(810)
    commit(settling(toSettled(settled, { costNanoUsd: 9, attempts: 2 }), [toSettledCall(further, { costNanoUsd: 4 })]))
    expect(ofKey(HOUR)).toBe(709)
    abandonOthers(folder.database, 'here')
    expect(ofKey(HOUR)).toBe(709)
  })

  test('of a team is that of whoever was in it then, and of nobody else', () => {
    const teamId = 'team-a'
    commit(
      settling(toSettled(toOpen({ teamId }), { costNanoUsd: 1 })),
      settling(toSettled(toOpen({ keyId: 'key-b', teamId }), { costNanoUsd: 10 })),
      // The same key, in another team by then.
      settling(toSettled(toOpen({ keyId: 'key-b', teamId: 'team-b' }), { costNanoUsd: 100 })),
      opening(toOpen({ keyId: 'key-b', teamId, reservedNanoUsd: 1_000 })),
      opening(toOpen({ keyId: 'key-c', reservedNanoUsd: 10_000 })),
    )
    expect([ofTeam(0), ofKey(0)]).toEqual([1_011, 1])
  })
})

describe('recent', () => {
  const SINCE = HOUR + 30_000
  const ofKeys = () => reader.recent(SINCE).filter(({ keyId }) => keyId !== null)
  const shown = () => ofKeys().map(({ createdMs, tokens }) => [createdMs - SINCE, tokens])
  const ofUpstreams = () =>
    reader
      .recent(SINCE)
      .filter(({ upstream }) => upstream !== null)
      .map(({ upstream, createdMs, tokens }) => [upstream, createdMs - SINCE, tokens])

  test('tells the tokens of each request since then, oldest first, to its key and the team of that time', () => {
    const used = { promptTokens: 11, completionTokens: 7 }
    commit(
      settling(toSettled(toOpen({ createdMs: SINCE + 59_999, teamId: 'team-a' }), used)),
      settling(
        toSettled(toOpen({ createdMs: SINCE, keyId: 'key-b', upstream: 'spare' }), {
          promptTokens: 1,
          completionTokens: 2,
          status: 'failed',
        }),
      ),
      settling(toSettled(toOpen({ createdMs: SINCE - 1 }), used)),
    )
    expect(ofKeys()).toEqual([
      { keyId: 'key-b', teamId: null, upstream: null, tokens: 3, createdMs: SINCE },
      { keyId: 'key-a', teamId: 'team-a', upstream: null, tokens: 18, createdMs: SINCE + 59_999 },
    ])
    expect(ofUpstreams()).toEqual([
      ['spare', 0, 3],
      ['paid', 59_999, 18],
    ])
  })

  test('counts the reserves of what is open or was given up', () => {
    const [open, lost] = [toOpen({ createdMs: SINCE + 1 }), toOpen({ createdMs: SINCE + 2, instance: 'gone' })]
    commit(opening(open), calling(toCall(open, 2)), opening(lost), calling(toCall(lost, 2)))
    const both = [
      [1, 2_042],
      [2, 2_042],
    ]
    expect(shown()).toEqual(both)
    abandonOthers(folder.database, 'here')
    expect(shown()).toEqual(both)
  })

  test('tells each call to its upstream, whenever its request began, and no refusal for the limits of one', () => {
    const row = toOpen({ createdMs: SINCE - 300_000 })
    const calls = [2, 3].map((number) => toCall(row, number, { createdMs: SINCE + number }))
    const used = { promptTokens: 4, completionTokens: 1 }
    const settled = calls.map((call) => toSettledCall(call, used))
    commit(settling(toSettled(row, { attempts: 3 }), settled))
    commit(settling(toSettled(toOpen({ createdMs: SINCE }), { errorCode: 'upstream_rate_limited', status: 'failed' })))
    const two = (errorCode: string) => {
      const request = toOpen({ createdMs: SINCE, upstream: 'spare' })
      const second = toSettledCall(toCall(request, 2, { createdMs: SINCE + 1 }), used)
      const row = toSettled(request, { attempts: 2 })
      return settling(row, withFirstCall(row, [second], { upstream: 'paid', status: 'failed', errorCode }))
    }
    commit(two('upstream_error'), two('upstream_rate_limited'))
    expect(ofUpstreams()).toEqual([
      // Of the 18 that both used, what the second has not.
      ['paid', 0, 13],
      ['spare', 1, 5],
      ['spare', 1, 5],
      ['spare', 2, 5],
      ['spare', 3, 5],
    ])
  })

  test('goes by the time of a request where ids minted in one ms run ahead of it', () => {
    commit(...Array.from({ length: 5_000 }, () => settling(toSettled(toOpen({ createdMs: SINCE - 1 })))))
    commit(settling(toSettled(toOpen({ createdMs: SINCE }))))
    expect(shown()).toEqual([[0, 18]])
  })

  test('leaves out what a clock that was set back left far in the future', () => {
    commit(...[90_000, HOUR_MS].map((aheadMs) => settling(toSettled(toOpen({ createdMs: SINCE + aheadMs })))))
    expect(shown()).toEqual([[90_000, 18]])
  })
})

describe('reading never goes through all requests', () => {
  const ALLOWED = /^SCAN (CONSTANT ROW|keys|requests USING INDEX requests_open)$/
  for (const [name, sql] of Object.entries(SPEND_QUERIES)) {
    test(`for ${name}`, () => {
      const plan = folder.database
        .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`)
        .all()
        .map(({ detail }) => detail)
      expect(plan.filter((detail) => detail.startsWith('SCAN') && !ALLOWED.test(detail))).toEqual([])
      const found = plan.filter((detail) => /^SEARCH (requests|usage_hourly)/.test(detail))
      const ofRequests = name.startsWith('recent') ? ['SEARCH requests USING PRIMARY KEY (id>? AND id<?)'] : []
      const ofHours = `SEARCH usage_hourly USING ${name === 'key' ? 'COVERING ' : ''}INDEX usage_hourly_${name} (${name}_id=? AND hour_ms>? AND hour_ms<?)`
      expect([...new Set(found)]).toEqual(name === 'key' || name === 'team' ? [ofHours] : ofRequests)
    })
  }
})
