/** What keys and teams are both held to, as the commands tell it: line by line, in short beneath a table, and what has changed. Pure. */
import { toDay } from '../domain/time.ts'
import { toBudgetText } from '../keys/budget.ts'
import type { Shared } from '../keys/shared-fields.ts'
import type { Standing } from '../keys/standing.ts'
import { toBudgetCell, toSpentText } from './budget.ts'
import { toFactLines, toPrintable } from './io.ts'

/** What something is called, and its text; `-` for none. */
export type Fact = readonly [what: string, text: string]

/** What may be changed of both. */
export const toSharedFacts = ({ models, scope, limits, budget, metadata }: Shared) =>
  ({
    models: ['models', models.join(', ') || 'all'],
    scope: ['scope', scope === 'local' ? 'local: local upstreams only' : 'all'],
    rpm: ['rpm', String(limits.requestsPerMinute ?? '-')],
    tpm: ['tpm', String(limits.tokensPerMinute ?? '-')],
    concurrency: ['concurrency', String(limits.concurrency ?? '-')],
    budget: ['budget', budget === null ? '-' : toBudgetText(budget)],
    metadata: [
      'metadata',
      Object.entries(metadata)
        .map((pair) => pair.join('='))
        .join(', ') || '-',
    ],
  }) satisfies Record<string, Fact>

/** What is spent, of a budget too where there is one. */
export function toSpentFacts(standing: Standing): Fact[] {
  const spent: Fact = ['spent', toSpentText(standing)]
  if (standing.budget === null) return [spent]
  const { resetMs } = standing.budget
  return [
    ['of budget', `${toBudgetCell(standing)}${resetMs === null ? '' : `, begins anew on ${toDay(resetMs)}`}`],
    spent,
  ]
}

/**
 * What has changed, a line each: `rpm  60 -> 120`.
 *
 * @param whose such as `Key 3f2a91bc (dev)`.
 */
export function toChangeLines(whose: string, before: readonly Fact[], after: readonly Fact[]): string {
  const were = new Map(before)
  const changed = after.filter(([what, text]) => were.get(what) !== text)
  // A time may have changed by less than is shown of it.
  if (changed.length === 0) return `${whose} is changed.\n`
  return toFactLines(
    `${whose} is changed:`,
    changed.map(([what, text]) => [what, `${were.get(what)} -> ${text}`]),
  )
}

/**
 * Such as `local only; openai/*, acme/large; 60 rpm; team Blue`; '' for what may everything.
 *
 * @param more what else there is to say, '' for nothing.
 */
export function toRules({ scope, models, limits }: Shared, ...more: string[]): string {
  const { requestsPerMinute, tokensPerMinute, concurrency } = limits
  const rules = [
    scope === 'local' && 'local only',
    models.map(toPrintable).join(', '),
    requestsPerMinute && `${requestsPerMinute} rpm`,
    tokensPerMinute && `${tokensPerMinute} tpm`,
    concurrency && `${concurrency} at a time`,
    ...more,
  ]
  return rules.filter(Boolean).join('; ')
}
