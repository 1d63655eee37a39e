/**
 * Registry of a cluster's nodes and their heartbeats. A node's identity is a file in its data folder. A copy of the folder would be the same node twice, so the
 * registry rejects a second run of an identity. The exception is a run in the same folder, whose lock shows that the first run has ended or hands over.
 */
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { messageOf } from '../domain/error.ts'
import { mintId } from '../domain/id.ts'
import { isObject } from '../domain/json.ts'
import { ServiceError } from '../domain/service-error.ts'
import { nodeFile } from '../store/data-folder.ts'
import { putFile } from '../store/files.ts'
import type { Postgres } from '../store/postgres/client.ts'

/** Facts that a node reports at each heartbeat. Must be small. */
export type NodeFacts = Readonly<Record<string, string | number | boolean | null>>

export type NodeState = 'active' | 'draining' | 'stopped' | 'left'

export interface ClusterNode {
  id: string
  name: string
  epoch: string
  address: string
  version: string
  state: NodeState
  /** Seen within `LIVING_MS`. */
  isLiving: boolean
  startedMs: number
  /** Age of the last heartbeat, by PostgreSQL's clock. */
  seenMsAgo: number
  facts: NodeFacts
}

export interface OwnNode {
  /** 32 hex digits. */
  id: string
  name: string
  /** ID of this run. */
  epoch: string
  version: string
  /** Identifies this data folder on this machine since its boot. */
  place: string
}

/** Time without a heartbeat after which a node counts as gone. */
export const LIVING_MS = 5_000
/** Maximum difference between a node's clock and PostgreSQL's. */
export const MAX_CLOCK_MS = 2_000

/** Null before the folder's first join. Throws a ServiceError. */
export function readNodeId(dataFolder: string): string | null {
  const path = nodeFile(dataFolder)
  if (!existsSync(path)) return null
  try {
    const found: unknown = JSON.parse(readFileSync(path, 'utf8'))
    if (isObject(found) && typeof found.id === 'string' && /^[\da-f]{32}$/.test(found.id)) return found.id
    throw new Error('it has no ID')
  } catch (error) {
    throw new ServiceError({ kind: 'cluster_unusable' }, `Can't read ${path}: ${messageOf(error)}.`)
  }
}

/** The file shows that the folder has joined. */
export const keepNodeId = (dataFolder: string, id: string): void =>
  putFile(nodeFile(dataFolder), `${JSON.stringify({ id })}\n`, { mode: 0o600, isNew: true })

export const forgetNodeId = (dataFolder: string): void => rmSync(nodeFile(dataFolder), { force: true })

export const mintNodeId = mintId

/** Differs for a copy of the folder. Also differs after a reboot, when no earlier run can be alive. */
export function toPlace(dataFolder: string): string {
  const { dev, ino } = statSync(dataFolder)
  let boot = hostname()
  try {
    boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    // Not Linux.
  }
  return `${boot}:${dev}:${ino}`
}

/**
 * Makes this run the only one with its identity. Returns the other run if one is alive elsewhere.
 * @param isLatest whether the folder's lock shows that an earlier run in this folder has ended.
 */
export async function enterRegistry(
  postgres: Postgres,
  node: OwnNode,
  address: string,
  livingMs: number,
  isLatest = true,
): Promise<ClusterNode | null> {
  const entered = await postgres.query(
    `insert into tollgate.nodes as n (id, name, epoch, place, address, version, started_ms, seen_ms)
     values ($1, $2, $3, $4, $5, $6, tollgate.now_ms(), tollgate.now_ms())
     on conflict (id) do update set name = excluded.name, epoch = excluded.epoch, place = excluded.place,
       address = excluded.address, version = excluded.version, state = 'active', wish = null,
       started_ms = case when n.epoch = excluded.epoch then n.started_ms else excluded.started_ms end,
       seen_ms = excluded.seen_ms
     where n.epoch = excluded.epoch or ($8 and n.place = excluded.place) or n.state in ('stopped', 'left')
       or n.seen_ms < excluded.seen_ms - $7::int8
     returning 1 as entered`,
    [node.id, node.name, node.epoch, node.place, address, node.version, livingMs, isLatest],
  )
  if (entered.length > 0) return null
  return (await listNodes(postgres, livingMs)).find(({ id }) => id === node.id) ?? null
}

export interface Heartbeat {
  /** Request to this node from the cluster. */
  wish: 'drain' | null
  /** PostgreSQL's clock. */
  serverMs: number
  /** Nodes seen recently, including this one. */
  living: number
  /** Name of a living node whose limits are elsewhere. */
  apart: string | null
}

