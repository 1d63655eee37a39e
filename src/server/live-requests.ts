/**
 * The requests of this server as they finish, for pages of the dashboard: server-sent events, a document each, under the rules of
 * `tails.ts`. A page shows the newest hundred: of thousands a second it is told a few hundred, and how many were left out, so that
 * whoever looks on costs those who ask nothing that can be measured. `admin.ts` makes it.
 */
import type { LastingAsker } from '../admin/reports.ts'
import { type Names, toFinishedDocument } from '../documents/request.ts'
import type { Snapshot } from '../domain/snapshot.ts'
import type { RequestFilter } from '../store/report-store.ts'
import type { TailLine } from './protocol.ts'
import { Tails } from './tails.ts'

/** Pages of all, of all members together, who keep out nobody that sees more than they do, and of one person or token. */
const MOST = { all: 32, members: 16, each: 6 }
/** How often it is looked whether whoever follows may still do so. */
const CHECK_MS = 15_000

type Named = Pick<Snapshot, 'secrets' | 'teams'>

export interface LiveRequestsDeps {
  /** In force now: what keys and teams are called. */
  snapshot(): Named
  /** For tests: how often is looked, ms. */
  checkMs?: number
}

export function createLiveRequests({ snapshot, checkMs = CHECK_MS }: LiveRequestsDeps) {
  const namesOf = createNames()
  const tails = new Tails({
    most: MOST.all,
    type: 'text/event-stream',
    // A proxy that holds back what it has would show nothing for minutes.
    headers: { 'x-accel-buffering': 'no' },
    alive: ':\n\n',
    mostWaiting: 50,
    gatherMs: 250,
    toText: (line) => toEvent(line, namesOf(snapshot())),
  })
  const counts = new Map<string, number>()
  let members = 0

  return {
    finished: tails.finished.bind(tails),
    /**
     * The answer to one that follows, until they leave, may no more, or the server stops. Null where too many follow already.
     *
     * @param isLetIn whether they still may; looked at every so often.
     */
    follow(
      { id, signal, ownerId }: LastingAsker,
      filter: RequestFilter,
      isLetIn: () => Promise<boolean>,
    ): Response | null {
      const count = counts.get(id) ?? 0
      const isMember = ownerId !== undefined
      if (count >= MOST.each || (isMember && members >= MOST.members)) return null
      const over = new AbortController()
      const look = async () => {
        if (!(await isLetIn().catch(() => false))) over.abort()
      }
      const timer = setInterval(look, checkMs).unref()
      counts.set(id, count + 1)
      if (isMember) members++
      const leave = () => {
        clearInterval(timer)
        if (isMember) members--
        const left = (counts.get(id) ?? 1) - 1
        if (left === 0) counts.delete(id)
        else counts.set(id, left)
      }
      const response = tails.follow(filter, AbortSignal.any([signal, over.signal]), leave)
      if (response === null) leave()
      return response
    },
    /** Tells everyone that the server stops; from then on nobody follows. */
    end: () => tails.end(),
  }
}

export type LiveRequests = ReturnType<typeof createLiveRequests>

/** A request has the name that pages listen for by default; the others are told apart. */
function toEvent(line: TailLine, names: Names): string {
  if ('row' in line) return `data: ${JSON.stringify(toFinishedDocument(line.row, line.reason, names))}\n\n`
  return `event: ${'dropped' in line ? 'dropped' : 'end'}\ndata: ${JSON.stringify(line)}\n\n`
}

/** Gathered once for each snapshot that is in force when something is told. */
function createNames(): (snapshot: Named) => Names {
  let latest: { of: Named; names: Names } | null = null
  return (snapshot) => {
    if (latest?.of === snapshot) return latest.names
    const keys = new Map([...snapshot.secrets.values()].map(({ key: { id, name } }) => [id, name]))
    const teams = new Map([...snapshot.teams.values()].map(({ id, name }) => [id, name]))
    latest = { of: snapshot, names: { keys, teams } }
    return latest.names
  }
}
