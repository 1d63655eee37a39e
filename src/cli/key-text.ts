/** A key as the commands tell of it: its fields in JSON, all that is known of it, and what of that has changed. Pure. */
import { toShortId } from '../domain/id.ts'
import type { BudgetStanding } from '../keys/budget.ts'
import { toFields } from '../keys/fields.ts'
import type { ListedKey } from '../keys/service.ts'
import { toMasked } from '../keys/token.ts'
import { toBudgetCell, toBudgetFields, toBudgetText } from './budget.ts'
import { toDay, toFactLines, toPrintable, toTime } from './io.ts'

/** A key under its columns' names. */
export function toKeyJson(key: ListedKey, standing: BudgetStanding | null) {
  const { name, ...fields } = toFields(key)
  return {
    id: key.id,
    name,
    last_four: key.secrets.at(-1)?.lastFour ?? null,
    status: key.status,
    ...fields,
    team: key.team,
    ...toBudgetFields(standing),
    secrets: key.secrets.map(({ lastFour, createdMs, expiresMs }) => ({
      last_four: lastFour,
      created_ms: createdMs,
      expires_ms: expiresMs,
    })),
    created_ms: key.createdMs,
    revoked_ms: key.revokedMs,
  }
}

/** Such as `Key 3f2a91bc (dev)`. */
export const toKeyName = ({ id, name }: Pick<ListedKey, 'id' | 'name'>) => `Key ${toShortId(id)} (${toPrintable(name)})`

type Fact = readonly [what: string, text: string]

/** What may be changed of a key. */
const toRules = (key: ListedKey): Fact[] => [
  ['name', key.name],
  ['models', key.models.join(', ') || 'all'],
  ['scope', key.scope === 'local' ? 'local: local upstreams only' : 'all'],
  ['from', key.allowedIps.join(', ') || 'everywhere'],
  ['team', key.teamId === null ? '-' : `${key.team} (${toShortId(key.teamId)})`],
  ['rpm', String(key.limits.requestsPerMinute ?? '-')],
  ['tpm', String(key.limits.tokensPerMinute ?? '-')],
  ['concurrency', String(key.limits.concurrency ?? '-')],
  ['budget', key.budget === null ? '-' : toBudgetText(key.budget)],
  ['expires', key.expiresMs === null ? '-' : toTime(key.expiresMs)],
  [
    'metadata',
    Object.entries(key.metadata)
      .map((pair) => pair.join('='))
      .join(', ') || '-',
  ],
]

/** All that is known of a key, a line each. */
export function toKeyText(key: ListedKey, standing: BudgetStanding | null, nowMs: number): string {
  const facts: Fact[] = [
    ['id', key.id],
    ...key.secrets.map((secret): Fact => ['key', toSecretText(secret, nowMs)]),
    ...toRules(key).slice(1),
    ['spent', toStandingText(standing)],
    ['created', toTime(key.createdMs)],
    ...(key.revokedMs === null ? [] : [['revoked', toTime(key.revokedMs)] as const]),
  ]
  return toFactLines(`${toKeyName(key)}, ${key.status}`, facts)
}

function toSecretText({ lastFour, createdMs, expiresMs }: ListedKey['secrets'][number], nowMs: number): string {
  const since = `${toMasked(lastFour)}, made ${toTime(createdMs)}`
  if (expiresMs === null) return since
  return `${since}, ${expiresMs > nowMs ? 'ends' : 'ended'} ${toTime(expiresMs)}`
}

/** Nobody sums up what a key without a budget has spent. */
function toStandingText(standing: BudgetStanding | null): string {
  if (standing === null) return '-'
  const { resetMs } = standing
  return `${toBudgetCell(standing)}${resetMs === null ? '' : `, begins anew on ${toDay(resetMs)}`}`
}

/** What has changed of a key, a line each: `rpm  60 -> 120`. */
export function toChangeText(before: ListedKey, after: ListedKey): string {
  const were = new Map(toRules(before))
  const changed = toRules(after).filter(([what, text]) => were.get(what) !== text)
  // A time may have changed by less than is shown of it.
  if (changed.length === 0) return `${toKeyName(before)} is changed.\n`
  return toFactLines(
    `${toKeyName(before)} is changed:`,
    changed.map(([what, text]) => [what, `${were.get(what)} -> ${text}`]),
  )
}
