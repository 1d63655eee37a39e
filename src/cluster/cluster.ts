/**
 * The cluster part of a server: the connection to PostgreSQL, the node's entry in the registry, and the parts that replicate the configuration, ship the
 * ledger, and share limits. Loaded only with `--cluster`. A node that has joined starts and serves without PostgreSQL.
 */
import { hostname } from 'node:os'
import { messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toSentence } from '../domain/text.ts'
import { toAge } from '../domain/time.ts'
import type { Log } from '../log.ts'
import { openPostgres, type Postgres, PostgresRefusal, type Timing } from '../store/postgres/client.ts'
import { migratePostgres } from '../store/postgres/migrate.ts'
import { Pause } from '../threads/pause.ts'
import { createLeader, type Leader } from './leader.ts'
import {
  beat,
  type ClusterNode,
  enterRegistry,
  forgetNodeId,
  keepNodeId,
  LIVING_MS,
  listNodes,
  MAX_CLOCK_MS,
  mintNodeId,
  type NodeFacts,
  type NodeState,
  type OwnNode,
  readNodeId,
  setState,
  toPlace,
  wishDrain,
  withdrawNode,
} from './nodes.ts'
import { readClusterUrl } from './url.ts'

export interface ClusterOptions {
  /** A URL, or the path of a file that has one. */
  cluster: string
  /** Null = the machine's. */
  nodeName: string | null
  dataFolder: string
  /** ID of this run: the node's epoch. */
  instance: string
  version: string
  log: Log
  /** Wall clock, ms. */
  now(): number
  timing?: Partial<ClusterTiming>
}

/** In ms. */
export interface ClusterTiming extends Partial<Timing> {
  beatMs: number
  /** A node that is silent for longer counts as gone. */
  livingMs: number
}

/** One concern of a cluster: configuration, ledger, or limits. */
export interface ClusterPart {
  /** For other nodes and `cluster status`; read at each heartbeat. */
  facts?(): NodeFacts
  /** A sentence for `/readyz` and `status`; null without a problem. */
  problem?(): string | null
  /** Called once this node is in the registry: at the start, or when PostgreSQL becomes reachable. The server waits for its promise. */
  joined?(): Promise<void>
  /** If true, another run has this node's identity, so nothing may be shipped. */
  setFenced?(isFenced: boolean): void
  /** Another process takes over the data folder: from now on, nothing may be shipped or changed, unless this process takes the folder back. */
  handOver?(): Promise<void>
  takeBack?(): void
  /** Called before the node reports that it has stopped, and before its database is closed. */
  close?(): Promise<void>
}

export interface ClusterState {
  id: string
  name: string
  reachable: boolean
  /** Time of the last change of `reachable`. */
  since_ms: number
  trouble: string | null
  leader: boolean
  /** Nodes seen recently, including this one. */
  living_nodes: number
  /** PostgreSQL's clock less this machine's, ms; null if unknown. */
  clock_difference_ms: number | null
  facts: NodeFacts
}

export interface Cluster {
  /** URL of PostgreSQL, for threads with their own connections. Secret. */
  readonly url: string
  readonly postgres: Postgres
  /** A client with its own connections, which timeouts of other queries don't end. The caller closes it. */
  connect(): Postgres
  readonly node: OwnNode
  readonly leader: Leader
  /** Calls `joined` at once if this node is in the registry. */
  add(part: ClusterPart): Promise<void>
  /** Includes problems of the parts; empty without problems. */
  problems(): string[]
  state(): ClusterState
  /** @param drain stops this server after its requests, when the cluster asks for it. */
  serve(address: string, drain: () => void): void
  /** Throws a PostgresRefusal. */
  nodes(): Promise<ClusterNode[]>
  /** Asks a node to finish its requests and end. */
  drain(id: string): Promise<void>
  /** Removes a node that isn't running. */
  remove(id: string): Promise<void>
  /** From now on, the successor has this node's identity, unless the handover fails. */
  handOver(): Promise<void>
  takeBack(): void
  close(): Promise<void>
}

const TIMING: ClusterTiming = { beatMs: 1_000, livingMs: LIVING_MS }
const CLOSE_MS = 2_000
/** Heartbeats within which all nodes notice a restart of the limits engine. */
const APART_BEATS = 3

