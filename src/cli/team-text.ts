/** A team as the commands tell of it: the table of all, all that is known of one, and what of that has changed. Pure. */
import { toShortId } from '../domain/id.ts'
import type { ListedKey } from '../keys/service.ts'
import type { Standing } from '../keys/standing.ts'
import type { StoredTeam } from '../store/config-store.ts'
import { toBudgetCell, toSpentText } from './budget.ts'
import { toDescribedTable, toFactLines, toPrintable, toShort, toTime } from './io.ts'
import { type Fact, toChangeLines, toRules, toSharedFacts, toSpentFacts } from './shared-text.ts'
import type { Paint } from './terminal.ts'

/** Such as `Team 3f2a91bc (Blue)`. */
export const toTeamName = ({ id, name }: StoredTeam) => `Team ${toShortId(id)} (${toPrintable(name)})`

/** One line a team, and beneath it what all of its keys are held to. */
export function toTeamTable(all: readonly { team: StoredTeam; standing: Standing }[], paint: Paint): string {
  const rows = all.map(({ team: { id, name, createdMs }, standing }) => [
    toShortId(id),
    toShort(name),
    toBudgetCell(standing),
    toTime(createdMs),
  ])
  const notes = all.map(({ team, standing }) => [toRules(team), toSpentText(standing)])
  return toDescribedTable(['ID', 'NAME', 'BUDGET', 'CREATED'], rows, notes, paint)
}

/** What may be changed of a team. */
function toFacts(team: StoredTeam): Fact[] {
  const { models, scope, rpm, tpm, concurrency, budget, metadata } = toSharedFacts(team)
  const maxKeys: Fact = ['max keys', team.maxKeys === null ? '-' : `${team.maxKeys} a member`]
  return [['name', team.name], models, scope, rpm, tpm, concurrency, budget, maxKeys, metadata]
}

/** All that is known of a team, a line each, its keys among it. */
export function toTeamText(team: StoredTeam, keys: readonly ListedKey[], standing: Standing): string {
  const [living, ended] = [keys.filter(isActive), keys.filter((key) => !isActive(key))]
  const facts: Fact[] = [
    ['id', team.id],
    ...toFacts(team).slice(1),
    ...toSpentFacts(standing),
    ['keys', toNames(living)],
    ...(ended.length === 0 ? [] : [['ended keys', toNames(ended)] as const]),
    ['created', toTime(team.createdMs)],
  ]
  return toFactLines(toTeamName(team), facts)
}

const isActive = ({ status }: ListedKey) => status === 'active'

const toNames = (keys: readonly ListedKey[]) =>
  keys.map(({ id, name }) => `${name} (${toShortId(id)})`).join(', ') || '-'

/** What has changed of a team, a line each. */
export const toTeamChangeText = (before: StoredTeam, after: StoredTeam): string =>
  toChangeLines(toTeamName(before), toFacts(before), toFacts(after))
