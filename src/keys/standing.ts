/** Whether requests of a key or team are accepted, in words: for lists, drawers, filters, and commands. */

export const STANDINGS = {
  active: 'active',
  budget_spent: 'budget spent',
  team_budget_spent: 'team budget spent',
  expired: 'expired',
  revoked: 'revoked',
} as const
export type Standing = keyof typeof STANDINGS

interface Budgeted {
  budget_state: 'ok' | 'warning' | 'spent' | null
}

/** IDs of teams whose budget is spent. */
export const toSpentTeams = (teams: readonly (Budgeted & { id: string })[]): ReadonlySet<string> =>
  new Set(teams.flatMap(({ id, budget_state }) => (budget_state === 'spent' ? [id] : [])))

export function toStanding(
  key: Budgeted & { status: 'active' | 'expired' | 'revoked'; team_id: string | null },
  spentTeams: ReadonlySet<string>,
): Standing {
  if (key.status !== 'active') return key.status
  if (key.budget_state === 'spent') return 'budget_spent'
  return key.team_id !== null && spentTeams.has(key.team_id) ? 'team_budget_spent' : 'active'
}

export const toTeamStanding = ({ budget_state }: Budgeted): Standing =>
  budget_state === 'spent' ? 'budget_spent' : 'active'
