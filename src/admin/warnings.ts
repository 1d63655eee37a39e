/** Warnings of a key or team that was created or edited. */
import { type Static, Type } from '@sinclair/typebox'
import { Text } from '../documents/fields.ts'
import { keysOf } from '../domain/json.ts'
import { type Access, mayUse } from '../domain/snapshot.ts'
import { findWarnings, type Known, type Warned, type Warning } from '../keys/warnings.ts'
import type { AdminDeps, Asker } from './deps.ts'

export const Warnings = Type.Array(Type.Object({ field: Text, message: Text }), {
  description: 'Changed fields that will certainly refuse requests, such as a pattern that matches no usable model.',
})

interface Asked {
  teamId?: string | null
  /** True for a member, who must only learn about models of their team. */
  isOwn?: boolean
  /** Edited columns; absent for a new one. */
  changed?: readonly string[]
}

export async function warningsOf(
  { serving, reports, now }: Pick<AdminDeps, 'serving' | 'reports' | 'now'>,
  asker: Asker,
  of: Warned & { spent_nano_usd: number | null },
  { teamId = null, isOwn = false, changed }: Asked,
): Promise<Static<typeof Warnings>> {
  const isChanged = (field: Warning['field']) =>
    changed === undefined || COLUMNS[field].some((column) => changed.includes(column))
  if (!keysOf(COLUMNS).some(isChanged)) return []
  const snapshot = await serving.readSnapshot()
  const team = snapshot.teams.get(teamId ?? '')
  const isLocal = (slug: string) => snapshot.models.get(slug)?.targets.some(({ upstream }) => upstream.local) === true
  const isUsable = (access: Access, slug: string) => (access.scope === 'all' || isLocal(slug)) && mayUse(access, slug)
  // A member whose team is not in the snapshot yet sees no models.
  const slugs = [...snapshot.models.keys()].filter((slug) => !isOwn || (team !== undefined && isUsable(team, slug)))
  const known: Known = {
    nowMs: now(),
    spent: of.budget_period === null || of.spent_nano_usd === null ? {} : { [of.budget_period]: of.spent_nano_usd },
    models: slugs.map((slug) => ({ slug, isLocal: isLocal(slug) })),
    aliases: snapshot.aliases,
    team: null,
  }
  if (team && teamId !== null) {
    const { budget } = team
    const spentByTeam = budget && (await reports.spendStatuses(asker, 'team', teamId))({ id: teamId, budget })
    known.team = {
      ...{ name: team.name, scope: team.scope, models: team.models },
      ...{ budget_nano_usd: budget?.nanoUsd ?? null, budget_period: budget?.period ?? null },
      spent: spentByTeam?.budget?.spentNanoUsd ?? null,
    }
  }
  return findWarnings(of, known, isChanged)
}

/** Changed columns that make a field worth a warning. */
const COLUMNS: Readonly<Record<Warning['field'], readonly string[]>> = {
  models: ['models', 'scope', 'team_id'],
  scope: ['models', 'scope', 'team_id'],
  budget: ['budget_nano_usd', 'budget_period'],
  team: ['team_id'],
  expires_ms: ['expires_ms'],
}
