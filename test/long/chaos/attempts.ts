/**
 * Checks from outside where and how often requests were tried (section 8): every eligible route, up to three times if
 * that may help, and never after the first token.
 */
import type { Held } from './answers.ts'
import { isLocal } from './catalog.ts'
import { complain, type Facts, stretchOf } from './facts.ts'
import type { Fault } from './faults.ts'

/** Final errors if no route answered. */
const EXHAUSTED = new Set<string | null>(['upstream_failed', 'upstream_timeout', 'server_is_overloaded'])
/** Faults that a retry may not meet, and that don't use up a deadline. */
const PASSING: readonly Fault[] = ['reset', 's500', 's503', 'html', 'garbage', 'empty', 'frame_500', 'frame_503']
const ROUNDS = 3

export function judgeAttempts(facts: Facts, held: readonly Held[]): string[] {
  return held.flatMap((one) => {
    const why = whyNotTried(facts, one)
    return why === null ? [] : [complain(facts.story, one.outcome, why, one.error ?? 'an answer')]
  })
}

function whyNotTried(facts: Facts, { outcome, report, error }: Held): string | null {
  const { plan } = outcome
  const calls = facts.callsOf(plan.number).toSorted((a, b) => a.number - b.number)
  // Several choices and repeated JSON have calls of their own.
  if (plan.n > 1 || (plan.format !== 'text' && plan.format !== 'tools') || calls.length === 0) return null
  const finalAt = calls.findIndex((call) => call.plan.fault === 's400')
  if (finalAt !== -1 && finalAt !== calls.length - 1) return 'no further call after a refusal of the request itself'
  if (!error) return null
  if ((report?.choices.length ?? 0) > 0) {
    const last = calls.at(-1)
    const isOver = last?.plan.yields === 'part' || last?.dropped || last?.seen.abortedAtMs !== null
    return isOver ? null : 'no further call after the first word'
  }
  if (!EXHAUSTED.has(error.code)) return null
  const during = stretchOf(outcome)
  const routes = [...facts.routesOf(outcome)].filter((upstream) => plan.key !== 'local' || isLocal(upstream))
  if (facts.isClosed(routes, during) || facts.isAvoided(outcome) || facts.versionsIn(during).length > 1) return null
  const untried = routes.filter((upstream) => !calls.some((call) => call.upstream === upstream))
  // One lacks tools, the other is sometimes at capacity.
  const able = untried.filter(
    (upstream) => upstream !== 'delta' && !(upstream === 'epsilon' && plan.format === 'tools'),
  )
  if (able.length > 0) return `a try of every route, ${able.join()} included`
  const isPassing = calls.every((call) => PASSING.includes(call.plan.fault) && call.seen.abortedAtMs === null)
  if (routes.length === 1 && isPassing && calls.length !== ROUNDS) return `${ROUNDS} tries, not ${calls.length}`
  return null
}
