/** A key as the commands tell of it: all that is known of it, and what of that has changed. Pure. */
import { toShortId } from '../domain/id.ts'
import { toCeilingTexts } from '../keys/ceilings.ts'
import type { ListedKey } from '../keys/service.ts'
import type { Standing } from '../keys/standing.ts'
import { toMasked } from '../keys/token.ts'
import { toLastUseText } from './budget.ts'
import { toFactLines, toPrintable, toTime } from './io.ts'
import { type Fact, toChangeLines, toSharedFacts, toSpentFacts } from './shared-text.ts'

/** Such as `Key 3f2a91bc (dev)`. */
export const toKeyName = ({ id, name }: Pick<ListedKey, 'id' | 'name'>) => `Key ${toShortId(id)} (${toPrintable(name)})`

/** What may be changed of a key. */
function toFacts(key: ListedKey): Fact[] {
  const { models, scope, rpm, tpm, concurrency, budget, metadata } = toSharedFacts(key)
  return [
    ['name', key.name],
    models,
    scope,
    ['from', key.allowedIps.join(', ') || 'everywhere'],
    ['team', key.teamId === null ? '-' : `${key.team} (${toShortId(key.teamId)})`],
    ...[rpm, tpm, concurrency, budget],
    ['expires', key.expiresMs === null ? '-' : toTime(key.expiresMs)],
    metadata,
  ]
}

/** All that is known of a key, a line each. @param names of those whose it may be, by their ids. */
export function toKeyText(
  key: ListedKey,
  standing: Standing,
  names: ReadonlyMap<string, string>,
  nowMs: number,
): string {
  const facts: Fact[] = [
    ['id', key.id],
    ...key.secrets.map((secret): Fact => ['key', toSecretText(secret, nowMs)]),
    ...toFacts(key).slice(1),
    ...toCeilingFacts(key),
    ...toSpentFacts(standing),
    ['last used', toLastUseText(standing)],
    ...toOwner(key, names),
    ['created', toTime(key.createdMs)],
    ...(key.revokedMs === null ? [] : [['revoked', toTime(key.revokedMs)] as const]),
  ]
  return toFactLines(`${toKeyName(key)}, ${key.status}`, facts)
}

/** What its member may not lift. */
function toCeilingFacts({ ceilings }: ListedKey): Fact[] {
  const texts = toCeilingTexts(ceilings).map(([field, text]) => `${field} ${text}`)
  return texts.length === 0 ? [] : [['ceilings', texts.join('; ')]]
}

/** Who has made it for themselves. */
function toOwner({ ownerId }: ListedKey, names: ReadonlyMap<string, string>): Fact[] {
  return ownerId === null ? [] : [['owner', `${names.get(ownerId) ?? '-'} (${toShortId(ownerId)})`]]
}

function toSecretText({ lastFour, createdMs, expiresMs }: ListedKey['secrets'][number], nowMs: number): string {
  const since = `${toMasked(lastFour)}, made ${toTime(createdMs)}`
  if (expiresMs === null) return since
  return `${since}, ${expiresMs > nowMs ? 'ends' : 'ended'} ${toTime(expiresMs)}`
}

/** What has changed of a key, a line each. */
export const toChangeText = (before: ListedKey, after: ListedKey): string =>
  toChangeLines(toKeyName(before), toFacts(before), toFacts(after))
