/** The ledger part of a node: ships its rows to PostgreSQL. The leader maintains the ledger of all nodes. */
import type { ServeConfig } from '../config.ts'
import { toSentence } from '../domain/text.ts'
import { toAge } from '../domain/time.ts'
import type { Share } from '../ledger/sharing.ts'
import type { Log } from '../log.ts'
import type { Outbox } from '../store/ledger-store.ts'
import { createSharedLedger } from '../store/postgres/ledger.ts'
import { abandonLeft } from '../store/postgres/left-nodes.ts'
import type { Cluster } from './cluster.ts'
import { isOnDuty } from './duties.ts'
import { createShipper } from './shipper.ts'

const UPKEEP_MS = 600_000
const RETRY_MS = 60_000
/** How often a server that handed over checks whether its successor has shipped its rows. */
const LOOK_MS = 20

export interface ShipOptions extends Pick<ServeConfig, 'clusterKeepMs' | 'keepMs'> {
  /** Monotonic clock, ms. */
  monotonicMs(): number
  log: Log
}

export interface LedgerPart {
  /** Call after adding entries to the outbox. */
  note(): void
  share: Share
}

/** Adds the ledger part to the cluster. */
export function shipLedger(
  cluster: Pick<Cluster, 'postgres' | 'node' | 'leader' | 'add'>,
  outbox: Outbox,
  { clusterKeepMs, keepMs, monotonicMs, log }: ShipOptions,
): LedgerPart {
  const shared = createSharedLedger(cluster.postgres, cluster.node.id)
  const shipper = createShipper({ outbox, shared, keepMs: clusterKeepMs, monotonicMs, log })
  let isClosed = false
  /** Resolves once a successor ships the rows. */
  let handedOver = Promise.withResolvers<void>()
  let isHandedOver = false
  let timer: Timer | null = null

  const upkeep = async () => {
    if (timer !== null) clearTimeout(timer)
    timer = null
    if (isClosed || !isOnDuty('ledger', cluster)) return
    let nextMs = UPKEEP_MS
    try {
      const { dropped } = await shared.upkeep(keepMs)
      const abandoned = await abandonLeft(cluster.postgres)
      if (abandoned > 0)
        log.warn('ledger_recovered', 'recovered the ledger of nodes that left the cluster', { abandoned })
      if (dropped > 0)
        log.info('ledger_pruned', 'removed the requests of months before --retention from PostgreSQL; totals stay', {
          partitions: dropped,
        })
    } catch (error) {
      nextMs = RETRY_MS
      log.warn('retention_failed', 'could not maintain the ledger in PostgreSQL; will retry', {
        error: String(error),
      })
    }
    if (!isClosed) timer = setTimeout(upkeep, nextMs).unref()
  }
  const stopLeading = cluster.leader.onChange(() => void upkeep())

  /** For a server that only finishes its requests: its successor applies and ships their records. */
  const arrive = async (ids: readonly string[]): Promise<boolean> => {
    while (!isClosed && isHandedOver) {
      if ((await shared.countEnded(ids).catch(() => -1)) === ids.length) return true
      await Bun.sleep(LOOK_MS)
    }
    return false
  }

  void cluster.add({
    async joined() {
      if (!isHandedOver) shipper.start()
    },
    facts() {
      const { state, waiting, lagMs, refused } = shipper.state()
      return {
        ledger: state,
        ledger_pending_entries: waiting,
        ledger_pending_ms: lagMs,
        ledger_refused_entries: refused,
      }
    },
    problem() {
      const { state, waiting, lagMs, trouble } = shipper.state()
      if (state === 'ok') return null
      const reason = trouble === null ? '' : ` ${toSentence(trouble)}`
      return `PostgreSQL lacks ${waiting} ledger entries of this node (for ${toAge(lagMs)}). They wait here.${reason}`
    },
    setFenced(isFenced) {
      if (isFenced) void shipper.stop(true)
      else if (!isHandedOver && !isClosed) shipper.start()
    },
    async handOver() {
      isHandedOver = true
      handedOver.resolve()
      await shipper.stop(true)
    },
    takeBack() {
      isHandedOver = false
      handedOver = Promise.withResolvers()
      shipper.start()
    },
    async close() {
      isClosed = true
      stopLeading()
      if (timer !== null) clearTimeout(timer)
      await shipper.stop(isHandedOver)
    },
  })

  return {
    note: shipper.note,
    async share(ids) {
      if (!isHandedOver) await Promise.race([shipper.shipped(), handedOver.promise])
      return isHandedOver ? await arrive(ids) : true
    },
  }
}
