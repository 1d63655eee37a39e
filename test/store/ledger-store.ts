/** What every store of the ledger must do: its contract, as tests. Each implementation runs them with its own stores. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { type LedgerRecord, withFirstCall } from '../../src/store/ledger-rows.ts'
import type { Leases, LedgerAudit, LedgerReader, LedgerWriter } from '../../src/store/ledger-store.ts'
import type { SpendReader } from '../../src/store/report-store.ts'
import { calling, HOUR, opening, settling, since, toCall, toOpen, toSettled, toSettledCall } from '../ledger/fixture.ts'

export interface LedgerParts {
  writer: LedgerWriter
  reader: LedgerReader
  spend: SpendReader
  leases: Leases
  audit: LedgerAudit
  close(): void
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const TODAY = HOUR - (HOUR % DAY_MS)
/** As long as they should not be told apart by mistake. */
const SPANS = {
  day: { fromMs: TODAY, untilMs: TODAY + DAY_MS },
  week: { fromMs: TODAY - DAY_MS, untilMs: TODAY + DAY_MS },
  month: { fromMs: TODAY - 2 * DAY_MS, untilMs: TODAY + DAY_MS },
  total: since(0),
}

/** Runs the contract's tests. `open` makes an empty ledger. */
export function testLedgerStore(name: string, open: () => LedgerParts): void {
  describe(name, () => {
    let parts: LedgerParts
    let reader: LedgerReader
    beforeEach(() => {
      parts = open()
      reader = parts.reader
    })
    afterEach(() => parts.close())

    const commit = async (...records: LedgerRecord[]) => expect(await parts.writer.apply(records)).toEqual([])
    /** As a start does that is alone. */
    const abandonOthers = async () => {
      parts.leases.begin('here', { fromMs: HOUR, untilMs: HOUR + 1 }, [])
      return await parts.writer.abandonGone(HOUR)
    }
    const spending = async (kind: 'key' | 'team', id?: string) =>
      Object.fromEntries(await parts.spend.spending(kind, SPANS, id))
    const lastUse = async () => (await spending('key'))['key-a']?.lastUse

    describe('a lease', () => {
      const openBy = (instance: string) => opening(toOpen({ instance }))
      const living = () => parts.audit.open().map(({ instance }) => instance)

      test('keeps what its run has open for as long as it is renewed', async () => {
        const { leases, writer } = parts
        leases.begin('one', { fromMs: HOUR, untilMs: HOUR + 10 }, [])
        leases.begin('two', { fromMs: HOUR, untilMs: HOUR + 10 }, null)
        await commit(openBy('one'), openBy('two'), openBy('nobody'))
        expect([await writer.abandonGone(HOUR + 9), living()]).toEqual([1, ['one', 'two']])
        expect(leases.renew('two', HOUR + 20)).toBe(true)
        expect([await writer.abandonGone(HOUR + 10), living()]).toEqual([1, ['two']])
        expect(leases.renew('one', HOUR + 20)).toBe(false)
        expect(parts.audit.lastInstance()).toBe('two')
      })

      test('is over at once where a later run is alone, whose epoch is later', async () => {
        const { leases, writer } = parts
        const first = leases.begin('one', { fromMs: HOUR, untilMs: HOUR + HOUR_MS }, [])
        await commit(openBy('one'))
        expect(leases.begin('two', { fromMs: HOUR + 1, untilMs: HOUR + HOUR_MS }, [])).toBeGreaterThan(first)
        expect([await writer.abandonGone(HOUR + 1), living()]).toEqual([1, []])
        expect(reader.spent({ kind: 'key', id: 'key-a' }, since(HOUR))).toBe(9_000)
      })
    })

    test('one row that does not fit is given back and costs the others nothing', async () => {
      const [good, bad] = [toOpen(), toSettled(toOpen())]
      Reflect.set(bad, 'promptTokens', null)
      const rejected = await parts.writer.apply([settling(toSettled(good)), settling(bad)])
      expect(rejected.map(({ record }) => record)).toEqual([settling(bad)])
      expect([reader.count(), parts.audit.has(good.id), parts.audit.has(bad.id)]).toEqual([1, true, false])
      expect(parts.audit.cells(HOUR)).toEqual([
        expect.objectContaining({ requests: 1, orphan: false, differences: [] }),
      ])
    })

    const ofKey = (fromMs: number) => reader.spent({ kind: 'key', id: 'key-a' }, since(fromMs))
    const ofTeam = (fromMs: number) => reader.spent({ kind: 'team', id: 'team-a' }, since(fromMs))

    describe('spent', () => {
      test('is nothing for a key, or a team, that never asked for anything', () => {
        expect([ofKey(0), ofTeam(0), reader.spent({ kind: 'team', id: 'nobody' }, since(0))]).toEqual([0, 0, 0])
      })

      test('is the cost of what was settled since, across models and upstreams', async () => {
        const before = toOpen({ createdMs: HOUR - 1 })
        const first = toOpen({ createdMs: HOUR })
        const elsewhere = toOpen({ createdMs: HOUR + HOUR_MS, model: 'acme/small', upstream: 'spare' })
        await commit(
          settling(toSettled(before, { costNanoUsd: 1 })),
          settling(toSettled(first, { costNanoUsd: 10 })),
          settling(toSettled(elsewhere, { costNanoUsd: 100, status: 'cut' })),
        )
        expect([ofKey(0), ofKey(HOUR), ofKey(HOUR + HOUR_MS), ofKey(HOUR + 2 * HOUR_MS)]).toEqual([111, 110, 100, 0])
      })

      test('ends where it is asked to, whatever a clock that was ahead has left behind that', async () => {
        const [now, ahead] = [toOpen({ createdMs: HOUR }), toOpen({ createdMs: HOUR + HOUR_MS })]
        await commit(settling(toSettled(now, { costNanoUsd: 1 })), settling(toSettled(ahead, { costNanoUsd: 10 })))
        await commit(opening(toOpen({ createdMs: HOUR + HOUR_MS, reservedNanoUsd: 100 })))
        const until = (untilMs: number) => reader.spent({ kind: 'key', id: 'key-a' }, { fromMs: 0, untilMs })
        expect([HOUR, HOUR + HOUR_MS, HOUR + 2 * HOUR_MS].map(until)).toEqual([0, 1, 111])
        expect([0, HOUR, HOUR + 1, HOUR + 5 * HOUR_MS].map(reader.latestHour)).toEqual([0, 0, HOUR, HOUR + HOUR_MS])
      })

      test('holds all that an open request has reserved, further calls included, in the period in which it came', async () => {
        const early = toOpen({ createdMs: HOUR - 1, reservedNanoUsd: 1 })
        const late = toOpen({ createdMs: HOUR, reservedNanoUsd: 10 })
        await commit(opening(early), opening(late))
        // Made after the hour, for a request of before it: its cost will stand in the hour of the request.
        await commit(calling(toCall(early, 2, { createdMs: HOUR + 5, reservedNanoUsd: 100 })))
        await commit(
          calling(toCall(late, 2, { reservedNanoUsd: 1_000 })),
          calling(toCall(late, 3, { reservedNanoUsd: 10_000 })),
        )
        expect([ofKey(HOUR), ofKey(0)]).toEqual([11_010, 11_111])
      })

      test('takes the cost for the reserve once a request is settled, and the reserve once it is given up', async () => {
        const [settled, lost] = [toOpen({ reservedNanoUsd: 50 }), toOpen({ reservedNanoUsd: 700, instance: 'gone' })]
        const further = toCall(settled, 2, { reservedNanoUsd: 60 })
        await commit(opening(settled), opening(lost), calling(further))
        expect(ofKey(HOUR)).toBe(810)
        await commit(
          settling(toSettled(settled, { costNanoUsd: 9, attempts: 2 }), [toSettledCall(further, { costNanoUsd: 4 })]),
        )
        expect(ofKey(HOUR)).toBe(709)
        await abandonOthers()
        expect(ofKey(HOUR)).toBe(709)
      })

      test('of a team is that of whoever was in it then, and of nobody else', async () => {
        const teamId = 'team-a'
        await commit(
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

      test('tells the tokens of each request since then, oldest first, to its key and the team of that time', async () => {
        const used = { promptTokens: 11, completionTokens: 7 }
        await commit(
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

      test('counts the reserves of what is open or was given up', async () => {
        const [open, lost] = [toOpen({ createdMs: SINCE + 1 }), toOpen({ createdMs: SINCE + 2, instance: 'gone' })]
        await commit(opening(open), calling(toCall(open, 2)), opening(lost), calling(toCall(lost, 2)))
        const both = [
          [1, 2_042],
          [2, 2_042],
        ]
        expect(shown()).toEqual(both)
        await abandonOthers()
        expect(shown()).toEqual(both)
      })

      test('tells each call to its upstream, whenever its request began, and no refusal for the limits of one', async () => {
        const row = toOpen({ createdMs: SINCE - 300_000 })
        const calls = [2, 3].map((number) => toCall(row, number, { createdMs: SINCE + number }))
        const used = { promptTokens: 4, completionTokens: 1 }
        const settled = calls.map((call) => toSettledCall(call, used))
        await commit(settling(toSettled(row, { attempts: 3 }), settled))
        await commit(
          settling(toSettled(toOpen({ createdMs: SINCE }), { errorCode: 'upstream_rate_limited', status: 'failed' })),
        )
        const two = (errorCode: string) => {
          const request = toOpen({ createdMs: SINCE, upstream: 'spare' })
          const second = toSettledCall(toCall(request, 2, { createdMs: SINCE + 1 }), used)
          const row = toSettled(request, { attempts: 2 })
          return settling(row, withFirstCall(row, [second], { upstream: 'paid', status: 'failed', errorCode }))
        }
        await commit(two('upstream_error'), two('upstream_rate_limited'))
        expect(ofUpstreams()).toEqual([
          // Of the 18 that both used, what the second has not.
          ['paid', 0, 13],
          ['spare', 1, 5],
          ['spare', 1, 5],
          ['spare', 2, 5],
          ['spare', 3, 5],
        ])
      })

      test('goes by the time of a request where ids minted in one ms run ahead of it', async () => {
        await commit(...Array.from({ length: 5_000 }, () => settling(toSettled(toOpen({ createdMs: SINCE - 1 })))))
        await commit(settling(toSettled(toOpen({ createdMs: SINCE }))))
        expect(shown()).toEqual([[0, 18]])
      })

      test('leaves out what a clock that was set back left far in the future', async () => {
        await commit(...[90_000, HOUR_MS].map((aheadMs) => settling(toSettled(toOpen({ createdMs: SINCE + aheadMs })))))
        expect(shown()).toEqual([[90_000, 18]])
      })
    })

    test('each key has in each period what was settled in it, and all that its open requests have reserved', async () => {
      const at = (days: number, costNanoUsd: number, keyId = 'key-a') =>
        settling(toSettled(toOpen({ createdMs: HOUR + days * DAY_MS, keyId }), { costNanoUsd }))
      await commit(at(0, 1), at(-1, 10), at(-2, 100), at(-3, 1_000), at(1, 10_000), at(0, 7, 'key-b'))
      const open = toOpen({ createdMs: TODAY - 1, reservedNanoUsd: 20 })
      await commit(opening(open), calling(toCall(open, 2, { reservedNanoUsd: 300 })))
      await commit(opening(toOpen({ keyId: 'key-c', reservedNanoUsd: 5 })))
      const found = await spending('key')
      expect(found).toMatchObject({
        'key-a': { nanoUsd: { day: 1, week: 331, month: 431, total: 11_431 } },
        'key-b': { nanoUsd: { day: 7, week: 7, month: 7, total: 7 } },
        'key-c': { nanoUsd: { day: 5, week: 5, month: 5, total: 5 } },
      })
      expect(Object.keys(found)).toHaveLength(3)
      for (const [id, one] of Object.entries(found)) expect(await spending('key', id)).toEqual({ [id]: one })
      expect(await spending('key', 'nobody')).toEqual({})
    })

    test('a team has what its keys spent while they were in it', async () => {
      const teamId = 'team-a'
      await commit(
        settling(toSettled(toOpen({ teamId }), { costNanoUsd: 1 })),
        settling(toSettled(toOpen({ teamId, keyId: 'key-b' }), { costNanoUsd: 10 })),
        settling(toSettled(toOpen(), { costNanoUsd: 100 })),
        opening(toOpen({ teamId, reservedNanoUsd: 1_000 })),
        opening(toOpen({ reservedNanoUsd: 10_000 })),
      )
      const nanoUsd = { day: 1_011, week: 1_011, month: 1_011, total: 1_011 }
      expect(await spending('team')).toEqual({ 'team-a': { nanoUsd, lastUse: null } })
      expect(await spending('team', 'team-a')).toEqual(await spending('team'))
    })

    describe('the last use of a key', () => {
      const first = toOpen({ createdMs: HOUR, model: 'acme/large' })
      const last = toOpen({ createdMs: HOUR + 5, model: 'acme/small' })
      const use = { atMs: HOUR + 5, model: 'acme/small' }

      test('is its newest request, whichever ends or is applied last, and however often', async () => {
        await commit(opening(first))
        expect(await lastUse()).toEqual({ atMs: HOUR, model: 'acme/large' })
        await commit(opening(last), settling(toSettled(last)))
        expect(await lastUse()).toEqual(use)
        await commit(settling(toSettled(first)))
        await commit(opening(first), settling(toSettled(first)), opening(first))
        expect(await lastUse()).toEqual(use)
      })

      test('is one that failed, or that nobody saw the end of', async () => {
        await commit(settling(toSettled(first, { status: 'failed', httpStatus: 502 })))
        expect(await lastUse()).toEqual({ atMs: HOUR, model: 'acme/large' })
        await commit(opening({ ...last, instance: 'gone' }))
        await abandonOthers()
        expect(await lastUse()).toEqual(use)
      })
    })
  })
}
