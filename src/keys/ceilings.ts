/**
 * Ceilings of a member's key: what an administrator, a token or a command has set on it, the member who owns it may lower and not lift.
 * `edit.ts` notes them, `identity/own-keys.ts` holds members to them. Pure.
 */
import { isIn, toIpRange } from '../domain/ip.ts'
import { ServiceError } from '../domain/service-error.ts'
import { matches } from '../domain/text.ts'
import type { Ceilings, StoredKey } from '../store/config-store.ts'
import { toBudgetText } from './budget.ts'
import type { KeyChanges } from './fields.ts'

interface Bound {
  /** What a refusal calls it, as forms and other refusals do. */
  field: string
  /** Whether a change says something of it. */
  isSaid(changes: KeyChanges): boolean
  /** What a key is held to; `{}` where it is not. */
  of(key: StoredKey): Ceilings
  /** Whether a key with such a bound may no more than the ceiling allows. */
  isWithin(bound: Ceilings, ceiling: Ceilings): boolean
  toText(ceiling: Ceilings): string
}

const toCount = (column: 'rpm' | 'tpm' | 'concurrency' | 'expires_ms', name: keyof KeyChanges): Bound => ({
  field: column,
  isSaid: (changes) => changes[name] !== undefined,
  of: ({ limits, expiresMs }) => {
    const { requestsPerMinute: rpm, tokensPerMinute: tpm, concurrency } = limits
    const value = { rpm, tpm, concurrency, expires_ms: expiresMs }[column]
    return value === null ? {} : { [column]: value }
  },
  isWithin: (bound, ceiling) => (bound[column] ?? Number.POSITIVE_INFINITY) <= (ceiling[column] ?? 0),
  toText: (ceiling) =>
    column === 'expires_ms' ? new Date(ceiling[column] ?? 0).toISOString() : String(ceiling[column]),
})

const BOUNDS: readonly Bound[] = [
  toCount('rpm', 'requestsPerMinute'),
  toCount('tpm', 'tokensPerMinute'),
  toCount('concurrency', 'concurrency'),
  toCount('expires_ms', 'expiresMs'),
  {
    field: 'budget',
    isSaid: ({ budget }) => budget !== undefined,
    of: ({ budget }) => (budget ? { budget_nano_usd: budget.nanoUsd, budget_period: budget.period } : {}),
    // A total is never more than as much in each period; of other periods neither is surely the smaller one.
    isWithin: (bound, ceiling) =>
      (bound.budget_period === ceiling.budget_period || bound.budget_period === 'total') &&
      (bound.budget_nano_usd ?? Number.POSITIVE_INFINITY) <= (ceiling.budget_nano_usd ?? 0),
    toText: ({ budget_nano_usd: nanoUsd = 0, budget_period: period = 'total' }) => toBudgetText({ nanoUsd, period }),
  },
  {
    field: 'scope',
    isSaid: ({ scope }) => scope !== undefined,
    of: ({ scope }) => (scope === 'local' ? { scope } : {}),
    isWithin: ({ scope }) => scope === 'local',
    toText: () => 'local',
  },
  {
    field: 'models',
    isSaid: ({ models }) => models !== undefined,
    of: ({ models }) => (models.length > 0 ? { models } : {}),
    // A `*` of a pattern is matched by a `*` alone: what matches the pattern as a text matches all that the pattern does.
    isWithin: ({ models = [] }, { models: most = [] }) =>
      models.length > 0 && models.every((pattern) => most.some((other) => matches(other, pattern))),
    toText: ({ models = [] }) => models.join(', '),
  },
  {
    field: 'allowed_ips',
    isSaid: ({ allowedIps }) => allowedIps !== undefined,
    of: ({ allowedIps }) => (allowedIps.length > 0 ? { allowed_ips: allowedIps } : {}),
    isWithin: ({ allowed_ips: ips = [] }, { allowed_ips: most = [] }) =>
      ips.length > 0 && ips.every((ip) => most.some((range) => isRangeIn(range, ip))),
    toText: ({ allowed_ips: ips = [] }) => ips.join(', '),
  },
]

function isRangeIn(outer: string, inner: string): boolean {
  const [range, part] = [toIpRange(outer), toIpRange(inner)]
  return 'bits' in range && 'bits' in part && part.bits >= range.bits && isIn(range, part.first)
}

/** The ceilings of a key once somebody other than its owner has changed it: what they said becomes one, or ends it. */
export function toCeilings(key: StoredKey, changes: KeyChanges): Ceilings {
  const parts = BOUNDS.map((bound) => (bound.isSaid(changes) ? bound.of(key) : toPart(bound, key.ceilings)))
  return Object.assign({}, ...parts)
}

/** Throws `above_ceiling` where a member's change of a key would lift one of its ceilings. */
export function requireWithin(before: StoredKey, after: StoredKey): void {
  for (const bound of BOUNDS) {
    const ceiling = toPart(bound, before.ceilings)
    const values = Object.values(ceiling)
    // One that was above it already, by an owner's hand, stays as it is.
    if (values.length === 0 || Bun.deepEquals(bound.of(before), bound.of(after))) continue
    if (bound.isWithin(bound.of(after), ceiling)) continue
    const message = `An administrator has set ${bound.field} of this key to ${bound.toText(ceiling)}. You can lower it, but not raise or remove it: ask an administrator.`
    const [only] = values
    const told = values.length === 1 ? only : ceiling
    throw new ServiceError({ kind: 'above_ceiling', field: bound.field, ceiling: told }, message)
  }
}

/** Each ceiling in words, by its field. */
export const toCeilingTexts = (ceilings: Ceilings): [field: string, text: string][] =>
  BOUNDS.flatMap((bound) => {
    const part = toPart(bound, ceilings)
    return Object.keys(part).length === 0 ? [] : [[bound.field, bound.toText(part)]]
  })

/** What ceilings say of one bound. */
function toPart({ field }: Bound, ceilings: Ceilings): Ceilings {
  const own = Object.entries(ceilings).filter(([name]) => name === field || name.startsWith(`${field}_`))
  return Object.fromEntries(own)
}
