/** Checks a story's limits against ledger and upstreams: budgets, rates per minute, and concurrency. */
import { DELTA_LIMITS, type KeyName, LIMITS } from './catalog.ts'
import { complain, type Facts } from './facts.ts'
import { type Row, type Rows, toParts } from './rows.ts'
import type { SeenCall } from './upstreams.ts'

/** Admission is slightly later than the row's time. */
const MINUTE_MS = 60_000 - 1_000

export function judgeLimits(facts: Facts, rows: Rows): string[] {
  const { story } = facts
  const flaws: string[] = []
  const atMost = (what: string, came: number, limit: number) => {
    if (came > limit) flaws.push(complain(story, null, `${what}: ${limit} at most`, came))
  }
  const rowsOf = (...keys: KeyName[]) => rows.all.filter(({ key_id }) => (keys as string[]).includes(key_id))
  atMost('the budget of a key', toSpent(rowsOf('budget')), LIMITS.budgetNanoUsd)
  atMost('the budget of a team', toSpent(rowsOf('squad1', 'squad2')), LIMITS.squadNanoUsd)
  atMost(
    'requests a minute',
    mostInAMinute(rowsOf('rpm'), () => 1),
    LIMITS.rpm,
  )
  atMost(
    'requests of a team a minute',
    mostInAMinute(rowsOf('squad1', 'squad2'), () => 1),
    LIMITS.squadRpm,
  )
  atMost('tokens a minute', mostInAMinute(rowsOf('tpm'), toTokens), LIMITS.tpm)
  // A disconnected client frees its slot while the upstream is still read.
  const staying = rowsOf('slots').filter(({ error_code: code }) => code !== 'client_closed_request')
  const slots = new Set(staying.map(({ id }) => id))
  for (const { calls, past } of toLives(facts, rows)) {
    const ofKey = calls.filter(({ id }) => slots.has(id))
    atMost(
      'requests of a key at a time',
      mostAtATime(ofKey, ({ id }) => id),
      LIMITS.slots,
    )
    const atDelta = calls.filter(({ upstream }) => upstream === 'delta')
    const most = mostAtATime(atDelta, nameOfCall)
    atMost('calls to an upstream at a time', most, DELTA_LIMITS.concurrency)
    // A call re-sent on a new connection is one call (see `ledger.ts`).
    const times = [...Map.groupBy(atDelta, nameOfCall).values()].map((sent) =>
      Math.min(...sent.map(({ seen }) => seen.atMs + story.wallMs)),
    )
    const before = past.map(({ created_ms }) => created_ms)
    atMost('calls to an upstream a minute', mostWithinAMinute(times, before), DELTA_LIMITS.rpm)
  }
  return flaws
}

const nameOfCall = ({ id, number }: SeenCall) => `${id}-${number}`

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0)

/** Without amounts that upstreams billed beyond estimate and cap. */
const toSpent = (rows: readonly Row[]) =>
  sum(rows.flatMap(toParts).map((part) => Math.min(part.costNanoUsd, part.reservedNanoUsd)))

const toTokens = (row: Row) => sum(toParts(row).map((part) => Math.min(part.tokens, part.reservedTokens)))

function mostInAMinute(rows: readonly Row[], weigh: (row: Row) => number): number {
  const sorted = rows.toSorted((a, b) => a.created_ms - b.created_ms)
  const sums = sorted.map(({ created_ms: from }, at) =>
    sum(
      sorted
        .slice(at)
        .filter((row) => row.created_ms < from + MINUTE_MS)
        .map(weigh),
    ),
  )
  return Math.max(0, ...sums)
}

/** The maximum in the minute up to one of these times. */
function mostWithinAMinute(times: readonly number[], before: readonly number[]): number {
  const all = [...times, ...before]
  return Math.max(0, ...times.map((to) => all.filter((at) => at > to - MINUTE_MS && at <= to).length))
}

/** Only completed calls: they were certainly in flight between the upstream's times. */
function mostAtATime(calls: readonly SeenCall[], nameOf: (call: SeenCall) => string): number {
  const ends = calls.flatMap((call) =>
    call.seen.answeredAtMs === null ? [] : [{ call, toMs: call.seen.answeredAtMs }],
  )
  const counts = ends.map(({ call: { seen } }) => {
    const others = ends.filter(({ call, toMs }) => call.seen.atMs <= seen.atMs && toMs > seen.atMs)
    return new Set(others.map(({ call }) => nameOf(call))).size
  })
  return Math.max(0, ...counts)
}

interface Life {
  calls: SeenCall[]
  /** Rows of earlier runs that name `delta`, except those its limits refused; a row names one of several calls. */
  past: Row[]
}

/** In order: instance IDs sort by time. */
function toLives({ story }: Facts, rows: Rows): Life[] {
  const instances = [...new Set(rows.all.map(({ instance }) => instance))].sort()
  return instances.map((instance) => ({
    calls: story.upstreams.calls.filter(({ id }) => rows.byId.get(id)?.instance === instance),
    past: rows.all.filter(
      (row) => row.instance < instance && row.upstream === 'delta' && row.error_code !== 'upstream_rate_limited',
    ),
  }))
}
