/** Teams: `/admin/api/teams`. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { toKeyDocument } from '../documents/key.ts'
import { toTeamDocument } from '../documents/team.ts'
import { readNames } from '../identity/admins.ts'
import { toFirstStanding } from '../keys/standing.ts'
import { createTeam, editTeam, listTeams, showTeam, type TeamChanges } from '../keys/teams.ts'
import type { StoredTeam } from '../store/config-store.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, orNone, Shared } from './schema.ts'
import { toSharedChanges } from './shared-body.ts'

const TeamFields = { ...Shared, max_keys: orNone(Type.Integer()) }
const TeamBody = exactly({ ...TeamFields, name: Type.String() })
const TeamPatch = exactly({ ...TeamFields, name: Type.Optional(Type.String()) })

export function teamsController({ store, identity, reports, now }: AdminDeps) {
  const standing = async (team: StoredTeam) => toTeamDocument(team, (await reports.standings('team', team.id))(team))
  const by = actors({ now })

  return new Elysia({ name: 'teams' })
    .use(access())
    .get(
      '/teams',
      async () => {
        const [teams, standingOf] = await Promise.all([listTeams(store), reports.standings('team')])
        return { teams: teams.map((team) => toTeamDocument(team, standingOf(team))) }
      },
      { least: 'viewer' },
    )
    .post(
      '/teams',
      async ({ principal, body: { name, ...fields } }) => {
        const team = await createTeam(store, { ...toTeamChanges(fields), name }, by(principal))
        return toTeamDocument(team, toFirstStanding(team, now()))
      },
      { least: 'editor', body: TeamBody },
    )
    .get(
      '/teams/:id',
      async ({ params: { id } }) => {
        const { team, keys } = await showTeam(store, id, now())
        const [document, standingOf, names] = await Promise.all([
          standing(team),
          reports.standings('key'),
          readNames(identity),
        ])
        return { ...document, keys: keys.map((key) => toKeyDocument(key, standingOf(key), names)) }
      },
      { least: 'viewer' },
    )
    .patch(
      '/teams/:id',
      async ({ principal, params: { id }, body }) => {
        const { team } = await editTeam(store, id, toTeamChanges(body), by(principal))
        return standing(team)
      },
      { least: 'editor', body: TeamPatch },
    )
}

function toTeamChanges({ max_keys: maxKeys, ...shared }: Static<typeof TeamPatch>): TeamChanges {
  return { ...toSharedChanges(shared), ...(maxKeys === undefined ? {} : { maxKeys }) }
}
