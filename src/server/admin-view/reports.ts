/** Runs the admin API's reports on a thread. Callers take turns. */
import { isOperator } from '../../admin/access.ts'
import type { Asker, Json, Reports } from '../../admin/deps.ts'
import { AdminError } from '../../admin/errors.ts'
import type { Cluster } from '../../cluster/cluster.ts'
import { toDefined } from '../../domain/changes.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { toSpendStatuses } from '../../keys/spend-status.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import type { Refusals } from '../../ledger/refusals.ts'
import { toUnreadable } from '../../store/report-store.ts'
import { createThread, type NoReply, type Thread } from '../../threads/thread.ts'
import type { Question, ReportReply, ReportRequest } from './report.ts'

/** Per caller: a page requests several reports at once, and a few pages may be open. */
const MAX_ASKED = 16
const PATIENCE_MS = 30_000
/**
 * Limits of usage and failure reports and of any report, ms, and of requests scanned for a page or a partial ID, which
 * takes 0.1 s.
 */
const OF_PAGES = { usageMs: 10_000, limitMs: 20_000, looks: 100_000 }
const OF_COMMANDS = { usageMs: 60_000, limitMs: 90_000, looks: undefined }
const boundsOf = ({ id }: Asker) => (isOperator({ id }) ? OF_COMMANDS : OF_PAGES)
/** The thread uses about 60 MB. */
const IDLE_MS = 60_000

export interface ReportsDeps {
  dataFolder: string
  ledger: Pick<Ledger, 'flush'>
  refusals: Pick<Refusals, 'flush'>
  /** The ledger of all nodes; null without a cluster. */
  cluster: (Pick<Cluster, 'url'> & Partial<Pick<Cluster, 'state'>>) | null
  now(): number
  thread?: Thread<ReportRequest, ReportReply>
}

export function createReports({ dataFolder, ledger, refusals, cluster, now, thread = startThread() }: ReportsDeps) {
  const flush = shareRuns(async () => {
    const [applied] = await Promise.all([ledger.flush(), refusals.flush()])
    const unshipped = Number(cluster?.state?.().facts.ledger_pending_entries ?? 0)
    return { ...applied, waiting: applied.waiting + unshipped }
  })
  const asked = new Map<string, number>()

  const answer = async (asker: Asker, question: Question) => {
    const { id: owner, ownerId, signal } = asker
    const { usageMs, limitMs, looks } = boundsOf(asker)
    const { waiting } = await flush()
    const shared = cluster && question.kind !== 'audit' ? { url: cluster.url, timeoutMs: usageMs } : undefined
    const state = shared && cluster?.state?.()
    // The thread would find out later.
    if (state?.reachable === false) throw toUnreadable(state.trouble)
    const request = { dataFolder, question, nowMs: now(), waiting, ...toDefined({ ownerId, looks, shared }) }
    const reply = await thread.ask(request, { owner, limitMs, ...toDefined({ signal }) })
    if (typeof reply === 'string') throw toRefusal(reply, limitMs)
    if (reply.kind === 'refused') throw new ServiceError(reply.failure, reply.message)
    if (reply.kind === 'failed') throw new Error(reply.error)
    return reply
  }

  const ask = async (asker: Asker, question: Question) => {
    const before = asked.get(asker.id) ?? 0
    if (before >= MAX_ASKED) throw new AdminError(429, 'too_many_reports', TOO_MANY, { 'retry-after': '1' })
    asked.set(asker.id, before + 1)
    try {
      return await answer(asker, question)
    } finally {
      const after = (asked.get(asker.id) ?? 1) - 1
      if (after === 0) asked.delete(asker.id)
      else asked.set(asker.id, after)
    }
  }

  const askDocument = async <Document>(asker: Asker, question: Question): Promise<Json<Document>> => {
    const reply = await ask(asker, question)
    if (reply.kind !== 'document') throw new Error(NO_ANSWER)
    return reply.json
  }

  const reports: Reports = {
    async spendStatuses(asker, of, id) {
      const reply = await ask(asker, { kind: 'spendStatuses', of, id })
      if (reply.kind !== 'spent') throw new Error(NO_ANSWER)
      return toSpendStatuses(reply.spent)
    },
    usage: (asker, options) =>
      askDocument(asker, { kind: 'usage', options: { ...options, limitMs: boundsOf(asker).usageMs } }),
    failures: (asker, options) =>
      askDocument(asker, { kind: 'failures', options: { ...options, limitMs: boundsOf(asker).usageMs } }),
    refusals: (asker, options) =>
      askDocument(asker, { kind: 'refusals', options: { ...options, limitMs: boundsOf(asker).usageMs } }),
    requests: (asker, wanted) => askDocument(asker, { kind: 'requests', wanted }),
    async requestsCsv(asker, wanted) {
      const reply = await ask(asker, { kind: 'csv', wanted })
      if (reply.kind !== 'csv') throw new Error(NO_ANSWER)
      return reply
    },
    request: (asker, id) => askDocument(asker, { kind: 'request', id }),
    audit: (asker, options) => askDocument(asker, { kind: 'audit', options }),
  }
  return { ...reports, close: thread.close }
}

const NO_ANSWER = 'the report thread answered another question'
const TOO_MANY = `You have ${MAX_ASKED} reports running. Wait for one to finish.`

const startThread = () =>
  createThread<ReportRequest, ReportReply>('server/admin-view/reports-worker', {
    idleMs: IDLE_MS,
    patienceMs: PATIENCE_MS,
  })

function toRefusal(reply: NoReply, limitMs: number): Error {
  switch (reply) {
    case 'limit':
      return new ServiceError({ kind: 'report_too_long' }, `The report took longer than ${limitMs / 1_000} s.`)
    case 'patience':
      return new AdminError(503, 'reports_busy', BUSY, { 'retry-after': '5' })
    case 'aborted':
      return new AdminError(499, 'aborted', 'The client disconnected.')
    default:
      return new AdminError(503, 'stopping', 'The server is shutting down.')
  }
}

const BUSY = `Timed out after ${PATIENCE_MS / 1_000} s waiting for other reports. Try again later.`

/** Calls share a run that begins after them. No caller gets the result of an earlier run. */
function shareRuns<T>(run: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  let next: Promise<T> | null = null
  return () => {
    if (next) return next
    const begun = last.then(() => {
      next = null
      return run()
    })
    next = begun
    last = begun.catch(() => {})
    return begun
  }
}
