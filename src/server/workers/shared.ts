/**
 * Messages between the keeper and its workers, except for limits and the journal. Each side gathers changes, and sends them
 * once the other side has received the previous ones.
 */
import type { Speeds } from '../../accounting/settle.ts'
import type { Link } from '../../domain/link.ts'
import { topic } from '../../domain/link.ts'
import type { ServerState } from '../../domain/model-server.ts'
import type { AdaptiveConcurrency } from '../../gateway/adaptive-concurrency.ts'
import type { Load, OverloadState } from '../../gateway/admission.ts'
import type { Health } from '../../health/health.ts'
import type { HealthNews, Known } from '../../health/news.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import type { Refusals } from '../../ledger/refusals.ts'
import type { Log } from '../../log.ts'
import type { Fleet } from '../../processes/fleet.ts'
import type { SettledRow } from '../../store/ledger-rows.ts'
import type { RefusalCount } from '../../store/ledger-store.ts'
import { type AllCounts, mergeCounts, type Registry } from '../../telemetry/registry.ts'
import type { LiveRequests } from '../admin-view/live-requests.ts'
import type { createLive } from '../live.ts'
import type { ServedEntry, ServedFacts } from '../served.ts'
import { Outbox } from './outbox.ts'
import { lendServers } from './shared-fleet.ts'

export interface Configured {
  revision: number
  /** True if files or variables may have changed too. */
  isForced: boolean
  /** Hashes of running processes, by upstream. */
  processes: [upstream: string, hash: string][]
}

/** Tokens per second of a call. */
export type Speed = [upstream: string, upstreamModel: string, tokensPerSecond: number]

/** Changes from the keeper. */
export interface Changes {
  configured?: Configured
  served?: ServedEntry[]
  servers?: [upstream: string, state: ServerState][]
  isFollowed?: boolean
  health?: HealthNews[]
  speeds?: Speed[]
}

export interface Present extends Required<Omit<Changes, 'health' | 'speeds'>> {
  known: Known[]
}

export interface Figures {
  inFlight: number
  bufferedBytes: number
  /** Why requests are rejected; null if they aren't. */
  overload: string | null
  ledger: ReturnType<Ledger['state']>
  /** Queued calls, by upstream. */
  waiting: (readonly [upstream: string, calls: number])[]
}

export interface Usage {
  cpuSeconds: number
  rssBytes: number
}

/** Changes from a worker. */
export interface Report {
  figures?: Figures
  counts?: AllCounts
  usage?: Usage
  speeds?: Speed[]
}

export interface FinishedRows {
  rows: { row: SettledRow; reason: string | null }[]
  /** Number of dropped entries. */
  dropped: number
}

/** To the keeper, once. After that, changes are sent. */
export const BEGIN = topic<null, Present>('begin')
/** To a worker, which replies once the changes are applied. */
export const CHANGES = topic<Changes, null>('changes')
/** To the keeper. */
export const REPORT = topic<Report, null>('report')
export const NEWS = topic<HealthNews[], null>('news')
export const REFUSED = topic<RefusalCount[], null>('refused')
export const FINISHED = topic<FinishedRows, null>('finished')
/** To a worker, before a scrape: asks for its counts. */
export const GATHER = topic<null, Report>('gather')

/** If a process receives none, the oldest are dropped. */
export const MAX_NEWS = 1_000

export const toRecent = <T>(gathered: readonly T[], added: readonly T[]): T[] =>
  [...gathered, ...added].slice(-MAX_NEWS)

export interface KeeperParts {
  live: Pick<Awaited<ReturnType<typeof createLive>>, 'snapshot' | 'processes' | 'onRenewed'>
  health: Pick<Health, 'share' | 'take' | 'known'>
  served: Pick<ServedFacts, 'known' | 'onChange'>
  fleet: Pick<Fleet, 'lease' | 'states' | 'onStates'>
  speeds: Speeds
  liveRequests: Pick<LiveRequests, 'finished' | 'dropped' | 'observe' | 'isFollowed'>
  refusals: Pick<Refusals, 'add'>
  registry: Registry
  load: Pick<Load, 'isDraining' | 'inFlight' | 'bufferedBytes'>
  overload: Pick<OverloadState, 'reason'>
  ledger: Pick<Ledger, 'state' | 'backlog'>
  concurrency: Pick<AdaptiveConcurrency, 'waiting'>
  log: Log
}

