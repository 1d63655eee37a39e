/**
 * Replicates the configuration. Commits this node's changes to the log, and follows changes of all nodes by notifications and polls, because notifications may
 * be lost without an error. Without PostgreSQL, the node serves its current configuration, reports that it is stale, and rejects changes.
 */
import { messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toSentence } from '../domain/text.ts'
import { toAge } from '../domain/time.ts'
import type { Log } from '../log.ts'
import {
  type ChangeLog,
  type ConfigReplica,
  ENTRY_FORMAT,
  type LoggedEntry,
  type Lost,
} from '../store/config-replica.ts'
import { type Postgres, PostgresRefusal } from '../store/postgres/client.ts'
import type { SecretFile } from '../store/secret.ts'
import { CONFIG_CHANNEL, type ConfigHead, createConfigLog } from './config-log.ts'

export interface ConfigFeedOptions {
  postgres: Pick<Postgres, 'query' | 'begin' | 'listen'>
  replica: ConfigReplica
  /** ID of this node. */
  node: string
  /** Encryption key of credentials; throws `secret_unusable`. */
  secret: Pick<SecretFile, 'read' | 'need'>
  /** Revokes keys and tokens again whose revocation was lost. */
  revoke(lost: Pick<Lost, 'keys' | 'tokens'>): Promise<void>
  log: Log
  /** Wall clock, ms. */
  now(): number
  timing?: Partial<ConfigTiming>
}

export interface ConfigTiming {
  pollMs: number
  pollTimeoutMs: number
  /** Time without a look at the log after which the node is stale. */
  staleMs: number
  /** Time after which staleness is logged. */
  toldMs: number
  /** How long a commit in doubt is retried. */
  doubtMs: number
  /** Entries between snapshots. */
  snapshotEvery: number
}

const TIMING: ConfigTiming = {
  ...{ pollMs: 100, pollTimeoutMs: 200, staleMs: 250, toldMs: 1_000, doubtMs: 5_000, snapshotEvery: 1_000 },
}

export interface ConfigState {
  /** Number of the newest applied entry. */
  seq: number
  /** Time since which changes of other nodes may be missing, ms; null if current. */
  staleSinceMs: number | null
  /** Reason, in a sentence. */
  problem: string | null
}

export interface ConfigFeed {
  /** Begins the cluster with this node's configuration, joins it, or catches up. Throws a ServiceError or a PostgresRefusal. */
  join(): Promise<void>
  /** Resolves once all changes committed before this call are applied here. */
  catchUp(): Promise<void>
  state(): ConfigState
  /** Resolves once nothing is being applied. */
  stop(): Promise<void>
  /** After `stop`. */
  start(): void
}