/** Null if another run has this identity. */
export async function beat(
  postgres: Postgres,
  { id, epoch }: OwnNode,
  { address, state, facts }: { address: string; state: NodeState; facts: NodeFacts },
  { beatMs, livingMs }: { beatMs: number; livingMs: number },
): Promise<Heartbeat | null> {
  const [row] = await postgres.query<{ wish: string | null; server_ms: number; living: number; apart: string | null }>(
    `update tollgate.nodes set seen_ms = tollgate.now_ms(), address = $3, state = $4, facts = $5
     where id = $1 and epoch = $2
     returning wish, tollgate.now_ms() as server_ms, (select count(*) from tollgate.nodes o where o.id = $1
       or (o.state in ('active', 'draining') and o.seen_ms >= tollgate.now_ms() - $6::int8)) as living,
       (select min(o.name) from tollgate.nodes o where o.id <> $1 and o.state = 'active'
         and o.seen_ms >= tollgate.now_ms() - $6::int8
         and (o.facts::json ->> 'limits' <> $5::json ->> 'limits'
           or o.facts::json ->> 'limits_place' <> $5::json ->> 'limits_place')) as apart`,
    [id, epoch, address, state, JSON.stringify(facts, toReadable), livingMs],
    { timeoutMs: beatMs },
  )
  return row
    ? { wish: row.wish === 'drain' ? 'drain' : null, serverMs: row.server_ms, living: row.living, apart: row.apart }
    : null
}

/** Half a surrogate pair, as at the end of a truncated text, would be an error for each node that reads it. */
const toReadable = (_: string, value: unknown) =>
  typeof value === 'string' ? value.replaceAll('\0', '').toWellFormed() : value

interface Row {
  id: string
  name: string
  epoch: string
  address: string
  version: string
  state: NodeState
  started_ms: number
  ago_ms: number
  facts: string
}

/** Nodes that have not left, by name. */
export async function listNodes(postgres: Postgres, livingMs = LIVING_MS): Promise<ClusterNode[]> {
  const rows = await postgres.query<Row>(
    `select id, name, epoch, address, version, state, started_ms, tollgate.now_ms() - seen_ms as ago_ms, facts
     from tollgate.nodes where state <> 'left' order by name, id`,
  )
  return rows.map((row) => ({
    ...{ id: row.id, name: row.name, epoch: row.epoch, address: row.address, version: row.version, state: row.state },
    isLiving: row.ago_ms < livingMs && row.state !== 'stopped',
    ...{ startedMs: row.started_ms, seenMsAgo: Math.max(0, row.ago_ms), facts: JSON.parse(row.facts) },
  }))
}

/** Asks a node to finish its requests and end, at its next heartbeat. */
export async function wishDrain(postgres: Postgres, id: string): Promise<void> {
  await postgres.query("update tollgate.nodes set wish = 'drain' where id = $1", [id])
}

/** @param epoch null for any run. */
export async function setState(postgres: Postgres, id: string, epoch: string | null, state: NodeState): Promise<void> {
  await postgres.query(
    'update tollgate.nodes set state = $2, wish = null where id = $1 and ($3::text is null or epoch = $3)',
    [id, state, epoch],
  )
}

/** Throws `node_lives`. */
export function requireGone<N extends { name: string; isLiving: boolean }>(node: N): N {
  if (!node.isLiving) return node
  throw new ServiceError({ kind: 'node_lives', node: node.name }, `Node ${node.name} still runs.`)
}

/** Removes a node that was rejected when it first joined. */
export async function withdrawNode(postgres: Postgres, { id, epoch }: OwnNode): Promise<void> {
  await postgres.query('delete from tollgate.nodes where id = $1 and epoch = $2', [id, epoch])
}

/** By name, ID, or 6 or more digits of the ID's end. Throws `node_not_found`. */
export function findNode<N extends { id: string; name: string }>(nodes: readonly N[], which: string): N {
  const isMeant = ({ id, name }: N) => name === which || (/^[\da-f]{6,32}$/.test(which) && id.endsWith(which))
  const [found, ...others] = nodes.filter(isMeant)
  if (found && others.length === 0) return found
  const what = found ? `${1 + others.length} nodes are` : 'No node is'
  throw new ServiceError({ kind: 'node_not_found', node: which }, `${what} called '${which.slice(0, 64)}'.`)
}

/** Makes a stopped node the only node of a cluster that has not started. Safe to repeat for the same node. Throws `cluster_foreign`. */
export async function claimEmptyCluster(postgres: Postgres, node: OwnNode): Promise<void> {
  const isFree = await postgres.begin(async (tx) => {
    await tx.query('lock table tollgate.nodes in exclusive mode')
    const used = await tx.query(
      `select 1 from tollgate.nodes where id <> $1 union all select 1 from tollgate.config_head
       union all select 1 from tollgate.requests where node <> $1 limit 1`,
      [node.id],
    )
    if (used.length > 0) return false
    await tx.query(
      `insert into tollgate.nodes (id, name, epoch, place, address, version, state, started_ms, seen_ms)
       values ($1, $2, $3, $4, '', $5, 'stopped', tollgate.now_ms(), tollgate.now_ms()) on conflict (id) do nothing`,
      [node.id, node.name, node.epoch, node.place, node.version],
    )
    return true
  })
  if (isFree) return
  throw new ServiceError(
    { kind: 'cluster_foreign' },
    'This database has a cluster already. Import into an empty database; or, to add this machine to that cluster, start it with an empty data folder.',
  )
}
