/**
 * Hourly and daily totals, and the last use of keys, updated in the transaction that settles rows. A batch has few cells (hour, key, team, model, upstream,
 * endpoint), so each is written once.
 */
import type { Database } from 'bun:sqlite'
import { dayOf, hourOf } from '../../domain/time.ts'
import { addBuckets, type Buckets, countDuration, mergeBuckets } from '../histogram.ts'
import type { ClosedRow, OpenRow } from '../ledger-rows.ts'
import { BETWEEN, DAY_SUMS, HISTOGRAMS, MEASURES, PLACE } from '../reports/measures.ts'
import { placeholders } from './ledger-schema.ts'

interface Rollup {
  /** `sign` -1 subtracts the row. Call in the row's transaction. */
  add(row: ClosedRow, sign: 1 | -1): void
  /** Call in the rows' transaction. */
  flush(): void
  /** Call after a rollback. */
  clear(): void
}

interface Cell extends Sums {
  hourMs: number
  place: string[]
}

export function createRollup(sqlite: Database): Rollup {
  const cells = new Map<string, Cell>()
  /** Most rows share the previous one's cell. */
  let latest: Cell | null = null
  const write = createSumWriter(sqlite, 'usage_hourly', ['hour_ms', ...PLACE])
  const days = createDays(sqlite)

  const cellOf = (row: ClosedRow): Cell => {
    const hourMs = hourOf(row.createdMs)
    if (latest !== null && isOf(row, hourMs, latest)) return latest
    const place = [row.keyId, row.teamId ?? '', row.model, row.upstream, row.endpoint]
    const name = JSON.stringify([hourMs, ...place])
    latest = cells.get(name) ?? { hourMs, place, ...createSums() }
    cells.set(name, latest)
    return latest
  }

  const clear = () => {
    cells.clear()
    days.clear()
    latest = null
  }

  const flush = () => {
    // In table order, so that each page is written once.
    for (const cell of [...cells.values()].sort(byPlace)) {
      write([cell.hourMs, ...cell.place], cell)
      days.add(cell.hourMs, cell.place, cell)
    }
    days.flush()
    clear()
  }

  return {
    add(row, sign) {
      // SQLite adds exactly far beyond safe integers.
      if (Math.abs(cellOf(row).sums[COST] ?? 0) + row.costNanoUsd > Number.MAX_SAFE_INTEGER) flush()
      const cell = cellOf(row)
      for (let i = 0; i < MEASURES.length; i++) cell.sums[i] = (cell.sums[i] ?? 0) + sign * (MEASURES[i]?.of(row) ?? 0)
      countDuration(cell.firstToken, row.firstTokenMs, sign)
      countDuration(cell.duration, row.durationMs, sign)
    },
    flush,
    clear,
  }
}

const byPlace = ({ place: [a = ''] }: Cell, { place: [b = ''] }: Cell) => (a < b ? -1 : Number(a > b))

const isOf = (row: ClosedRow, hourMs: number, { hourMs: hour, place: [key, team, model, upstream, endpoint] }: Cell) =>
  hour === hourMs &&
  row.keyId === key &&
  (row.teamId ?? '') === team &&
  row.model === model &&
  row.upstream === upstream &&
  row.endpoint === endpoint

function createDays(sqlite: Database) {
  const write = createSumWriter(sqlite, 'usage_daily', ['dimension', 'day_ms', 'value'])
  const days = DAY_SUMS.map((of) => ({ ...of, values: new Map<string, Sums>() }))
  let dayMs = 0

  const add = ({ dimension, values }: (typeof days)[number], value: string, cell: Sums): void => {
    let sum = values.get(value)
    if (sum && Math.abs(sum.sums[COST] ?? 0) + Math.abs(cell.sums[COST] ?? 0) > Number.MAX_SAFE_INTEGER) {
      write([dimension, dayMs, value], sum)
      sum = undefined
    }
    if (!sum) {
      sum = createSums()
      values.set(value, sum)
    }
    addSums(sum, cell)
  }

  const clear = () => {
    for (const { values } of days) values.clear()
  }

  const flush = () => {
    for (const { dimension, values } of days) for (const [value, sum] of values) write([dimension, dayMs, value], sum)
    clear()
  }

  return {
    /** @param place in the order of DAILY. */
    add(hourMs: number, place: readonly string[], cell: Sums): void {
      // Hardly ever within a batch.
      if (dayOf(hourMs) !== dayMs) flush()
      dayMs = dayOf(hourMs)
      for (const day of days) {
        const value = place[day.of] ?? ''
        const scope = day.scope === null ? null : place[day.scope]
        if (scope !== '') add(day, scope === null ? value : scope + BETWEEN + value, cell)
      }
    },
    flush,
    clear,
  }
}

