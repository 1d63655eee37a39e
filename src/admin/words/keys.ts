/** Keys, one's own keys, teams, and the playground. */
import { Type } from '@sinclair/typebox'
import { Key, MadeKey, OwnTeam, Team } from '../../documents/schemas/keys.ts'
import { PublicModel } from '../../documents/schemas/models.ts'
import type { Words } from './route-words.ts'

const Keys = Type.Object({ keys: Type.Array(Key) })

export const KEYS = {
  'GET /keys': { summary: 'Lists all keys, revoked and expired ones too, with what they have spent', answer: Keys },
  'POST /keys': {
    summary: 'Makes a key, whose secret is in this answer alone',
    answer: MadeKey,
    errors: ['key_exists', 'team_not_found', 'team_ambiguous'],
  },
  'GET /keys/:id': {
    summary: 'Shows a key',
    description: 'By its id or at least six digits of it, its name, or the last four characters of its secret.',
    answer: Key,
    errors: ['key_not_found', 'key_ambiguous'],
  },
  'PATCH /keys/:id': {
    edits: true,
    summary: 'Changes what is given; the rest stays, and so does what was spent',
    answer: Key,
    errors: [
      ...(['key_not_found', 'key_ambiguous', 'key_exists', 'key_revoked', 'key_hidden'] as const),
      ...(['team_not_found', 'team_ambiguous'] as const),
    ],
  },
  'POST /keys/:id/rotate': {
    summary: 'Makes a new secret; the one before ends after the overlap',
    answer: MadeKey,
    errors: ['key_not_found', 'key_ambiguous', 'key_revoked', 'key_expired', 'key_hidden'],
  },
  'POST /keys/:id/revoke': {
    summary: 'Revokes a key for ever',
    answer: Key,
    errors: ['key_not_found', 'key_ambiguous', 'key_hidden'],
  },
  'GET /teams': { summary: 'Lists teams', answer: Type.Object({ teams: Type.Array(Team) }) },
  'POST /teams': { summary: 'Makes a team', answer: Team, errors: ['team_exists'] },
  'GET /teams/:id': {
    summary: 'Shows a team with its keys',
    answer: Type.Object({ ...Team.properties, keys: Type.Array(Key) }),
    errors: ['team_not_found', 'team_ambiguous'],
  },
  'PATCH /teams/:id': {
    edits: true,
    summary: 'Changes what is given; the rest stays',
    answer: Team,
    errors: ['team_not_found', 'team_ambiguous', 'team_exists'],
  },
  'GET /own/team': { summary: "Shows a member's team", answer: OwnTeam, errors: ['no_team'] },
  'GET /own/models': {
    summary: 'Lists the models that a member may use, as clients are told of them',
    answer: Type.Object({ models: Type.Array(PublicModel) }),
    errors: ['no_team'],
  },
  'GET /own/keys': { summary: "Lists a member's own keys", answer: Keys, errors: ['no_team'] },
  'POST /own/keys': {
    summary: "Makes a key of a member's own, in their team",
    answer: MadeKey,
    errors: ['no_team', 'key_exists', 'too_many_keys'],
  },
  'GET /own/keys/:id': {
    summary: "Shows a key of a member's own",
    answer: Key,
    errors: ['no_team', 'key_not_found', 'key_ambiguous'],
  },
  'PATCH /own/keys/:id': {
    edits: true,
    summary: "Changes a key of a member's own",
    answer: Key,
    description: 'What an administrator has set (`ceilings`) can be lowered, and not raised or removed.',
    errors: [
      ...(['no_team', 'key_not_found', 'key_ambiguous', 'key_exists', 'key_revoked'] as const),
      ...(['too_many_keys', 'above_ceiling'] as const),
    ],
  },
  'POST /own/keys/:id/rotate': {
    summary: "Makes a new secret of a member's own key",
    answer: MadeKey,
    errors: ['no_team', 'key_not_found', 'key_ambiguous', 'key_revoked', 'key_expired'],
  },
  'POST /own/keys/:id/revoke': {
    summary: "Revokes a key of a member's own",
    answer: Key,
    errors: ['no_team', 'key_not_found', 'key_ambiguous'],
  },
} satisfies Words
