/** Usage reports match the ledger to the nano-dollar, with every grouping, period, and filter. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { toFirstId } from '../../src/domain/id.ts'
import { NO_LIMITS } from '../../src/domain/limits.ts'
import { DIMENSIONS, type Dimension } from '../../src/domain/report-filters.ts'
import type { UsageGroup } from '../../src/ledger/report-filter.ts'
import { reportUsage, type UsageOptions, type UsageReport } from '../../src/ledger/usage.ts'
import { addDuration, type Histogram, toPercentile } from '../../src/store/histogram.ts'
import type { LedgerRecord } from '../../src/store/ledger-rows.ts'
import type { Span } from '../../src/store/ledger-store.ts'
import { createEngine, DIALECT as POSTGRES_DIALECT } from '../../src/store/postgres/engine.ts'
import type { UsageFilter, UsageQuery, UsageReader } from '../../src/store/report-store.ts'
import { toUsageStatement } from '../../src/store/reports/usage-statement.ts'
import { DIALECT } from '../../src/store/sqlite/engine.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { pruneSlice } from '../../src/store/sqlite/prune.ts'
import { createReaders } from '../../src/store/sqlite/readers.ts'
import { describeWith } from '../support/engines.ts'
import { forAllTests, forEachTest } from '../support/lifetime.ts'
import { createPicker } from '../support/random.ts'
import {
  abandonOthers,
  createFolder,
  HOUR,
  opening,
  settling,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from './fixture.ts'
import { overStores, startServer } from './stores.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** An hour at the end of a day and a month. */
const NEW_MONTH = Date.UTC(2026, 10)
const ALL: Span = { fromMs: 0, untilMs: NEW_MONTH + 400 * DAY_MS }
const TEAMS = ['team-0', 'team-1'].map((id) => ({
  ...{
    id,
    name: id,
    scope: 'all' as const,
    models: [],
    limits: NO_LIMITS,
    budget: null,
    maxKeys: null,
    metadata: {},
    createdMs: 0,
  },
}))
const NAMES = { keys: [], teams: TEAMS, aliases: [] }

const settle = (fields: Parameters<typeof toSettled>[1] = {}) => settling(toSettled(toOpen(fields), fields))