const COST = MEASURES.findIndex(({ name }) => name === 'cost_nano_usd')

interface Sums {
  /** In the order of MEASURES. */
  sums: number[]
  firstToken: Buckets
  duration: Buckets
}

const createSums = (): Sums => ({ sums: MEASURES.map(() => 0), firstToken: [], duration: [] })

function addSums(sum: Sums, delta: Sums): void {
  for (let i = 0; i < sum.sums.length; i++) sum.sums[i] = (sum.sums[i] ?? 0) + (delta.sums[i] ?? 0)
  addBuckets(sum.firstToken, delta.firstToken)
  addBuckets(sum.duration, delta.duration)
}

/** @param place columns of the primary key. */
function createSumWriter(sqlite: Database, table: 'usage_hourly' | 'usage_daily', place: readonly string[]) {
  const where = place.map((name) => `${name} = ?`).join(' AND ')
  const read = sqlite.query<{ first: string; whole: string }, (string | number)[]>(
    `SELECT first_token_histogram AS first, duration_histogram AS whole FROM ${table} WHERE ${where}`,
  )
  const names = [...place, ...MEASURES.map(({ name }) => name), ...HISTOGRAMS.map(([name]) => name)]
  const upsert = sqlite.query(
    `INSERT INTO ${table} (${names.join(', ')}) VALUES (${placeholders(names)})
     ON CONFLICT (${place.join(', ')}) DO UPDATE SET
     ${MEASURES.map(({ name }) => `${name} = ${name} + excluded.${name}`).join(', ')},
     ${HISTOGRAMS.map(([name]) => `${name} = excluded.${name}`).join(', ')}`,
  )
  const removeEmpty = sqlite.query(`DELETE FROM ${table} WHERE ${where} AND requests = 0`)

  return (of: readonly (string | number)[], { sums, firstToken, duration }: Sums): void => {
    const stored = read.get(...of)
    upsert.run(
      ...[...of, ...sums],
      mergeBuckets(stored?.first ?? '{}', firstToken),
      mergeBuckets(stored?.whole ?? '{}', duration),
    )
    // A row abandoned here was settled in another cell.
    if ((sums[0] ?? 0) <= 0) removeEmpty.run(...of)
  }
}

type Use = Pick<OpenRow, 'keyId' | 'createdMs' | 'model'>

interface KeyUses {
  note(row: Use): void
  flush(): void
  clear(): void
}

export function createKeyUses(sqlite: Database): KeyUses {
  const uses = new Map<string, Use>()
  // Deterministic for two uses in one millisecond.
  const upsert = sqlite.query(
    `INSERT INTO key_uses (key_id, last_used_ms, last_model) VALUES (?, ?, ?)
     ON CONFLICT (key_id) DO UPDATE SET last_used_ms = excluded.last_used_ms, last_model = excluded.last_model
     WHERE (excluded.last_used_ms, excluded.last_model) > (last_used_ms, last_model)`,
  )

  return {
    note(row) {
      const latest = uses.get(row.keyId)
      if (!latest || isLater(row, latest)) uses.set(row.keyId, row)
    },
    flush() {
      for (const { keyId, createdMs, model } of uses.values()) upsert.run(keyId, createdMs, model)
      uses.clear()
    },
    clear: () => uses.clear(),
  }
}

const isLater = (one: Use, other: Use) =>
  one.createdMs > other.createdMs || (one.createdMs === other.createdMs && one.model > other.model)