/** Throws a ServiceError if the node can't join, or if it never joined and can't reach PostgreSQL. */
export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { dataFolder, instance, version, log, now, nodeName } = options
  const timing = { ...TIMING, ...options.timing }
  const url = readClusterUrl(options.cluster)
  const postgres = openPostgres({ url, log, timing })
  const known = readNodeId(dataFolder)
  const id = known ?? mintNodeId(now())
  const node: OwnNode = { id, name: nodeName ?? hostname(), epoch: instance, version, place: toPlace(dataFolder) }
  const parts: ClusterPart[] = []
  let address = ''
  let drainServer = () => {}
  let state: NodeState = 'active'
  let hasEntered = false
  let isOver = false
  let beating = Promise.resolve()
  const pause = new Pause()
  let fenced: string | null = null
  let reachable = { is: true, sinceMs: now() }
  let living = 1
  let apart = { name: null as string | null, beats: 0 }
  let clockMs: number | null = null
  let failure: string | null = null

  const enter = async (): Promise<void> => {
    await migratePostgres(postgres)
    const other = await enterRegistry(postgres, node, address, timing.livingMs)
    if (other !== null) throw new OtherRun(other)
    if (known === null && !hasEntered) keepNodeId(dataFolder, id)
    hasEntered = true
  }
  const note = (is: boolean) => {
    if (reachable.is !== is) reachable = { is, sinceMs: now() }
  }
  const toFacts = (): NodeFacts =>
    Object.assign({ leader: leader.isLeader }, ...parts.map((part) => part.facts?.() ?? {}))

  const setFenced = (reason: string | null) => {
    if (fenced === reason) return
    const isChange = (fenced === null) !== (reason === null)
    fenced = reason
    if (!isChange) return
    if (reason === null) leader.start()
    else leader.stop()
    for (const part of parts) part.setFenced?.(reason !== null)
  }

  const beatOnce = async (): Promise<void> => {
    if (!hasEntered) {
      await enter()
      setFenced(null)
      try {
        for (const part of parts) await part.joined?.()
      } catch (error) {
        // The next heartbeat joins all parts again.
        hasEntered = false
        throw error
      }
    }
    const sentMs = now()
    const answer = await beat(postgres, node, { address, state, facts: toFacts() }, timing)
    note(true)
    failure = null
    if (isOver) return
    if (answer === null) {
      // PostgreSQL may have lost this run in a failover or a restore, or the other run has ended.
      const other = await enterRegistry(postgres, node, address, timing.livingMs, false)
      if (other !== null) throw new OtherRun(other)
      log.warn('cluster_joined_again', 'this server is the node again')
      setFenced(null)
      return
    }
    living = answer.living
    apart = { name: answer.apart, beats: answer.apart === null ? 0 : apart.beats + 1 }
    clockMs = Math.round(answer.serverMs - (sentMs + now()) / 2)
    if (answer.wish !== 'drain' || state === 'draining') return
    state = 'draining'
    log.info('server_stopping', 'stopping: this node is being drained')
    drainServer()
  }
  const beats = async () => {
    while (!isOver) {
      await beatOnce().catch((error: unknown) => {
        if (error instanceof OtherRun) {
          if (fenced === null) log.error('cluster_fenced', error.message)
          return setFenced(error.message)
        }
        note(false)
        const before = failure
        failure = messageOf(error)
        // Connection errors are reported elsewhere.
        if (failure === before || (error instanceof PostgresRefusal && error.kind !== 'failed')) return
        log.error('cluster_failed', 'this node takes no part in the cluster', { error: failure })
      })
      if (isOver) return
      await pause.wait(timing.beatMs)
    }
  }

  try {
    await enterAtStart(enter, known !== null, timing.beatMs)
  } catch (error) {
    await postgres.close()
    throw error
  }
  note(hasEntered)
  const leader = createLeader(postgres, log)
  const start = () => {
    isOver = false
    leader.start()
    beating = beats()
  }
  const stop = async () => {
    isOver = true
    leader.stop()
    pause.end()
    await beating
  }
  start()

  const withdraw = async () => {
    await stop()
    const isGone = await withdrawNode(postgres, node).then(
      () => true,
      () => false,
    )
    if (isGone) forgetNodeId(dataFolder)
  }

  return {
    ...{ url, postgres, node, leader },
    connect: () => openPostgres({ url, max: 2, log: { ...log, warn() {}, info() {} }, timing }),
    async add(part) {
      parts.push(part)
      if (!hasEntered) return
      try {
        await part.joined?.()
      } catch (error) {
        if (!(error instanceof PostgresRefusal)) {
          // This folder has never been a node.
          if (known === null) await withdraw()
          throw error
        }
        if (known === null) throw toUnjoined(error)
        // PostgreSQL was lost in between: the next heartbeat joins.
        hasEntered = false
      }
    },
    problems: () =>
      [
        fenced,
        reachable.is ? null : toUnreachable(now() - reachable.sinceMs, postgres.trouble, failure),
        toClockProblem(clockMs),
        apart.beats >= APART_BEATS &&
          `Node ${apart.name} has its limits elsewhere, so each limit holds twice. Set the same --limits on all nodes.`,
        ...parts.map((part) => part.problem?.() ?? null),
      ].filter((problem) => typeof problem === 'string'),
    state: () => ({
      ...{ id, name: node.name, reachable: reachable.is, since_ms: reachable.sinceMs },
      trouble: postgres.trouble ?? failure,
      ...{ leader: leader.isLeader, living_nodes: living, clock_difference_ms: clockMs, facts: toFacts() },
    }),
    serve(own, drain) {
      address = own
      drainServer = drain
      pause.end()
    },
    nodes: () => listNodes(postgres, timing.livingMs),
    drain: (other) => wishDrain(postgres, other),
    remove: (other) => setState(postgres, other, null, 'left'),
    async handOver() {
      await stop()
      for (const part of parts.toReversed()) await part.handOver?.()
    },
    takeBack() {
      // The successor may have registered as this node in between.
      hasEntered = false
      fenced = null
      for (const part of parts) part.takeBack?.()
      start()
    },
    async close() {
      const isSuccessors = isOver
      await stop()
      for (const part of parts.toReversed()) await part.close?.()
      if (!isSuccessors && hasEntered && fenced === null && reachable.is) {
        const said = setState(postgres, id, instance, 'stopped').catch(() => {})
        await Promise.race([said, Bun.sleep(CLOSE_MS)])
      }
      await postgres.close()
    },
  }
}