/** How long a change waits until a worker has applied it, and a scrape for its counts. */
const APPLIED_MS = 1_000
const GATHER_MS = 500
const NO_USAGE: Usage = { cpuSeconds: 0, rssBytes: 0 }
const LEDGER_STATES = ['ok', 'behind', 'unavailable'] as const

/** The keeper's view of a worker. */
class Worker {
  figures: Figures | null = null
  usage = NO_USAGE
  #changes: Changes = {}
  #isLate = false
  readonly #outbox: Outbox<Changes>

  constructor(
    readonly link: Link,
    private readonly log: Log,
  ) {
    this.#outbox = new Outbox({
      take: () => {
        const changes = this.#changes
        this.#changes = {}
        return Object.keys(changes).length === 0 ? null : changes
      },
      send: (changes) => link.ask(CHANGES, changes),
      gatherMs: 0,
      log,
    })
  }

  tell({ health = [], speeds = [], ...latest }: Changes): void {
    const before = this.#changes
    const { configured } = latest
    this.#changes = {
      ...before,
      ...latest,
      ...(configured && {
        configured: { ...configured, isForced: configured.isForced || (before.configured?.isForced ?? false) },
      }),
      ...(health.length > 0 && { health: toRecent(before.health ?? [], health) }),
      ...(speeds.length > 0 && { speeds: toRecent(before.speeds ?? [], speeds) }),
    }
    this.#outbox.wake()
  }

  /** Resolves once the worker has applied the changes. Later changes don't wait for a slow worker. */
  async apply(changes: Changes): Promise<void> {
    this.tell(changes)
    if (this.#isLate) return
    const applied = this.#outbox.flush()
    if (await within(APPLIED_MS, applied)) return
    this.#isLate = true
    this.log.warn('worker_behind', 'worker process takes long to apply a change; it still uses the previous state', {
      limit_ms: APPLIED_MS,
    })
    void applied.then(() => {
      this.#isLate = false
    })
  }
}

/** Access to all workers, including the keeper itself. */
export interface Workers {
  /** Call for each worker, before its first message. */
  connect(link: Link): void
  load: KeeperParts['load']
  overload: KeeperParts['overload']
  ledger: KeeperParts['ledger']
  concurrency: KeeperParts['concurrency']
  /** Brings the registry and `usage` up to date. */
  gather(): Promise<void>
  /** Usage of workers only. CPU time includes ended workers. */
  usage(): Usage
}

