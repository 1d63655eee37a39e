/** Open requests of nodes that left the cluster can't be settled. As after a crash, they cost their reservation. */
import { type StoredCall, type StoredRequest, toAbandoned } from '../ledger-rows.ts'
import { CALL_FIELDS, REQUEST_FIELDS, toColumn, toSelection } from '../reports/columns.ts'
import type { Postgres } from './client.ts'
import { createSharedLedger } from './ledger.ts'

const BATCH = 200

const OPEN = `
  select replace(r.id::text, '-', '') as id, r.node, ${toSelection(REQUEST_FIELDS)} from tollgate.requests r
  where r.status = 'open' and r.node in (select id from tollgate.nodes where state = 'left')
  order by r.node, r.id limit ${BATCH}`
const CALLS = `
  select replace(request_id::text, '-', '') as "requestId", ${toSelection(CALL_FIELDS)} from tollgate.calls
  where request_id = any($1::text::uuid[]) order by request_id, number`

type Found = StoredRequest & { node: string }

/** Called by the leader. If a node returns after all, its records replace these outcomes. Returns their number. Throws a PostgresRefusal. */
export async function abandonLeft(postgres: Pick<Postgres, 'query'>): Promise<number> {
  let abandoned = 0
  for (let found = await postgres.query<Found>(OPEN); found.length > 0; found = await postgres.query<Found>(OPEN)) {
    const of = found.filter(({ node }) => node === found[0]?.node)
    const count = await abandon(postgres, of)
    // The node's cursor moves, so the node is running.
    if (count === 0) break
    abandoned += count
  }
  return abandoned
}

async function abandon(postgres: Pick<Postgres, 'query'>, found: readonly Found[]): Promise<number> {
  const shared = createSharedLedger(postgres, found[0]?.node ?? '')
  // Read the cursor before the rows: if the node ships rows afterward, this batch is rejected.
  const { seq, mark } = await shared.cursor()
  const ids = found.map(({ id }) => id)
  const calls = await postgres.query<StoredCall>(CALLS, [`{${ids.join(',')}}`])
  const given = found.map(({ node, ...row }) =>
    toAbandoned(
      row,
      calls.filter(({ requestId }) => requestId === row.id),
    ),
  )
  const rows = {
    requests: given.map(({ row }) => toColumns(row)),
    calls: given.flatMap(({ calls }) => calls.map(toColumns)),
  }
  const shipped = await shared.ship(seq, { to: seq, mark, ids, rows: JSON.stringify(rows) })
  return shipped.isApplied ? found.length : 0
}

const toColumns = (row: object): object =>
  Object.fromEntries(Object.entries(row).map(([field, value]) => [toColumn(field), value]))
