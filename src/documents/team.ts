/** A team under its columns' names, as `teams … --json` prints it and the admin API answers. */
import { toRevision } from '../domain/changes.ts'
import type { Standing } from '../keys/standing.ts'
import { toTeamFields } from '../keys/teams.ts'
import type { StoredTeam } from '../store/config-store.ts'
import { toStandingFields } from './standing.ts'

export function toTeamDocument(team: StoredTeam, standing: Standing) {
  const fields = toTeamFields(team)
  return {
    id: team.id,
    revision: toRevision(fields),
    ...fields,
    ...toStandingFields(standing),
    created_ms: team.createdMs,
  }
}

export type TeamDocument = ReturnType<typeof toTeamDocument>