export function shareAsKeeper(parts: KeeperParts): Workers {
  const { live, health, served, fleet, speeds, liveRequests, refusals, registry, log } = parts
  const all = new Set<Worker>()
  let endedCpuSeconds = 0

  const tell = (changes: Changes, except?: Worker) => {
    for (const worker of all) if (worker !== except) worker.tell(changes)
  }
  const apply = async (changes: Changes) => {
    await Promise.all([...all].map((worker) => worker.apply(changes)))
  }

  const toConfigured = (isForced: boolean): Configured => ({
    revision: live.snapshot.revision,
    isForced,
    processes: [...live.processes().byUpstream].map(([id, { hash }]) => [id, hash]),
  })
  live.onRenewed = (isForced) => apply({ configured: toConfigured(isForced), served: served.known() })
  health.share((news) => tell({ health: [news] }))
  const applyServed = served.onChange
  served.onChange = () => {
    applyServed()
    tell({ served: served.known() })
  }
  fleet.onStates = () => {
    if (all.size > 0) tell({ servers: fleet.states() })
  }
  let wasFollowed = liveRequests.isFollowed()
  liveRequests.observe((isFollowed) => {
    if (isFollowed === wasFollowed) return
    wasFollowed = isFollowed
    return apply({ isFollowed })
  })

  const take = (worker: Worker, { figures, counts, usage, speeds: measured = [] }: Report) => {
    if (figures) worker.figures = figures
    if (usage) worker.usage = usage
    if (counts) mergeCounts(registry, counts)
    for (const speed of measured) speeds.take(...speed)
    if (measured.length > 0) tell({ speeds: measured }, worker)
  }

  const connect = (link: Link) => {
    const worker = new Worker(link, log)
    link.on(BEGIN, () => {
      all.add(worker)
      const isFollowed = liveRequests.isFollowed()
      const servers = fleet.states()
      return { configured: toConfigured(false), served: served.known(), servers, isFollowed, known: health.known() }
    })
    link.on(REPORT, (report) => {
      take(worker, report)
      return null
    })
    link.on(NEWS, (news) => {
      for (const one of news) health.take(one)
      tell({ health: news }, worker)
      return null
    })
    link.on(REFUSED, (counts) => {
      refusals.add(counts)
      return null
    })
    link.on(FINISHED, ({ rows, dropped }) => {
      for (const one of rows) liveRequests.finished(one)
      if (dropped > 0) liveRequests.dropped(dropped)
      return null
    })
    lendServers(link, fleet, (id) => live.snapshot.upstreams.get(id))
    void link.ended.then(() => {
      all.delete(worker)
      endedCpuSeconds += worker.usage.cpuSeconds
    })
  }

  const gather = async () => {
    const asked = [...all].map((worker) =>
      worker.link.ask(GATHER, null).then(
        (report) => take(worker, report),
        () => {},
      ),
    )
    await within(GATHER_MS, Promise.all(asked))
  }

  return { connect, gather, ...toTotals(parts, all), usage: () => toUsage(all, endedCpuSeconds) }
}

function toTotals(
  own: KeeperParts,
  all: ReadonlySet<Worker>,
): Pick<Workers, 'load' | 'overload' | 'ledger' | 'concurrency'> {
  const figures = () => [...all].flatMap(({ figures }) => figures ?? [])
  const sum = (of: (one: Figures) => number) => figures().reduce((all, one) => all + of(one), 0)
  return {
    load: {
      get isDraining() {
        return own.load.isDraining
      },
      get inFlight() {
        return own.load.inFlight + sum(({ inFlight }) => inFlight)
      },
      get bufferedBytes() {
        return own.load.bufferedBytes + sum(({ bufferedBytes }) => bufferedBytes)
      },
    },
    overload: {
      get reason() {
        return own.overload.reason ?? figures().find(({ overload }) => overload !== null)?.overload ?? null
      },
    },
    ledger: {
      state() {
        const states = new Set([own.ledger.state(), ...figures().map(({ ledger }) => ledger)])
        return LEDGER_STATES.findLast((state) => states.has(state)) ?? 'ok'
      },
      backlog: own.ledger.backlog,
    },
    concurrency: {
      *waiting() {
        const waiting = new Map(own.concurrency.waiting())
        for (const one of figures())
          for (const [id, calls] of one.waiting) waiting.set(id, (waiting.get(id) ?? 0) + calls)
        yield* waiting
      },
    },
  }
}

const toUsage = (all: ReadonlySet<Worker>, endedCpuSeconds: number): Usage =>
  [...all].reduce(
    (sum, { usage }) => ({
      cpuSeconds: sum.cpuSeconds + usage.cpuSeconds,
      rssBytes: sum.rssBytes + usage.rssBytes,
    }),
    { cpuSeconds: endedCpuSeconds, rssBytes: 0 },
  )

/** True if `work` resolves in time. */
async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), ms)
  try {
    return await Promise.race([work.then(() => true), promise])
  } finally {
    clearTimeout(timer)
  }
}
