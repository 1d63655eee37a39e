/** The outbox of a cluster node for PostgreSQL. Entries are written with the rows they name, so a rollback undoes both. */
import type { Database } from 'bun:sqlite'
import { getTableColumns } from 'drizzle-orm'
import type { Outbox, RefusalCount } from '../ledger-store.ts'
import { refusalOf } from '../refusal.ts'
import { calls, refusalsHourly, requests } from './ledger-schema.ts'

export interface OutboxNotes {
  /** If false, nothing is recorded. */
  isOn: boolean
  request(id: string): void
  refusal(count: RefusalCount): void
  /** Call in the rows' transaction. */
  flush(): void
  /** Call after a rollback. */
  clear(): void
}

export function createOutboxNotes(sqlite: Database, isOn = true): OutboxNotes {
  const ids = new Set<string>()
  const refusals: string[] = []
  const addRequests = sqlite.query('INSERT INTO cluster_outbox (request_id) SELECT value FROM json_each(?)')
  const addRefusals = sqlite.query('INSERT INTO cluster_outbox (refusal) SELECT value FROM json_each(?)')
  const clear = () => {
    ids.clear()
    refusals.length = 0
  }
  const notes: OutboxNotes = {
    isOn,
    request(id) {
      if (notes.isOn) ids.add(id)
    },
    refusal({ hourMs, keyId, teamId, code, lastMs }) {
      if (notes.isOn) refusals.push(JSON.stringify([hourMs, keyId, teamId, code, lastMs]))
    },
    flush() {
      if (ids.size > 0) addRequests.run(JSON.stringify([...ids]))
      if (refusals.length > 0) addRefusals.run(JSON.stringify(refusals))
      clear()
    },
    clear,
  }
  return notes
}

/** For a node that now runs without its cluster. The gap in the numbers shows a later run in the cluster that entries are missing. */
export function forgetOutbox(sqlite: Database): void {
  const had = sqlite.query("SELECT 1 FROM sqlite_sequence WHERE name = 'cluster_outbox' AND seq > 0").get()
  if (had === null) return
  sqlite
    .transaction(() => {
      sqlite.run("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'cluster_outbox'")
      sqlite.run('DELETE FROM cluster_outbox')
    })
    .immediate()
}

/** Numbers start at 1 again, so that another cluster gets all requests. */
export function leaveOutbox(sqlite: Database): void {
  sqlite.run('DELETE FROM cluster_outbox')
  sqlite.run("DELETE FROM sqlite_sequence WHERE name = 'cluster_outbox'")
}

/** As JSON: objects of 50 properties would cost the event loop more than SQLite's text of them. */
const toRows = (table: typeof requests | typeof calls | typeof refusalsHourly) => {
  const columns = Object.values(getTableColumns(table)).map(({ name }) => `'${name}', "${name}"`)
  return `SELECT json_group_array(json_object(${columns.join(', ')})) AS text`
}
const REQUESTS = `${toRows(requests)} FROM requests WHERE id IN (SELECT value FROM json_each(?))`
const CALLS = `${toRows(calls)} FROM calls WHERE request_id IN (SELECT value FROM json_each(?))`
const REFUSALS = `
  ${toRows(refusalsHourly)} FROM refusals_hourly WHERE (hour_ms, key_id, team_id, code) IN (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)
  )`

interface Text {
  text: string
}

interface Entry {
  seq: number
  requestId: string | null
  refusal: string | null
}

export function createOutbox(sqlite: Database): Outbox {
  const range = sqlite.query<{ first: number | null; last: number | null }, []>(
    "SELECT MIN(seq) AS first, (SELECT seq FROM sqlite_sequence WHERE name = 'cluster_outbox') AS last FROM cluster_outbox",
  )
  const entriesAfter = sqlite.query<Entry, [number, number]>(
    'SELECT seq, request_id AS requestId, refusal FROM cluster_outbox WHERE seq > ? ORDER BY seq LIMIT ?',
  )
  const entryAt = sqlite.query<{ mark: string }, [number]>(
    'SELECT COALESCE(request_id, refusal) AS mark FROM cluster_outbox WHERE seq = ?',
  )
  const requestsOf = sqlite.query<Text, [string]>(REQUESTS)
  const callsOf = sqlite.query<Text, [string]>(CALLS)
  const refusalsOf = sqlite.query<Text, [string]>(REFUSALS)
  const textOf = (ids: readonly string[], cells: readonly string[] = []): string => {
    const list = JSON.stringify(ids)
    const all = {
      requests: requestsOf.get(list),
      calls: callsOf.get(list),
      refusals: refusalsOf.get(`[${cells.join(',')}]`),
    }
    return toFit(
      `{${Object.entries(all)
        .map(([name, rows]) => `"${name}":${rows?.text ?? '[]'}`)
        .join(',')}}`,
    )
  }
  const remove = sqlite.query('DELETE FROM cluster_outbox WHERE seq < ?')
  const nextIds = sqlite.query<{ id: string }, [string, number]>(
    'SELECT id FROM requests WHERE id > ? ORDER BY id LIMIT ?',
  )
  const again = sqlite.query('INSERT INTO cluster_outbox (request_id) SELECT value FROM json_each(?)')
  const refusalsAgain = sqlite.query(
    `INSERT INTO cluster_outbox (refusal) SELECT json_array(hour_ms, key_id, team_id, code, last_ms)
     FROM refusals_hourly WHERE hour_ms >= ? ORDER BY hour_ms`,
  )
  const refusing = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw refusalOf(error) ?? error
    }
  }
  const rangeNow = () => {
    const { first, last } = range.get() ?? { first: null, last: null }
    return { first: first ?? (last ?? 0) + 1, last: last ?? 0 }
  }

  return {
    range: rangeNow,
    markAt: (seq) => entryAt.get(seq)?.mark ?? null,
    take(after, limit) {
      const entries = entriesAfter.all(after, limit)
      const last = entries.at(-1)
      if (!last) return null
      const ids = [...new Set(entries.flatMap(({ requestId }) => requestId ?? []))].sort()
      const cells = entries.flatMap(({ refusal }) => refusal ?? [])
      return {
        ...{ to: last.seq, mark: last.requestId ?? last.refusal ?? '', ids },
        ...{ entries: entries.length, rows: textOf(ids, cells) },
      }
    },
    stored(after, limit) {
      const ids = nextIds.all(after, limit).map(({ id }) => id)
      return ids.length === 0 ? null : { ids, rows: textOf(ids) }
    },
    remove: (before, limit) => refusing(() => remove.run(Math.min(before, rangeNow().first + limit)).changes),
    again(after, limit) {
      const ids = nextIds.all(after, limit).map(({ id }) => id)
      if (ids.length > 0) refusing(() => again.run(JSON.stringify(ids)))
      return ids.length < limit ? null : (ids.at(-1) ?? null)
    },
    refusalsAgain: (sinceMs) => void refusing(() => refusalsAgain.run(sinceMs)),
  }
}

/** Characters that PostgreSQL's text can't hold: NUL, and unpaired surrogates. */
const UNFIT = /\\u(?:0000|d[89a-f])/

const toFit = (text: string): string =>
  UNFIT.test(text)
    ? JSON.stringify(JSON.parse(text), (_, value) =>
        typeof value === 'string' ? value.replaceAll('\0', '\u{fffd}').toWellFormed() : value,
      )
    : text
