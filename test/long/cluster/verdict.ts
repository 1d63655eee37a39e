/**
 * Checks PostgreSQL's ledger and each node's configuration against clients' responses, the upstream's calls, and the
 * nodes' files.
 */
import { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import { join } from 'node:path'
import { OWN_SETTINGS } from '../../../src/store/sqlite/position.ts'
import { CONFIG_TABLES } from '../../../src/store/sqlite/replica.ts'
import { type CallRow, expectAccount, expectCleanFolder, type RequestRow } from '../../e2e/crash-verdict.ts'
import type { TestPostgres } from '../../support/engines.ts'
import { until } from '../../support/until.ts'
import type { ClusterBench, ClusterNode } from './bench.ts'

interface Status {
  status: { reasons: string[] }
}

const LOW_DISK = /^(Node two: )?Disk space is low[^.]*\.$/
const SUMS = ['prompt_tokens', 'cached_tokens', 'completion_tokens', 'cost_nano_usd'] as const
const sumsOf = SUMS.map((column) => `sum(${column})::bigint`).join(', ')
const HOURLY = `select created_ms - created_ms % 3600000, key_id, coalesce(team_id, ''), model, upstream, endpoint, count(*), ${sumsOf}
  from tollgate.requests where status <> 'open' group by 1, 2, 3, 4, 5, 6`
const STORED = `select hour_ms, key_id, team_id, model, upstream, endpoint, requests, ${SUMS.join(', ')} from tollgate.usage_hourly`
const toDaily = (
  dimension: string,
) => `select created_ms - created_ms % 86400000, ${dimension === 'key' ? 'key_id' : dimension}, count(*), ${sumsOf}
  from tollgate.requests where status <> 'open' group by 1, 2`
const toStoredDaily = (dimension: string) =>
  `select day_ms, value, requests, ${SUMS.join(', ')} from tollgate.usage_daily where dimension = '${dimension}'`
const differences = (a: string, b: string) => `(${a} except ${b}) union all (${b} except ${a})`

/**
 * Call it once clients and failures have ended. Drains the nodes. Returns the nano-dollars that the key with the budget
 * has spent.
 */
export async function expectOneAccount(bench: ClusterBench): Promise<number> {
  const { nodes } = bench
  const postgres = bench.primary()
  for (const node of nodes) await untilWell(node)
  await until('all outcomes to be there', async () => (await countOpen(postgres)) === 0)
  for (const node of nodes) await expectCleanFolder(node)

  const [first, ...others] = nodes.map(readConfig)
  for (const other of others) expect(other).toEqual(first as never)

  const [spent] = await postgres.query<{ nano_usd: number }>(
    `select sum(cost_nano_usd)::float8 as nano_usd from tollgate.requests
     where key_id = '${readAll(nodes[0], `SELECT id FROM keys WHERE name = '${bench.budget.name}'`)[0]?.id}'`,
  )
  const rows = (await postgres.query<RequestRow>('select * from tollgate.requests')).map(toLocal)
  const calls = (await postgres.query<CallRow>('select * from tollgate.calls where number > 1')).map(toLocal)
  expectAccount(bench, rows, calls)
  const here = nodes.flatMap((node) => readAll(node, 'SELECT * FROM requests').map((row) => ({ ...row, node: '' })))
  expect(sorted(rows.map((row) => ({ ...row, node: '' })))).toEqual(sorted(here))
  expect(await postgres.query(differences(HOURLY, STORED))).toEqual([])
  for (const dimension of ['key', 'model', 'upstream', 'endpoint'])
    expect(await postgres.query(differences(toDaily(dimension), toStoredDaily(dimension)))).toEqual([])
  return spent?.nano_usd ?? 0
}

/** Ignores the node's small disk, and servers from before a restart. */
export async function untilWell(node: ClusterNode): Promise<void> {
  let said = ''
  // Longer than a test waits, but not forever.
  while (node.servers().length > node.size) await Bun.sleep(50)
  await until(
    `${node.name} to be well`,
    async () => {
      const { stdout, stderr } = await node.run('status', '--json')
      said = stdout + stderr
      if (stdout === '') return false
      const {
        status: { reasons },
      }: Status = JSON.parse(stdout)
      said = JSON.stringify(reasons)
      return reasons.every((reason) => reason.replace(LOW_DISK, '') === '') && node.servers().length === node.size
    },
    60,
  ).catch((error) => {
    throw new Error(`${error.message}: ${said}`)
  })
}

const countOpen = async (postgres: TestPostgres) =>
  (
    await postgres.query<{ open: number }>(`select count(*)::int as open from tollgate.requests where status = 'open'`)
  )[0]?.open

/** As in a node's file, without fields that a newer version added. */
const toLocal = <Row extends object>(row: Row): Row =>
  Object.fromEntries(
    Object.entries(row)
      .filter(([name]) => name !== 'of_next')
      .map(([name, value]) => [
        name,
        /^(id|request_id)$/.test(name)
          ? value.replaceAll('-', '')
          : typeof value === 'string' && /^\d{1,15}$/.test(value) && !/^(user|price_id|instance)$/.test(name)
            ? Number(value)
            : value,
      ]),
  ) as Row

const sorted = (rows: object[]) =>
  rows.map((row) => JSON.stringify(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)))).sort()

function readAll(node: ClusterNode, query: string): Record<string, unknown>[] {
  const database = new Database(join(node.data, 'tollgate.db'), { readonly: true })
  try {
    return database.query<Record<string, unknown>, []>(query).all()
  } finally {
    database.close()
  }
}

/** Each node counts its own revisions. */
const OWN = [...OWN_SETTINGS, 'config_revision'].map((key) => `'${key}'`).join(', ')
const readConfig = (node: ClusterNode) =>
  Object.fromEntries(
    CONFIG_TABLES.map((table) => [
      table,
      sorted(
        readAll(node, `SELECT * FROM ${table} ${table === 'settings' ? `WHERE key NOT IN (${OWN})` : ''}`).map(
          ({ revision: _, ...row }) => row,
        ),
      ),
    ]),
  )
