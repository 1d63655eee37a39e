/** A team under its columns' names, as `teams … --json` prints it and the admin API answers. */
import type { Standing } from '../keys/standing.ts'
import { toTeamFields } from '../keys/teams.ts'
import type { StoredTeam } from '../store/config-store.ts'
import { toStandingFields } from './standing.ts'

export const toTeamDocument = (team: StoredTeam, standing: Standing) => ({
  id: team.id,
  ...toTeamFields(team),
  ...toStandingFields(standing),
  created_ms: team.createdMs,
})

export type TeamDocument = ReturnType<typeof toTeamDocument>
