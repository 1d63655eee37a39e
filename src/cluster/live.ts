/** Finds requests that other nodes have finished, for followers of live requests at this node. Polls PostgreSQL only while there are followers. */
import { toFirstId } from '../domain/id.ts'
import { toReason } from '../domain/request-errors.ts'
import type { SettledRow } from '../store/ledger-rows.ts'
import type { Queries } from '../store/postgres/client.ts'
import { createEngine } from '../store/postgres/engine.ts'
import { toRequestColumns } from '../store/reports/request-reader.ts'
import type { Cluster } from './cluster.ts'

/** Receives finished requests, like those of this process. */
export interface Followed {
  isFollowed(): boolean
  finished(finished: { row: SettledRow; reason: string | null }): void
  /** Reports requests that were left out. */
  dropped(count: number): void
}

const POLL_MS = 500
/** A row may arrive this much later than rows of the same time. */
const LATE_MS = 3_000
/** After an outage, older requests are only in lists. */
const MAX_BACK_MS = 10_000
const MAX_TOLD = 1_000
/** Maximum tracked requests in flight at other nodes. */
const MAX_OPEN = 10_000
const KEPT_MS = 60_000

interface Ended extends SettledRow {
  matched: number
}

/** @param now wall clock, ms. Returns a function that stops following. */
export function followOthers(
  { postgres, node }: { postgres: Queries; node: Pick<Cluster['node'], 'id'> },
  followed: Followed,
  now: () => number,
  pollMs = POLL_MS,
): () => void {
  const { dialect, rows } = createEngine(postgres)
  const ended = (which: string) => `
    SELECT ${toRequestColumns(dialect)}, COUNT(*) OVER () AS matched FROM requests
    WHERE ${which} AND node <> ?1 AND status IN ('ok', 'failed', 'cut') ORDER BY requests.id DESC LIMIT ${MAX_TOLD}`
  const byTime = ended('id >= ?2')
  const byId = ended('id = ANY(?2::text::uuid[])')
  const inFlight = `
    SELECT ${dialect.toId('id')} AS id FROM requests WHERE status = 'open' AND node <> ?1 ORDER BY requests.id DESC LIMIT ${MAX_OPEN}`
  /** Null while no one follows. */
  let last: { atMs: number; open: ReadonlySet<string> } | null = null
  /** When each request was reported, by ID. */
  const told = new Map<string, number>()

  const look = async () => {
    const atMs = now()
    const open = new Set((await rows<{ id: string }>(inFlight, [node.id])).map(({ id }) => id))
    const fromMs = Math.max((last?.atMs ?? atMs) - LATE_MS, atMs - MAX_BACK_MS)
    const found = await rows<Ended>(byTime, [node.id, dialect.toBound(toFirstId(fromMs))])
    const gone = [...(last?.open ?? [])].filter((id) => !open.has(id))
    if (gone.length > 0) found.push(...(await rows<Ended>(byId, [node.id, `{${gone}}`])))
    const isFirst = last === null
    last = { atMs, open }
    const missed = (found[0]?.matched ?? 0) - MAX_TOLD
    if (missed > 0 && !isFirst) followed.dropped(missed)
    for (const { matched: _, ...row } of found.reverse()) {
      if (told.has(row.id)) continue
      told.set(row.id, atMs)
      if (!isFirst) followed.finished({ row, reason: toReason(row) })
    }
    for (const [id, toldMs] of told) {
      if (atMs - toldMs < KEPT_MS) break
      told.delete(id)
    }
  }

  const turn = async () => {
    if (followed.isFollowed()) await look().catch(() => {})
    else {
      last = null
      told.clear()
    }
    if (!isStopped) timer = setTimeout(turn, pollMs).unref()
  }
  let isStopped = false
  let timer = setTimeout(turn, pollMs).unref()
  return () => {
    isStopped = true
    clearTimeout(timer)
  }
}
