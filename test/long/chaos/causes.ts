/** Whether an error has its cause: upstream faults, a limit, a breaker in the log, or the shutdown. */
import type { ErrorFields } from '../../support/contract-frames.ts'
import type { Held } from './answers.ts'
import { REJECTION } from './behaviours.ts'
import { type Facts, stretchOf } from './facts.ts'
import type { Fault } from './faults.ts'
import type { RequestPlan } from './plan.ts'

const BROKEN: readonly Fault[] = [
  'reset',
  'refuse',
  's401',
  's404',
  's500',
  'html',
  'garbage',
  'empty',
  'frame_500',
  'cut',
  'cut_reset',
  'cut_eof',
  'cut_500',
  'cut_garbage',
]
/** Stops sending, and keeps the connection. */
export const HANGING: readonly Fault[] = ['silent', 'hang_role', 'cut_hang']
const OVERLOADED: readonly Fault[] = ['s503', 'frame_503', 'cut_503']
const BUDGETED = new Set(['budget', 'squad1', 'squad2'])
const RATED = new Set(['rpm', 'tpm', 'slots', 'squad1', 'squad2'])

/** The missing cause; null if explained. */
export function whyNotExplained(facts: Facts, held: Held, error: ErrorFields): string | null {
  const { outcome } = held
  const { plan, status, headers } = outcome
  const calls = facts.callsOf(plan.number)
  const routes = facts.routesOf(outcome)
  const during = stretchOf(outcome)
  const did = (faults: readonly Fault[]) => calls.some((call) => faults.includes(call.plan.fault))
  const isGivenUp = calls.some((call) => call.seen.abortedAtMs !== null && !call.dropped)
  const isStatus = (expected: number) => status === expected || status === 200
  const explained = (): boolean => {
    switch (error.code) {
      case 'upstream_failed': {
        const isLost = calls.some((call) => call.dropped) || facts.isClosed(routes, during)
        const ours = did(['s401', 's404'])
        if (headers.get('x-should-retry') === 'false' && !ours) return false
        return isStatus(502) && error.type === 'server_error' && (did(BROKEN) || isLost)
      }
      case 'upstream_timeout':
        return isStatus(504) && error.type === 'server_error' && (did(HANGING) || isGivenUp || facts.isStill(during))
      case 'server_is_overloaded':
        return isStatus(503) && (did(OVERLOADED) || (calls.length === 0 && during.toMs >= facts.story.drain.fromMs))
      case 'upstream_rate_limited':
        return isStatus(429) && error.type === 'requests' && (did(['s429']) || routes.has('delta'))
      case REJECTION.code:
        return (
          isStatus(400) &&
          error.param === toParam(plan, status) &&
          error.message.includes(REJECTION.message) &&
          did(['s400'])
        )
      case 'schema_not_met':
        return isStatus(502) && calls.length >= 3 && ['object', 'schema', 'strict'].includes(plan.format)
      case 'model_not_found':
        return (
          status === 404 && error.param === 'model' && error.message.startsWith(`model not found: \`${plan.model}\``)
        )
      case 'model_not_ready':
        return isStatus(503) && facts.isAvoided(outcome)
      case 'rate_limit_exceeded':
        return status === 429 && calls.length === 0 && RATED.has(String(plan.key))
      case 'insufficient_quota':
        return isStatus(429) && BUDGETED.has(String(plan.key))
      default:
        return false
    }
  }
  return explained() ? null : `a cause for the error ${status} ${error.type} ${error.code}: ${error.message}`
}

/** A Responses stream in progress has no place for `param`. */
const toParam = ({ way }: Pick<RequestPlan, 'way'>, status: number): string | null =>
  way === 'chat' ? REJECTION.param : status === 200 ? null : 'input'