export function createConfigFeed(options: ConfigFeedOptions): ConfigFeed {
  const { postgres, replica, node, log, now } = options
  const timing = { ...TIMING, ...options.timing }
  const configLog = createConfigLog(postgres, node)
  /** Time of the last look at the log that left nothing missing, monotonic ms. */
  let currentMs = Number.NEGATIVE_INFINITY
  let currentWallMs = now()
  let trouble: string | null = null
  let blocked: LoggedEntry | null = null
  let isTold = false
  let isRunning = false
  let wake = () => {}
  let polling: Promise<void> = Promise.resolve()
  let stopListening = () => {}
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const turn = last.then(work)
    last = turn.catch(() => {})
    return turn
  }

  const takeSnapshot = async (why: string): Promise<void> => {
    const snapshot = await configLog.readSnapshot()
    if (!snapshot) throw foreign('PostgreSQL has no copy of the configuration of this cluster.')
    const entries: LoggedEntry[] = []
    for (let seq = snapshot.position.seq; ; ) {
      const [, ...next] = await configLog.readFrom(seq)
      entries.push(...next)
      const newest = next.at(-1)
      if (!newest) break
      seq = newest.seq
    }
    const wasMember = replica.position() !== null
    const lost = await replica.replace(snapshot, entries)
    if (!wasMember) return
    const changes = lost.audit.length
    log[changes > 0 ? 'error' : 'warn']('config_replaced', `took the configuration of the cluster: ${why}`, {
      changes_lost: changes,
    })
    for (const { action, subject, actor, atMs, detail } of lost.audit)
      log.error('config_change_lost', 'the cluster does not have a change that was made; make it again', {
        ...{ action, subject, name: typeof detail.name === 'string' ? detail.name : null, actor },
        at: new Date(atMs).toISOString(),
      })
    if (lost.keys.length + lost.tokens.length > 0) void revokeAgain(lost)
  }
  /** A failover must not undo a revocation. Retries, because PostgreSQL may fail again, and changes are rejected until the current look ends. */
  const revokeAgain = async (lost: Lost) => {
    const counts = { keys: lost.keys.length, tokens: lost.tokens.length }
    for (let tries = 0; isRunning || tries < MIN_TRIES; tries++) {
      await Bun.sleep(AGAIN_MS / 4)
      try {
        await options.revoke(lost)
        log.warn('config_replaced', 'repeated revocations that the cluster had lost', counts)
        return
      } catch (error) {
        const ids = { key_ids: lost.keys.join(' '), token_ids: lost.tokens.join(' ') }
        if (tries === MIN_TRIES)
          log.error('config_change_lost', 'could not repeat revocations that the cluster had lost; will retry', {
            ...{ ...counts, ...ids, error: messageOf(error) },
          })
      }
    }
  }

  const follow = async (head: ConfigHead): Promise<void> => {
    for (;;) {
      const position = replica.position()
      if (position === null) throw foreign('This node has left its cluster.')
      if (position.generation !== head.generation)
        throw foreign(
          'PostgreSQL has the configuration of another cluster than this data folder. Check the URL of --cluster, or take this node out of its cluster: tollgate cluster leave',
        )
      if (position.seq === head.seq && position.last === head.last) break
      const [own, ...entries] = await configLog.readFrom(position.seq)
      if (own?.seq !== position.seq) {
        const isAhead = position.seq > head.seq
        await takeSnapshot(isAhead ? HAS_LOST : 'the log no longer has all entries that this node lacks')
        break
      }
      if (own.id !== position.last) {
        await takeSnapshot(HAS_LOST)
        break
      }
      if (entries.length === 0) break
      blocked = await replica.apply(entries).catch((error) => refuseEntry(error, (replica.position()?.seq ?? 0) + 1))
      if (blocked && replica.position()?.seq === blocked.seq - 1)
        throw newer(`A newer Tollgate made change ${blocked.seq} of the configuration`)
    }
    blocked = null
  }

  const look = (timeoutMs?: number): Promise<void> =>
    inTurn(async () => {
      const [beganMs, beganWallMs] = [performance.now(), now()]
      const head = await configLog.readHead(timeoutMs)
      if (!head) throw foreign('PostgreSQL has no configuration of this cluster: was its database replaced?')
      await follow(head)
      currentMs = beganMs
      currentWallMs = beganWallMs
      trouble = null
    })

  /** Shared by concurrent callers. */
  let asked: Promise<void> | null = null
  const lookSoon = () => {
    asked ??= inTurn(async () => {
      asked = null
    }).then(() => look(timing.pollTimeoutMs))
    return asked
  }

  const isStale = () => performance.now() - currentMs > timing.staleMs
  const tell = () => {
    const ms = performance.now() - currentMs
    if (!isTold && ms > timing.toldMs) {
      isTold = true
      log.warn('config_stale', 'configuration changes of other nodes are not applied', { reason: trouble })
    }
    if (isTold && ms <= timing.staleMs) {
      isTold = false
      log.info('config_current', 'configuration changes of other nodes are applied again')
    }
  }
  const poll = async () => {
    while (isRunning) {
      let isAsked = false
      const next = Promise.withResolvers<void>()
      const timer = setTimeout(next.resolve, timing.pollMs)
      wake = () => {
        isAsked = true
        next.resolve()
      }
      // Once staleness is logged, a slow response is better than none.
      await look(isTold ? timing.toldMs : timing.pollTimeoutMs).catch((error) => {
        trouble = messageOf(error)
      })
      tell()
      if (!isAsked) await next.promise
      clearTimeout(timer)
    }
  }
  const start = () => {
    if (isRunning) return
    isRunning = true
    stopListening = postgres.listen(
      CONFIG_CHANNEL,
      () => wake(),
      () => wake(),
    )
    polling = poll()
  }

  const keepSnapshot = async () => {
    const snapshot = await replica.readSnapshot()
    if (snapshot) await configLog.keepSnapshot(snapshot)
  }
  const changeLog: ChangeLog = {
    async commit(basis, text) {
      if (blocked) throw newer(`A newer Tollgate made change ${blocked.seq} of the configuration, so this node can't`)
      if (isTold) refuse(new PostgresRefusal('unreachable', trouble ?? 'no answer'), false)
      const id = mintUuid()
      const seq = await settle(timing.doubtMs, () => configLog.commit(basis, id, text))
      if (seq === null) {
        await look().catch((error) => refuse(error, false))
        return false
      }
      // If this fails, the next look applies the entry, and reports a failure.
      await inTurn(() => replica.apply([{ seq, id, format: ENTRY_FORMAT, text }])).catch(() => {})
      if (seq % timing.snapshotEvery === 0)
        void keepSnapshot().catch((error) =>
          log.warn('config_snapshot_failed', 'could not keep a copy of the configuration; the log keeps its entries', {
            error: messageOf(error),
          }),
        )
      return true
    },
    catchUp: async () => (isTold ? undefined : lookSoon().catch(() => {})),
    findUnused: configLog.findUnused,
  }
  replica.changeThrough(changeLog)
  if (replica.position() !== null) start()

  /** Returns the head of the cluster that this node's configuration began, or another node's. */
  const found = async (): Promise<ConfigHead | null> => {
    const generation = replica.position()?.generation ?? mintUuid()
    const isNew = replica.position() === null
    const secret = options.secret.need()[0]?.id ?? ''
    if (isNew) replica.found({ generation, seq: 0, last: generation })
    const snapshot = await replica.readSnapshot()
    const isFirst = snapshot !== null && (await configLog.found(snapshot, secret))
    if (!isFirst && isNew) replica.leave()
    return configLog.readHead()
  }

  return {
    async join() {
      const position = replica.position()
      let head = await configLog.readHead()
      if (!head && (position === null || position.seq === 0)) head = await found()
      // Polls report the problem. This node serves its current configuration.
      if (!head) return
      await requireSecret(head, options.secret.read(), configLog.moveSecret)
      if (replica.position() === null) {
        if (!replica.isEmpty())
          throw foreign(
            'This data folder has a configuration of its own, and so has the cluster. Start a node with an empty data folder.',
          )
        await takeSnapshot('')
      }
      replica.changeThrough(changeLog)
      // Polls report an entry that can't be applied. This node serves its current configuration.
      await look().catch((error) => {
        if (position === null || !(error instanceof ServiceError) || error.failure.kind === 'cluster_foreign')
          throw error
      })
      start()
    },
    catchUp: () => look(),
    state: () => ({
      seq: replica.position()?.seq ?? 0,
      staleSinceMs: isStale() ? currentWallMs : null,
      problem: isStale() ? toProblem(now() - currentWallMs, trouble) : null,
    }),
    start,
    async stop() {
      isRunning = false
      stopListening()
      wake()
      await polling
      await last
    },
  }
}

