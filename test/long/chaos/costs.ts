/**
 * Holds what each row of a chaos story costs against what its upstreams did, call by call: what was reported is charged by
 * the price of its route to the nano-dollar, what delivered nothing costs nothing, and what is counted by the gateway
 * itself is marked so.
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
 * What a call must have come to. `unclear`: somebody broke it off, and it depends on when. `either`: nothing or counted,
 * because a connection that breaks may overtake the words that were sent on it. `given_up`: it delivered nothing, and is
 * counted, because the gateway stopped waiting for an upstream that may have worked.
 */
type Due = 'exact' | 'nothing' | 'counted' | 'given_up' | 'either' | 'unclear'

const OVERTAKING = new Set<Fault>(['cut', 'cut_reset'])

function toDue(call: SeenCall, row: Row, outcome: Outcome, calls: readonly SeenCall[]): Due {
  const { plan, seen, dropped } = call
  // Whoever leaves pays for what was read on to its end, which calls to a local upstream are not.
  const isHeard =
    !isLocal(call.upstream) && plan.yields === 'answer' && seen.answeredAtMs !== null && seen.abortedAtMs === null
  const isGone = outcome.end !== 'answered' && row.status !== 'ok' && !isHeard
  const isSibling = outcome.plan.n > 1 && calls.some((each) => each.plan.yields !== 'answer')
  if (isGone || isSibling || dropped) return 'unclear'
  // A stream of which not even the headers came has not begun to work.
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
 * Whether a call that was answered was followed by another, after a deadline's time: on a machine that stood still the
 * gateway may have given it up, and its upstream, which stood still as well, has noticed nothing.
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
  // A call that was given up on its way: nobody knows whether it arrived.
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

/** The cost of these calls by one version's prices; null where it has no such routes. */
function toSum(version: Version, slug: string, calls: readonly SeenCall[]): number | null {
  let sum = 0
  for (const { upstream, plan } of calls) {
    const cost = plan.usage ? toCost(version, slug, upstream, plan.usage) : 0
    if (cost === null) return null
    sum += cost
  }
  return sum
}