function toUnreachable(ms: number, trouble: string | null, failure: string | null): string {
  const what = trouble === null && failure !== null ? "can't be used" : "can't be reached"
  const head = `PostgreSQL ${what}${ms >= 1_000 ? ` (for ${toAge(ms)})` : ''}`
  const reason = trouble ?? failure
  return `${head}: requests are answered, but the configuration can't be changed.${reason === null ? '' : ` ${toSentence(reason)}`}`
}

const toClockProblem = (ms: number | null): string | null =>
  ms !== null && Math.abs(ms) > MAX_CLOCK_MS
    ? `This machine's clock differs from PostgreSQL's by ${toAge(Math.abs(ms))}. Synchronize both.`
    : null

/** Another run has this node's identity. */
class OtherRun extends ServiceError {
  readonly seenMsAgo: number
  constructor(other: ClusterNode | null) {
    const where = other?.address ? ` at ${other.address}` : ''
    super(
      { kind: 'cluster_unusable' },
      `Another server${where} runs as this node${other ? ` (${other.name})` : ''}, so this one takes no part in the cluster. If its data folder is a copy, stop it, remove node.json from the copy, and start it: it is then a node of its own.`,
    )
    this.seenMsAgo = other?.seenMsAgo ?? 0
  }
}

const toUnjoined = ({ message }: PostgresRefusal) =>
  new ServiceError(
    { kind: 'cluster_unusable' },
    `${message} A node needs PostgreSQL to join a cluster; later it can start without it.`,
  )

async function enterAtStart(enter: () => Promise<void>, hasJoined: boolean, beatMs: number): Promise<void> {
  const pauseMs = 1.5 * beatMs
  for (let before: number | null = null; ; ) {
    try {
      return await enter()
    } catch (error) {
      // Without PostgreSQL, a node that has joined starts with its local data.
      if (error instanceof PostgresRefusal && hasJoined) return
      if (error instanceof PostgresRefusal) throw toUnjoined(error)
      if (!(error instanceof OtherRun)) throw error
      // The other run was seen since, so it is alive. A killed run soon expires.
      if (before !== null && error.seenMsAgo < before + pauseMs / 2) throw error
      before = error.seenMsAgo
    }
    await Bun.sleep(pauseMs)
  }
}
