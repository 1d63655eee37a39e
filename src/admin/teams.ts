/** `/admin/api/teams` */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Changed, Key, Team, toKeyDocument, toTeamDocument } from '../documents/key.ts'
import { readNames } from '../identity/admins.ts'
import { toChanges } from '../keys/changes.ts'
import { TEAM_FIELDS, type TeamChanges } from '../keys/definition.ts'
import { createTeam, editTeam, listTeams, showTeam } from '../keys/service.ts'
import { toFirstSpendStatus } from '../keys/spend-status.ts'
import type { StoredTeam } from '../store/config-store.ts'
import { access } from './access.ts'
import { actors, inForce } from './changes.ts'
import type { AdminDeps, Asker } from './deps.ts'
import { toBodies } from './keys.ts'
import { Warnings, warningsOf } from './warnings.ts'

const { Made, Patch } = toBodies<TeamChanges>(TEAM_FIELDS)

export function teamsController(deps: AdminDeps) {
  const { store, identity, reports, serving, now } = deps
  const status = async (asker: Asker, team: StoredTeam) =>
    toTeamDocument(team, (await reports.spendStatuses(asker, 'team', team.id))(team))
  const by = actors(deps)

  return new Elysia({ name: 'teams' })
    .use(access())
    .onAfterHandle(inForce({ serving }))
    .get(
      '/teams',
      async ({ asker }) => {
        const [teams, statusOf] = await Promise.all([listTeams(store), reports.spendStatuses(asker, 'team')])
        return { teams: teams.map((team) => toTeamDocument(team, statusOf(team))) }
      },
      { route: { least: 'viewer', summary: 'List teams', answer: Type.Object({ teams: Type.Array(Team) }) } },
    )
    .post(
      '/teams',
      async ({ principal, asker, body }) => {
        const team = await createTeam(store, { ...toChanges(body), name: body.name }, by(principal))
        const document = toTeamDocument(team, toFirstSpendStatus(team, now()))
        return { ...document, warnings: await warningsOf(deps, asker, document, {}) }
      },
      {
        route: {
          least: 'editor',
          summary: 'Create a team',
          answer: Type.Object({ ...Team.properties, warnings: Warnings }),
          errors: ['team_exists'],
        },
        body: Made,
      },
    )
    .get(
      '/teams/:id',
      async ({ asker, params: { id } }) => {
        const { team, keys } = await showTeam(store, id, now())
        const [document, statusOf, names] = await Promise.all([
          status(asker, team),
          reports.spendStatuses(asker, 'key'),
          readNames(identity),
        ])
        return { ...document, keys: keys.map((key) => toKeyDocument(key, statusOf(key), names)) }
      },
      {
        route: {
          least: 'viewer',
          summary: 'Get a team with its keys',
          answer: Type.Object({ ...Team.properties, keys: Type.Array(Key) }),
          errors: ['team_not_found', 'team_ambiguous'],
        },
      },
    )
    .patch(
      '/teams/:id',
      async ({ request, principal, asker, params: { id }, body }) => {
        const { team, difference } = await editTeam(store, id, toChanges(body), by(principal, request))
        const changed = Object.keys(difference?.after ?? {})
        const document = await status(asker, team)
        return { ...document, changed, warnings: await warningsOf(deps, asker, document, { changed }) }
      },
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Edit a team. Absent fields do not change',
          answer: Type.Object({ ...Team.properties, changed: Changed, warnings: Warnings }),
          errors: ['team_not_found', 'team_ambiguous', 'team_exists'],
        },
        body: Patch,
      },
    )
}