overStores((folder, store) => {
  const commit = (...records: LedgerRecord[]) => createLedgerWriter(folder.database).apply(records)

  type Asked = Partial<UsageOptions> & { span?: Span }

  async function report({ span = ALL, ...options }: Asked = {}, reader?: UsageReader, clock = () => 0) {
    const asked = {
      by: ['key'],
      where: {},
      limit: 100_000,
      limitMs: 1_000,
      sinceMs: span.fromMs,
      untilMs: span.untilMs,
    }
    const own = reader ?? (await folder.readers()).usage
    return reportUsage(own, NAMES, { ...asked, ...options } as UsageOptions, { nowMs: HOUR, clock })
  }

  const SUMS = {
    prompt_tokens: 'promptTokens',
    cached_tokens: 'cachedTokens',
    cache_write_1h_tokens: 'cacheWrite1hTokens',
    completion_tokens: 'completionTokens',
    image_tokens: 'imageTokens',
  } as const

  type LedgerRow = Record<string, string | bigint | null> & {
    status: string
    created_ms: bigint
    cost_nano_usd: bigint
  }

  const nameOf: Record<Dimension, (row: LedgerRow) => unknown> = {
    key: (row) => row.key_id,
    team: (row) => row.team_id,
    model: (row) => row.model,
    upstream: (row) => row.upstream,
    endpoint: (row) => row.endpoint,
    // A missing user is null.
    user: (row) => row.user || null,
    day: (row) => Number(row.created_ms - (row.created_ms % BigInt(DAY_MS))),
    hour: (row) => Number(row.created_ms - (row.created_ms % BigInt(HOUR_MS))),
  }

  const toName = (by: readonly Dimension[], { key, team, ...rest }: UsageGroup) =>
    JSON.stringify(by.map((one) => ({ ...rest, key: key?.id, team: team?.id ?? null })[one]))

  /** Adds up the ledger's rows by brute force: every value as SQLite has it. */
  function addUp(
    by: readonly Dimension[],
    { fromMs, untilMs }: Span,
    isMeant: (row: LedgerRow) => boolean = () => true,
  ) {
    const rows = folder.database
      .query<LedgerRow, [number, number]>(
        `SELECT * FROM requests WHERE status <> 'open' AND created_ms >= ? AND created_ms < ?`,
      )
      .safeIntegers(true)
      .all(fromMs, untilMs)
      .filter(isMeant)
    const groups = Map.groupBy(rows, (row) => JSON.stringify(by.map((dimension) => nameOf[dimension](row))))
    return new Map([...groups].map(([name, group]) => [name, toFacts(group)]))
  }

  function toFacts(rows: readonly LedgerRow[]) {
    const sum = (field: string, of = rows) => of.reduce((total, row) => total + BigInt(row[field] ?? 0), 0n)
    const times: Histogram = {}
    for (const row of rows) addDuration(times, row.first_token_ms === null ? null : Number(row.first_token_ms), 1)
    return {
      requests: rows.length,
      errors: rows.filter(({ status }) => status === 'failed' || status === 'abandoned').length,
      cuts: rows.filter(({ status }) => status === 'cut').length,
      ...Object.fromEntries(Object.entries(SUMS).map(([column, field]) => [field, Number(sum(column))])),
      costNanoUsd: sum('cost_nano_usd'),
      estimatedCostNanoUsd: sum(
        'cost_nano_usd',
        rows.filter(({ estimated }) => estimated),
      ),
      firstToken: { p50: toPercentile(times, 0.5), p95: toPercentile(times, 0.95), p99: toPercentile(times, 0.99) },
    }
  }

  const OWN = ['key-1', 'key-3']

  const GROUPINGS: Dimension[][] = DIMENSIONS.flatMap((one, i) => [
    [one],
    ...DIMENSIONS.slice(i + 1).map((two) => [one, two]),
  ])

  /** Names that careless code would split or join. */
  const USERS = [null, '', 'ann', "O'Hara", '["ann","b"]', 'ann","b', 'x'.repeat(256), '=1+1', 'ann\u0000b']

  /** Writes a ledger from a seed: hours and months end in it, keys change teams, sums exceed 2^53. */
  function writeLedger(seed: number): void {
    const pick = createPicker(seed)
    const oneOf = <T>(...values: readonly T[]) => values[pick(values.length)] as T
    const writer = createLedgerWriter(folder.database)
    const settled: LedgerRecord[] = []
    for (let i = 0; i < 250; i++) {
      const edgeMs = NEW_MONTH + oneOf(0, -DAY_MS, HOUR_MS, -31 * DAY_MS, 3 * DAY_MS)
      const row = toOpen({
        createdMs: edgeMs + oneOf(-1, 0, 1, pick(HOUR_MS), -pick(HOUR_MS)),
        keyId: `key-${pick(4)}`,
        teamId: pick(3) ? `team-${pick(2)}` : null,
        model: oneOf('acme/large', 'acme/sm%ll', 'acme/sm%ll2', 'acme/x*'),
        upstream: oneOf('paid', 'spare'),
        user: oneOf(...(store === 'SQLite' ? USERS : USERS.slice(0, -1))),
        instance: pick(8) ? 'here' : 'gone',
      })
      const calls = pick(5) ? [] : [toCall(row, 2)]
      if (pick(2)) writer.apply([opening(row), ...calls.map((call): LedgerRecord => ({ kind: 'call', call }))])
      if (!pick(10)) continue
      const outcome = {
        status: oneOf('ok', 'ok', 'failed', 'cut'),
        estimated: oneOf(0, 0, 1),
        costNanoUsd: pick(10) ? pick(1_000_000) : Number.MAX_SAFE_INTEGER - pick(1_000),
        promptTokens: pick(1_000_000_000),
        cacheWrite1hTokens: pick(100),
        imageTokens: pick(100),
        firstTokenMs: pick(4) ? Math.ceil(1.5 ** pick(40)) : null,
        durationMs: Math.ceil(1.5 ** pick(40)),
        attempts: 1 + calls.length,
      } as const
      settled.push(
        settling(toSettled(row, outcome), calls.length ? calls.map((call) => toSettledCall(call)) : undefined),
      )
      if (!pick(20)) writer.apply(settled.splice(0))
    }
    writer.apply(settled)
    abandonOthers(folder.database, 'here')
  }

  describe('for any ledger', () => {
    test.each(store === 'SQLite' ? [1, 2, 3] : [1])(
      'every grouping of it adds up to it, over any span of time (seed %i)',
      async (seed) => {
        writeLedger(seed)
        const pick = createPicker(seed + 100)
        const edge = () => NEW_MONTH + ([0, HOUR_MS, -DAY_MS][pick(3)] ?? 0) + ([0, 1, -1, pick(HOUR_MS)][pick(4)] ?? 0)
        expect((await report()).total.costNanoUsd).toBeGreaterThan(BigInt(Number.MAX_SAFE_INTEGER))
        for (const by of GROUPINGS) {
          const [fromMs = 0, untilMs = 0] = [edge(), edge()].sort((a, b) => a - b)
          for (const span of [ALL, { fromMs, untilMs: untilMs + 1 }]) {
            const { rows, rest, total, isMoved } = await report({ by, span })
            const named = rows.map(({ group, figures }) => [toName(by, group), figures] as const)
            const expected = addUp(by, span)
            expect(named.map(([name]) => name).toSorted()).toEqual([...expected.keys()].toSorted())
            for (const [name, figures] of named) expect(figures).toMatchObject(expected.get(name) ?? {})
            const all = addUp([], span).get('[]') ?? toFacts([])
            expect(total).toMatchObject(all)
            expect(rows.reduce((sum, { figures }) => sum + figures.costNanoUsd, 0n)).toBe(all.costNanoUsd)
            expect([rest, isMoved]).toEqual([null, false])
          }
        }
      },
    )

    test.each(store === 'SQLite' ? [5, 6] : [5])(
      'what is narrowed to one model or one team is what that has of it (seed %i)',
      async (seed) => {
        writeLedger(seed)
        const narrowed: [UsageFilter, (row: LedgerRow) => boolean][] = [
          ...['acme/large', 'acme/sm%ll', 'acme/sm?ll', ''].map((one): (typeof narrowed)[number] => [
            { model: [one] },
            ({ model }) => model === one,
          ]),
          [{ model: ['acme/x*'] }, ({ model }) => String(model).startsWith('acme/x')],
          [{ model: ['acme/large', 'acme/sm%ll'] }, ({ model }) => /large|ll$/.test(String(model))],
          [{ team: ['team-0'] }, ({ team_id }) => team_id === 'team-0'],
          [{ team: ['team-0', 'team-1'] }, ({ team_id }) => team_id !== null],
          [
            { team: ['team-1'], model: ['acme/sm*'] },
            (row) => row.team_id === 'team-1' && /sm/.test(String(row.model)),
          ],
          [
            { team: ['team-0', 'team-1'], model: ['acme/large'] },
            (row) => row.team_id !== null && row.model === 'acme/large',
          ],
          [
            { upstream: ['paid'], model: ['acme/large'] },
            (row) => row.upstream === 'paid' && row.model === 'acme/large',
          ],
          [{ upstream: ['paid'], team: ['team-1'] }, (row) => row.upstream === 'paid' && row.team_id === 'team-1'],
          [{ ownKeys: OWN }, ({ key_id }) => OWN.includes(String(key_id))],
          [
            { ownKeys: OWN, team: ['team-1'] },
            ({ key_id, team_id }) => OWN.includes(String(key_id)) && team_id === 'team-1',
          ],
          [
            { ownKeys: OWN, model: ['acme/large'] },
            (row) => OWN.includes(String(row.key_id)) && row.model === 'acme/large',
          ],
          [{ ownKeys: [] }, () => false],
        ]
        const day = { fromMs: NEW_MONTH - DAY_MS, untilMs: NEW_MONTH + HOUR_MS + 1 }
        for (const [where, isMeant] of narrowed)
          for (const by of GROUPINGS) {
            const span = by.length === 1 ? day : ALL
            const expected = addUp(by, span, isMeant)
            const { rows, total } = await report({ by, where, span })
            expect(rows.map(({ group }) => toName(by, group)).toSorted()).toEqual([...expected.keys()].toSorted())
            for (const { group, figures } of rows) expect(figures).toMatchObject(expected.get(toName(by, group)) ?? {})
            expect(total).toMatchObject(addUp([], span, isMeant).get('[]') ?? toFacts([]))
          }
      },
    )

    test('a filter gives the same as the group of that value', async () => {
      writeLedger(4)
      for (const dimension of ['model', 'upstream', 'user'] as const) {
        const { rows } = await report({ by: [dimension] })
        expect(rows.length).toBeGreaterThan(1)
        for (const { group, figures } of rows) {
          const value = group[dimension as 'user'] ?? ''
          expect((await report({ by: ['day', 'key'], where: { [dimension]: [value] } })).total).toEqual(figures)
        }
      }
      expect((await report({ where: { model: ['acme/l*', 'acme/s?%ll'] } })).total).toMatchObject({
        requests: (await report({ by: ['model'] })).rows.find(({ group }) => group.model === 'acme/large')?.figures
          .requests,
      })
      const [first] = (await report({ by: ['user', 'upstream'] })).rows
      const where = { user: [first?.group.user ?? ''], upstream: [first?.group.upstream ?? ''] }
      expect((await report({ by: ['endpoint'], where })).total).toMatchObject({ ...first?.figures })
    })
  })

  describe('rows', () => {
    const spend = (...all: readonly (readonly [keyId: string, costNanoUsd: number])[]) =>
      commit(...all.map(([keyId, costNanoUsd]) => settle({ keyId, costNanoUsd })))
    const shown = async (asked: Asked) => {
      const { rows, rest, total } = await report(asked)
      return {
        rows: rows.map(({ group, figures }) => [group.key?.id ?? group.hour, figures.costNanoUsd]),
        rest: rest && [rest.groups, rest.figures.costNanoUsd],
        total: total.costNanoUsd,
      }
    }

    test('beyond the limit are combined, except the most expensive ones', async () => {
      spend(['a', 5], ['b', 50], ['c', 7], ['d', 0], ['d', 0], ['e', 0])
      expect(await shown({ limit: 2 })).toEqual({
        rows: [
          ['b', 50n],
          ['c', 7n],
        ],
        rest: [3, 5n],
        total: 62n,
      })
      expect((await report({ limit: 4 })).rows.map(({ group }) => group.key?.id)).toEqual(['b', 'c', 'a', 'd'])
    })

    test('of hours are sorted by time, those of one hour by cost', async () => {
      for (const [i, costNanoUsd] of [3, 9, 1].entries()) commit(settle({ createdMs: HOUR + i * HOUR_MS, costNanoUsd }))
      commit(settle({ createdMs: HOUR, costNanoUsd: 4, keyId: 'other' }))
      const at = (hours: number) => HOUR + hours * HOUR_MS
      expect(await shown({ by: ['hour'], limit: 2 })).toMatchObject({
        rows: [
          [at(0), 7n],
          [at(1), 9n],
        ],
        rest: [1, 1n],
      })
      expect((await shown({ by: ['hour', 'key'] })).rows.map(([, cost]) => cost)).toEqual([4n, 3n, 9n, 1n])
    })

    test('are exact even if clients name more users than fit into memory', async () => {
      const users = Array.from({ length: 10_050 }, (_, i) =>
        settle({ user: `user-${i}`, costNanoUsd: 1, createdMs: HOUR }),
      )
      commit(...users)
      commit(...[7, 8].map((costNanoUsd) => settle({ user: 'user-10049', costNanoUsd, createdMs: HOUR + HOUR_MS })))
      const { rows, rest, total } = await report({ by: ['user'], limit: 2 })
      expect(rows.map(({ group, figures }) => [group.user, figures.costNanoUsd])).toEqual([
        ['user-10049', 16n],
        ['user-0', 1n],
      ])
      expect([rest?.groups, rest?.figures.costNanoUsd, rest?.figures.requests]).toEqual([10_048, 10_048n, 10_048])
      expect([total.costNanoUsd, total.requests]).toEqual([10_065n, 10_052])
    })
  })

  describe('if old requests were deleted', () => {
    const at = (hours: number, costNanoUsd: number) =>
      settle({ createdMs: HOUR + hours * HOUR_MS, costNanoUsd, user: 'ann' })
    const prune = async (untilMs: number) => {
      await folder.ship()
      pruneSlice(folder.database, { untilMs, after: '', limit: 1_000, spared: [] }, untilMs + 90 * DAY_MS)
      await folder.ship()
    }
    const half = (hours: number) => HOUR + hours * HOUR_MS
    beforeEach(() => {
      commit(at(0, 1), at(0.75, 10), at(1.25, 100), at(1.75, 1_000), at(2.25, 10_000))
    })

    test('a part of an hour is reported as the whole hour, and marked', async () => {
      const span = { fromMs: half(0.5), untilMs: half(1.5) }
      expect(await report({ span })).toMatchObject({ total: { costNanoUsd: 110n }, isMoved: false })
      await prune(half(1))
      const moved = { total: { costNanoUsd: 111n }, sinceMs: half(0), untilMs: half(1.5), isMoved: true }
      expect(await report({ span })).toMatchObject(moved)
      expect(await report({ span: { fromMs: half(0.5), untilMs: half(0.6) } })).toMatchObject({
        total: { costNanoUsd: 11n },
        sinceMs: half(0),
        untilMs: half(1),
      })
      await prune(half(2))
      expect(await report({ span })).toMatchObject({
        total: { costNanoUsd: 1_111n },
        sinceMs: half(0),
        untilMs: half(2),
      })
      for (const [hours, costNanoUsd] of [
        [1, 11n],
        [2, 1_111n],
      ] as const)
        expect(await report({ span: { fromMs: half(0), untilMs: half(hours) } })).toMatchObject({
          total: { costNanoUsd },
          isMoved: false,
        })
    })

    test('users are reported from the first hour whose requests are complete', async () => {
      await prune(half(1))
      const { rows, sinceMs, isMoved } = await report({ by: ['user'], span: { fromMs: 0, untilMs: half(3) } })
      expect([rows.map(({ figures }) => figures.costNanoUsd), sinceMs, isMoved]).toEqual([[11_100n], half(1), true])
      expect(await report({ by: ['user'], span: { fromMs: 0, untilMs: half(0.5) } })).toMatchObject({
        rows: [],
        isMoved: true,
      })
      expect((await report({ where: { user: ['ann'] } })).total.costNanoUsd).toBe(11_100n)
    })

    test('requests deleted during the report are not partly in it', async () => {
      const reader = (await folder.readers()).usage
      const pruned: UsageReader = {
        ...reader,
        async *pages(query) {
          await prune(half(2))
          yield* reader.pages(query)
        },
      }
      expect(await report({ by: ['user'] }, pruned)).toMatchObject({
        total: { costNanoUsd: 10_000n },
        sinceMs: half(2),
      })
    })
  })

  test('tokens beyond the exact range of a number are added up', async () => {
    commit(...[1, 2].map(() => settle({ promptTokens: Number.MAX_SAFE_INTEGER })))
    for (const by of [['key'], ['key', 'model'], ['user']] as Dimension[][])
      expect((await report({ by })).total.promptTokens).toBe(2 * Number.MAX_SAFE_INTEGER)
  })

  test('spend alone is the same, from totals and from requests', async () => {
    commit(settle({ costNanoUsd: 7, durationMs: 900, user: 'x' }), settle({ createdMs: HOUR + DAY_MS, durationMs: 50 }))
    for (const by of [['key'], ['key', 'model'], ['day', 'model'], ['user']] as Dimension[][]) {
      const whole = await report({ by })
      expect(whole.total.duration.p50).not.toBeNull()
      const toSpend = ({ rows, total }: UsageReport) =>
        [...rows, { group: null, figures: total }].map(({ group, figures }) => [
          group,
          figures.requests,
          figures.costNanoUsd,
          figures.estimatedShare,
        ])
      const spend = await report({ by, figures: 'spend' })
      expect(toSpend(spend)).toEqual(toSpend(whole))
      expect(spend.total.duration.p50).toBeNull()
    }
  })

  describe('reading', () => {
    test('a month of days reads the totals of its days, today included, except for a part of an hour', async () => {
      commit(...[0, 1, 29].map((days) => settle({ createdMs: HOUR - days * DAY_MS })))
      const asked = async (options: Asked) => {
        const reader = (await folder.readers()).usage
        const read: string[] = []
        const pages = (query: UsageQuery) => {
          read.push(query.from)
          return reader.pages(query)
        }
        const { total } = await report(options, { ...reader, pages })
        return [total.requests, ...read]
      }
      const month = { sinceMs: HOUR - (HOUR % DAY_MS) - 29 * DAY_MS, untilMs: null }
      for (const by of [['day', 'model'], ['day', 'key'], ['key'], ['team']] as Dimension[][])
        expect(await asked({ ...month, by })).toEqual([3, 'days'])
      expect(await asked({ ...month, by: ['day'], where: { model: ['acme/*'] } })).toEqual([3, 'days'])
      expect(await asked({ ...month, by: ['key', 'model'] })).toEqual([3, 'hours'])
      expect(await asked({ ...month, by: ['key'], where: { model: ['acme/*'] } })).toEqual([3, 'hours'])
      for (const by of [['key'], ['team', 'day'], ['day', 'upstream']] as Dimension[][])
        expect(await asked({ ...month, by, where: { model: ['acme/large'] } })).toEqual([3, 'days'])
      const within: [UsageFilter, number, 'days' | 'hours'][] = [
        [{ team: ['team-0'] }, 0, 'days'],
        [{ team: ['team-0'], model: ['acme/*'] }, 0, 'days'],
        [{ team: ['team-0', 'team-1'], model: ['acme/large'] }, 0, 'days'],
        [{ model: ['acme/large'], upstream: ['paid'] }, 3, 'days'],
        [{ model: ['acme/large', 'acme/small'], upstream: ['paid'] }, 3, 'hours'],
        [{ model: ['acme/large'], endpoint: ['chat'] }, 3, 'hours'],
        [{ model: ['acme/large'], team: ['team-0'], upstream: ['paid'] }, 0, 'hours'],
        [{ ownKeys: ['a', 'b'] }, 0, 'days'],
        [{ ownKeys: ['a', 'b'], model: ['acme/large'] }, 0, 'days'],
        [{ ownKeys: ['a', 'b'], upstream: ['paid'] }, 0, 'hours'],
      ]
      for (const [where, requests, from] of within)
        expect(await asked({ ...month, by: ['day'], where })).toEqual([requests, from])
      expect(await asked({ ...month, by: ['key', 'upstream'], where: { model: ['acme/large'] } })).toEqual([3, 'hours'])
      expect(await asked({ ...month, by: ['key', 'model'], where: { model: ['acme/large'] } })).toEqual([3, 'hours'])
      expect(await asked({ sinceMs: HOUR - 29 * DAY_MS - 1, untilMs: null })).toEqual([3, 'requests', 'hours', 'days'])
      // Rows after the end, from a clock that was set back, are excluded.
      commit(settle({ createdMs: HOUR + 3 * HOUR_MS }))
      expect(await asked({ ...month, by: ['model'] })).toEqual([3, 'days', 'hours'])
    })
  })
})

