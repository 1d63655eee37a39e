/**
 * Checks each row's cost against its upstream calls: reported usage is exact to the nano-dollar, nothing delivered is
 * free, and Tollgate's own counts are marked.
 */
import { isLocal, SHORTEST_DEADLINE_MS, toCost, type Version } from './catalog.ts'
import { HANGING } from './causes.ts'
import type { Outcome } from './client.ts'
import { complain, type Facts, stretchOf } from './facts.ts'
import type { Fault } from './faults.ts'
import type { Row, Rows } from './rows.ts'
import type { SeenCall } from './upstreams.ts'

export function judgeCosts(facts: Facts, rows: Rows): string[] {
  const { story } = facts
  const outcomes = new Map(story.outcomes.map((outcome) => [outcome.plan.number, outcome]))
  return rows.all.flatMap((row) => {
    const outcome = outcomes.get(Number(row.user))
    if (!outcome) return [complain(story, null, 'rows of requests only that somebody made', row)]
    const why = whyNotRight(facts, row, outcome)
    return why === null ? [] : [complain(story, outcome, why, row)]
  })
}

/**
 * `unclear`: interrupted, so it depends on when. `either`: nothing or counted, because a breaking connection may
 * overtake its output. `given_up`: delivered nothing but counted, because the upstream may have worked.
 */
type Due = 'exact' | 'nothing' | 'counted' | 'given_up' | 'either' | 'unclear'

const OVERTAKING = new Set<Fault>(['cut', 'cut_reset'])

function toDue(call: SeenCall, row: Row, outcome: Outcome, calls: readonly SeenCall[]): Due {
  const { plan, seen, dropped } = call
  // A disconnected client pays for the whole response, except on local upstreams.
  const isHeard =
    !isLocal(call.upstream) && plan.yields === 'answer' && seen.answeredAtMs !== null && seen.abortedAtMs === null
  const isGone = outcome.end !== 'answered' && row.status !== 'ok' && !isHeard
  const isSibling = outcome.plan.n > 1 && calls.some((each) => each.plan.yields !== 'answer')
  if (isGone || isSibling || dropped) return 'unclear'
  // Without headers, a stream hasn't begun.
  const isGivenUp = HANGING.includes(plan.fault) && !(plan.fault === 'silent' && seen.json?.stream === true)
  if (plan.yields === 'nothing') return isGivenUp ? 'given_up' : 'nothing'
  if (plan.yields === 'part') {
    const isTold = row.status === 'cut' && call.number === row.attempts
    return OVERTAKING.has(plan.fault) && !isTold ? 'either' : 'counted'
  }
  if (seen.answeredAtMs === null || isLeftBehind(call, row)) return 'unclear'
  return plan.usage ? 'exact' : 'counted'
}

/**
 * True if a successful call was followed by another after a deadline: on a stalled machine, the gateway may have given
 * up unnoticed.
 */
function isLeftBehind({ number }: SeenCall, row: Row): boolean {
  const next = row.calls.find((record) => record.number === number + 1)
  if (!next || (next.reason !== 'fallback' && next.reason !== 'retry')) return false
  const { created_ms } = row.calls.find((record) => record.number === number) ?? row
  return next.created_ms - created_ms >= SHORTEST_DEADLINE_MS
}

const isCounting = (due: Due) => due === 'counted' || due === 'given_up'

function whyNotRight(facts: Facts, row: Row, outcome: Outcome): string | null {
  if (row.status === 'abandoned' || facts.isStill(stretchOf(outcome))) return null
  const calls = facts.callsOf(outcome.plan.number)
  // Abandoned in transit: it may not have arrived.
  if (outcome.end !== 'answered' && calls.length < row.attempts) return null
  const dues = calls.map((call) => ({ call, due: toDue(call, row, outcome, calls) }))
  for (const { call, due } of dues) {
    const record = row.calls.find(({ number }) => number === call.number)
    if (!record || due === 'unclear' || due === 'either') continue
    const status = due === 'nothing' || due === 'given_up' ? 'failed' : call.plan.yields === 'part' ? 'cut' : 'ok'
    if (record.status !== status) return `call ${call.number} on record as ${status}`
    if (record.estimated !== (isCounting(due) ? 1 : 0)) return `call ${call.number} with estimated = ${isCounting(due)}`
  }
  if (dues.some(({ due }) => due === 'unclear')) return null
  const isCounted =
    dues.some(({ due }) => isCounting(due)) || (dues.some(({ due }) => due === 'either') && row.estimated === 1)
  if (row.estimated !== (isCounted ? 1 : 0)) return `estimated = ${isCounted ? 1 : 0}`
  const exact = dues.filter(({ due }) => due === 'exact').map(({ call }) => call)
  const costs = facts.versionsIn(stretchOf(outcome)).flatMap((version) => toSum(version, row.model, exact) ?? [])
  if (exact.length > 0 && costs.length === 0) return 'calls by routes of the catalogue that was in force'
  const tokens = exact.reduce((sum, { plan }) => sum + (plan.usage?.prompt ?? 0) + (plan.usage?.completion ?? 0), 0)
  const came = row.prompt_tokens + row.completion_tokens
  if (isCounted) {
    const least = Math.min(...costs, Number.POSITIVE_INFINITY)
    if (exact.length > 0 && row.cost_nano_usd < least) return `a cost of ${least} at least, and what was counted`
    return came > tokens ? null : `more than ${tokens} tokens`
  }
  if (came !== tokens) return `${tokens} tokens`
  if (exact.length === 0) return row.cost_nano_usd === 0 ? null : 'a cost of 0'
  return costs.includes(row.cost_nano_usd) ? null : `a cost of ${[...new Set(costs)].join(' or ')}`
}

/** Null if that version has no such routes. */
function toSum(version: Version, slug: string, calls: readonly SeenCall[]): number | null {
  let sum = 0
  for (const { upstream, plan } of calls) {
    const cost = plan.usage ? toCost(version, slug, upstream, plan.usage) : 0
    if (cost === null) return null
    sum += cost
  }
  return sum
}