const mintUuid = () => crypto.randomUUID().replaceAll('-', '')

const HAS_LOST = 'PostgreSQL has lost changes that this node had, as in a failover or a restore'

function toProblem(ms: number, trouble: string | null): string {
  const age = toAge(ms)
  const head = `Configuration changes of other nodes are not applied${age && ` for ${age} now`}.`
  return trouble === null ? head : `${head} ${toSentence(trouble)}`
}

const foreign = (message: string) => new ServiceError({ kind: 'cluster_foreign' }, message)
const newer = (what: string) => new ServiceError({ kind: 'cluster_newer' }, `${what}. Upgrade this node.`)

function refuseEntry(error: unknown, seq: number): never {
  const what = `Change ${seq} of the configuration can't be applied to this node's database: ${messageOf(error)}`
  throw new ServiceError({ kind: 'cluster_unusable' }, toSentence(what))
}

/** Retries a commit in doubt, which is safe because an entry has an ID. */
async function settle<T>(doubtMs: number, commit: () => Promise<T>): Promise<T> {
  const endMs = performance.now() + doubtMs
  let isInDoubt = false
  for (;;) {
    try {
      return await commit()
    } catch (error) {
      if (error instanceof PostgresRefusal) isInDoubt ||= error.inDoubt
      if (!isInDoubt || performance.now() >= endMs) refuse(error, isInDoubt)
    }
    await Bun.sleep(AGAIN_MS)
  }
}

const AGAIN_MS = 200
/** Attempts before a failing revocation is logged. More attempts follow. */
const MIN_TRIES = 20

function refuse(error: unknown, isInDoubt: boolean): never {
  if (!(error instanceof PostgresRefusal)) throw error
  throw new ServiceError(
    { kind: 'cluster_unreachable', isInDoubt },
    isInDoubt
      ? `PostgreSQL broke off during this change, which may have been made: ${toSentence(error.message)} Check before you repeat it.`
      : `Nothing was changed, since the cluster's PostgreSQL can't be used: ${toSentence(error.message)} Requests are still answered. Try again once it is back.`,
  )
}

/** Throws `cluster_foreign`. */
export function requireKnownSecret(head: ConfigHead, secrets: readonly { id: string }[]): void {
  if (secrets.some(({ id }) => id === head.secret)) return
  throw foreign(
    "The nodes of this cluster encrypt credentials with another key. Set the same TOLLGATE_SECRET on all of them (during a rotation, TOLLGATE_SECRET_PREVIOUS too), or copy the file `secret` from another node's data folder.",
  )
}

async function requireSecret(
  head: ConfigHead,
  secrets: readonly { id: string }[],
  move: (from: string, to: string) => Promise<void>,
): Promise<void> {
  requireKnownSecret(head, secrets)
  // A rotation of the encryption key has begun.
  const [current] = secrets
  if (current && current.id !== head.secret) await move(head.secret, current.id)
}