describe('in SQLite', () => {
  const folder = forEachTest(createFolder)

  test('a report that takes too long is stopped, and delays no checkpoint', async () => {
    createLedgerWriter(folder.database).apply([
      settle({ createdMs: HOUR }),
      settle({ createdMs: HOUR + DAY_MS, user: 'ann' }),
    ])
    let now = 0
    const connection = openDatabase(databasePath(folder.path), { busyMs: 0, readonly: true })
    const reader = createReaders(connection).usage
    for (const by of [['hour'], ['user']] as const) {
      const options = { by, where: {}, limit: 10, limitMs: 1_000, sinceMs: 0, untilMs: null }
      const clock = () => (now += 600)
      const asked = reportUsage(reader, NAMES, options, { nowMs: HOUR + DAY_MS, clock })
      await expect(asked).rejects.toThrow('longer than 1 s')
    }
    expect(folder.database.query('PRAGMA wal_checkpoint(TRUNCATE)').get()).toMatchObject({ busy: 0 })
    connection.close()
  })

  describe('reports only read their period', () => {
    const planOf = (query: Parameters<typeof toUsageStatement>[1]) =>
      folder.database
        .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${toUsageStatement(DIALECT, query).sql}`)
        .all()
        .map(({ detail }) => detail)
        // A page is sorted in memory; the test checks the rows read.
        .filter((detail) => /^(SEARCH|SCAN)/.test(detail))
    const where = { model: ['acme/*'], upstream: ['paid'] }

    test('of the daily totals, for one dimension or filter', () => {
      for (const [by, where] of [
        [['day', 'model'], {}],
        [['key'], {}],
        [['day'], { key: ['a', 'b'] }],
        [['model', 'day'], { model: ['acme/*'] }],
      ] as [Dimension[], UsageFilter][])
        expect(planOf({ from: 'days', by, where })).toEqual([
          'SEARCH usage_daily USING PRIMARY KEY (dimension=? AND day_ms>? AND day_ms<?)',
        ])
    })

    test('of those of one model or one team, independent of others', () => {
      for (const [by, where] of [
        [['key'], { model: ['acme/large'] }],
        [['day', 'upstream'], { model: ['acme/large'], upstream: ['paid', 'spare'] }],
        [['day'], { team: ['a'], model: ['acme/*'] }],
        [['model', 'day'], { team: ['a'] }],
      ] as [Dimension[], UsageFilter][])
        expect(planOf({ from: 'days', by, where })).toEqual([
          'SEARCH usage_daily USING PRIMARY KEY (dimension=? AND day_ms=? AND value>? AND value<?)',
          'SEARCH usage_daily USING PRIMARY KEY (dimension=? AND day_ms>? AND day_ms<?)',
        ])
    })

    test('of the hourly totals, or their part of the key or the team', () => {
      const search = (index: string) => [
        expect.stringMatching(new RegExp(`^SEARCH usage_hourly USING ${index} \\(.*hour_ms>`)),
      ]
      expect(planOf({ from: 'hours', by: ['model'], where })).toEqual(search('PRIMARY KEY'))
      expect(planOf({ from: 'hours', by: ['hour'], where: { key: ['a'] } })).toEqual(search('INDEX usage_hourly_key'))
      expect(planOf({ from: 'hours', by: ['day'], where: { team: ['a'] } })).toEqual(search('INDEX usage_hourly_team'))
    })

    test('of the requests', () => {
      expect(planOf({ from: 'requests', by: ['user'], where: { ...where, key: ['a'] } })).toEqual([
        'SEARCH requests USING PRIMARY KEY (id>? AND id<?)',
      ])
    })
  })
})

describeWith('PostgreSQL')('in PostgreSQL', () => {
  const server = forAllTests(startServer)

  test("requests are read only from the period's months, and days and hours by their key", async () => {
    await server.postgres.query('select tollgate.make_ledger_months($1::int8, $2::int8)', [
      NEW_MONTH,
      NEW_MONTH + 90 * DAY_MS,
    ])
    const planOf = async (query: Parameters<typeof toUsageStatement>[1], ...span: (string | number)[]) => {
      const { sql, values } = toUsageStatement(POSTGRES_DIALECT, query)
      const rows = await server.postgres.begin(async (tx) => {
        await tx.query('set local enable_seqscan = off')
        return createEngine(tx).lists(`EXPLAIN ${sql}`, [...span, ...values])
      })
      return rows.flat().join(' ')
    }
    const ids = [NEW_MONTH, NEW_MONTH + DAY_MS].map((ms) => POSTGRES_DIALECT.toBound(toFirstId(ms)))
    const requests = await planOf({ from: 'requests', by: ['user'], where: { key: ['a'] } }, ...ids, 0, 1)
    expect([...requests.matchAll(/ on (requests_\w+)/g)].map(([, name]) => name)).toEqual(['requests_2026_11'])
    const days = await planOf({ from: 'days', by: ['day'], where: { team: ['a'], model: ['acme/*'] } }, 0, 1)
    expect(days).toMatch(/usage_daily_pkey on usage_daily .*Index Cond: .*value >= .*value < /)
    const hours = await planOf({ from: 'hours', by: ['hour'], where: { key: ['a'] } }, 0, 1)
    expect(hours).toContain('usage_hourly_key')
  })
})
