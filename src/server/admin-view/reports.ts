/**
 * Has the reports of the admin API made on their thread, which is started when first asked and ended where nobody asks for a while.
 * Whoever asks takes turns with all others, and may have a few questions waiting. `surface.ts` makes it.
 */
import { isOperator } from '../../admin/access.ts'
import type { Asker, Json, Reports } from '../../admin/deps.ts'
import { AdminError } from '../../admin/errors.ts'
import { toDefined } from '../../domain/changes.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { toSpendStatuses } from '../../keys/spend-status.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import { createThread, type NoReply, type Thread } from '../../threads/thread.ts'
import type { Question, ReportReply, ReportRequest } from './report.ts'

/** Of one asker at a time: a page asks several at once, and there may be a few pages. */
const MAX_ASKED = 16
/** How long anybody waits for their turn, ms. */
const PATIENCE_MS = 30_000
/**
 * What a report of usage or of failures may take, ms; any report, if something holds it up; and how many requests are looked at for a
 * page, or for one whose id is not whole: a tenth of a second of them, since a page goes on where one ended.
 */
const OF_PAGES = { usageMs: 10_000, limitMs: 20_000, looks: 200_000 }
/** A command may take longer. */
const OF_COMMANDS = { usageMs: 60_000, limitMs: 90_000, looks: undefined }
const boundsOf = ({ id }: Asker) => (isOperator({ id }) ? OF_COMMANDS : OF_PAGES)
/** The thread has some 60 MB. */
const IDLE_MS = 60_000

export interface ReportsDeps {
  dataFolder: string
  ledger: Pick<Ledger, 'flush'>
  now(): number
  /** In place of the thread. */
  thread?: Thread<ReportRequest, ReportReply>
}

export function createReports({ dataFolder, ledger, now, thread = startThread() }: ReportsDeps) {
  const flush = shareRuns(() => ledger.flush())
  /** Questions without an answer yet, by who asks. */
  const asked = new Map<string, number>()

  const answer = async (asker: Asker, question: Question) => {
    const { id: owner, ownerId, signal } = asker
    const { limitMs, looks } = boundsOf(asker)
    const { waiting } = await flush()
    const request = { dataFolder, question, nowMs: now(), waiting, ...toDefined({ ownerId, looks }) }
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
    requests: (asker, wanted) => askDocument(asker, { kind: 'requests', wanted }),
    request: (asker, id) => askDocument(asker, { kind: 'request', id }),
    audit: (asker, options) => askDocument(asker, { kind: 'audit', options }),
  }
  return { ...reports, close: thread.close }
}

const NO_ANSWER = 'the thread of reports has answered another question'
const TOO_MANY = `You have ${MAX_ASKED} reports under way: wait for one of them.`

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
      return new AdminError(499, 'aborted', 'Nobody waits for the answer any more.')
    default:
      return new AdminError(503, 'stopping', 'The server is stopping.')
  }
}

const BUSY = `Other reports have been made for ${PATIENCE_MS / 1_000} s: try again in a while.`

/** Has one run serve all who ask before it begins: nobody is given what had begun before they asked. */
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
