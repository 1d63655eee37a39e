/** The log of configuration changes in PostgreSQL, and snapshots of the resulting configuration. */
import {
  type ConfigSnapshot,
  ENTRY_FORMAT,
  type LoggedEntry,
  type Position,
  type SnapshotPart,
} from '../store/config-replica.ts'
import type { Postgres, Queries } from '../store/postgres/client.ts'

export const CONFIG_CHANNEL = 'tollgate_config'

export interface ConfigHead extends Position {
  /** ID of the key that encrypts credentials. */
  secret: string
}

/** All throw a PostgresRefusal. */
export interface ConfigLog {
  /** Null if no cluster exists yet. */
  readHead(timeoutMs?: number): Promise<ConfigHead | null>
  /** Entries from `seq`, at most `MAX_ENTRIES`. The text of entry `seq` is ''. */
  readFrom(seq: number): Promise<LoggedEntry[]>
  /** Returns the number of the new entry; null if `basis` is not the newest entry. Safe to repeat. */
  commit(basis: Position, id: string, text: string): Promise<number | null>
  /** False if a cluster exists already. */
  found(snapshot: ConfigSnapshot, secret: string): Promise<boolean>
  moveSecret(from: string, to: string): Promise<void>
  findUnused(keyIds: readonly string[]): Promise<string[]>
  readSnapshot(): Promise<ConfigSnapshot | null>
  /** PostgreSQL keeps two snapshots, and the entries after the older one. */
  keepSnapshot(snapshot: ConfigSnapshot): Promise<void>
}

const MAX_ENTRIES = 200
const COMMIT_MS = 3_000
/** Timeout of snapshot transfers. */
const TRANSFER_MS = 60_000

const fromUuid = (column: string) => `replace(${column}::text, '-', '')`
const HEAD = `select ${fromUuid('generation')} as generation, seq, ${fromUuid('last')} as last, secret from tollgate.config_head`
const FROM = `select seq, ${fromUuid('id')} as id, format, case when seq > $1 then entry else '' end as text
  from tollgate.config_log where seq >= $1 order by seq limit ${MAX_ENTRIES}`
const COMMIT = 'select tollgate.config_commit($1::uuid, $2::int8, $3::uuid, $4::uuid, $5, $6::int4, $7) as seq'
const SNAPSHOT = `select ${fromUuid('s.id')} as id, ${fromUuid('h.generation')} as generation, s.seq, s.schema, s.rows
  from tollgate.config_snapshots s, tollgate.config_head h
  where s.seq = (select max(seq) from tollgate.config_snapshots) order by s.part`
const UNUSED = `select id from json_array_elements_text($1::text::json) as keys (id)
  where not exists (select from tollgate.key_uses where key_id = id)
    and not exists (select from tollgate.usage_hourly where key_id = id)
    and not exists (select from tollgate.refusals_hourly where key_id = id)`
const TRIM = `
  delete from tollgate.config_snapshots where seq <
    (select min(seq) from (select distinct seq from tollgate.config_snapshots order by seq desc limit 2) newest);
  delete from tollgate.config_log where seq < (select min(seq) from tollgate.config_snapshots)`

/** @param node ID of the node. */
export function createConfigLog(postgres: Pick<Postgres, 'query' | 'begin'>, node: string): ConfigLog {
  return {
    async readHead(timeoutMs) {
      const [head] = await postgres.query<ConfigHead>(HEAD, [], timeoutMs === undefined ? {} : { timeoutMs })
      return head ?? null
    },
    readFrom: (seq) => postgres.query<LoggedEntry>(FROM, [seq]),
    async commit({ generation, seq, last }, id, text) {
      const values = [generation, seq, last, id, node, ENTRY_FORMAT, text]
      const [row] = await postgres.query<{ seq: number | null }>(COMMIT, values, { timeoutMs: COMMIT_MS })
      return row?.seq ?? null
    },
    found: (snapshot, secret) =>
      postgres.begin(
        async (tx) => {
          const { generation, seq, last } = snapshot.position
          const founded = await tx.query(
            `insert into tollgate.config_head (generation, seq, last, secret) values ($1::uuid, $2, $3::uuid, $4)
             on conflict do nothing returning 1 as founded`,
            [generation, seq, last, secret],
          )
          if (founded.length === 0) return false
          // Keep this entry: a node at this position looks for it.
          await tx.query(
            `insert into tollgate.config_log (seq, id, node, format, entry) values ($1, $2::uuid, $3, 0, '')`,
            [seq, last, node],
          )
          await putParts(tx, snapshot)
          return true
        },
        { timeoutMs: TRANSFER_MS },
      ),
    async moveSecret(from, to) {
      await postgres.query('update tollgate.config_head set secret = $2 where secret = $1', [from, to])
    },
    async findUnused(keyIds) {
      const rows = await postgres.query<{ id: string }>(UNUSED, [JSON.stringify(keyIds)])
      return rows.map(({ id }) => id)
    },
    async readSnapshot() {
      const rows = await postgres.query<SnapshotRow>(SNAPSHOT, [], { timeoutMs: TRANSFER_MS })
      const [first] = rows
      if (!first) return null
      const { generation, seq, id: last, schema } = first
      return {
        position: { generation, seq, last },
        schema,
        parts: rows.map((row): SnapshotPart => JSON.parse(row.rows)),
      }
    },
    keepSnapshot: (snapshot) =>
      postgres.begin(
        async (tx) => {
          const { seq, last } = snapshot.position
          const [entry] = await tx.query('select 1 from tollgate.config_log where seq = $1 and id = $2::uuid', [
            seq,
            last,
          ])
          const [kept] = await tx.query('select 1 from tollgate.config_snapshots where seq >= $1 limit 1', [seq])
          if (!entry || kept) return
          await putParts(tx, snapshot)
          await tx.query(TRIM)
        },
        { timeoutMs: TRANSFER_MS },
      ),
  }
}

interface SnapshotRow {
  id: string
  generation: string
  seq: number
  schema: string
  rows: string
}

async function putParts(tx: Queries, { position, schema, parts }: ConfigSnapshot): Promise<void> {
  for (const [at, part] of parts.entries())
    await tx.query(
      `insert into tollgate.config_snapshots (seq, part, id, schema, rows) values ($1, $2, $3::uuid, $4, $5)
       on conflict do nothing`,
      [position.seq, at, position.last, schema, JSON.stringify(part)],
    )
}
