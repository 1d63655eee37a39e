/** Sign-in, sessions, administrators and tokens. */
import { Type } from '@sinclair/typebox'
import { Count, Flag, TimeOrNull } from '../../documents/schemas/describes.ts'
import { Admin, Session, SignedIn, Token, Who } from '../../documents/schemas/people.ts'
import type { Words } from './route-words.ts'

const NO_SESSION = { no_session: 403 }
/** A browser that is refused reads a page in place of JSON. */
const TO_ELSEWHERE = { responses: { 303: { description: 'Where to go on.' } } }
const Ended = Type.Object({ ended: Flag })
const Coded = Type.Object({
  ...Admin.properties,
  code: Type.String({ description: 'Sets a password, once: shown in this answer alone.' }),
  code_expires_ms: TimeOrNull,
})

export const PEOPLE = {
  'GET /session': { summary: 'Tells who has signed in, and whether anybody can', answer: Who },
  'POST /setup': {
    summary: 'Makes the first owner, and signs them in',
    description:
      'By the code that the server has printed, or `tollgate admin code` prints. The answer sets the cookie of a session.',
    answer: SignedIn,
    errors: ['code_wrong', 'already_set_up', 'password_off', 'too_many_attempts'],
  },
  'POST /session': {
    summary: 'Signs somebody in with their password',
    description: 'The answer sets the cookie of a session; the one that the browser had ends.',
    answer: SignedIn,
    errors: ['sign_in_failed', 'password_off', 'too_many_attempts'],
  },
  'POST /code': {
    summary: 'Sets the password that an invitation or a reset is for, and signs them in',
    answer: SignedIn,
    errors: ['code_wrong', 'password_off', 'too_many_attempts'],
  },
  'GET /oidc': {
    summary: 'Sends a browser to the identity provider, to sign in there',
    answer: null,
    operation: TO_ELSEWHERE,
    errors: ['provider_unavailable', 'provider_wrong', 'too_many_attempts'],
    ownErrors: { oidc_off: 404 },
  },
  'GET /oidc/callback': {
    summary: 'Signs in who comes back from the identity provider, and sends them to the dashboard',
    answer: null,
    operation: TO_ELSEWHERE,
    errors: [
      ...(['sign_in_ended', 'sign_in_failed', 'provider_unavailable', 'provider_wrong', 'too_many_attempts'] as const),
      ...(['no_role', 'admin_exists', 'admin_disabled', 'invalid', 'team_not_found', 'team_ambiguous'] as const),
    ],
    ownErrors: { oidc_off: 404 },
  },
  'DELETE /session': {
    summary: 'Signs out',
    answer: Ended,
    errors: ['session_not_found'],
    ownErrors: NO_SESSION,
  },
  'GET /sessions': {
    summary: "Lists one's own sessions; an owner's list has everybody's",
    answer: Type.Object({ sessions: Type.Array(Session) }),
    ownErrors: NO_SESSION,
  },
  'DELETE /sessions/:id': {
    summary: 'Ends a session',
    answer: Ended,
    errors: ['session_not_found'],
    ownErrors: NO_SESSION,
  },
  'POST /password': {
    summary: "Changes one's own password; all other sessions end",
    answer: Type.Object({ changed: Flag }),
    errors: ['sign_in_failed', 'password_off', 'too_many_attempts'],
    ownErrors: NO_SESSION,
  },
  'GET /admins': {
    summary: 'Lists those who may sign in, disabled ones too',
    answer: Type.Object({ admins: Type.Array(Admin) }),
  },
  'POST /admins': {
    summary: 'Invites somebody, with a code that is good for a week',
    answer: Coded,
    errors: ['admin_exists', 'team_not_found', 'team_ambiguous'],
  },
  'PATCH /admins/:id': {
    edits: true,
    summary: "Changes somebody's role or team, disables or enables them",
    description:
      'Who is disabled loses their sessions, and keys of their own are revoked. A member who changes teams takes them along.',
    answer: Type.Object({ ...Admin.properties, keys_revoked: Count, keys_moved: Count }),
    errors: ['admin_not_found', 'last_owner', 'team_not_found', 'team_ambiguous'],
  },
  'POST /admins/:id/invite': {
    summary: 'Invites somebody once more who has not set a password yet: the code before ends',
    answer: Coded,
    errors: ['admin_not_found', 'invalid'],
  },
  'GET /tokens': { summary: 'Lists tokens for scripts', answer: Type.Object({ tokens: Type.Array(Token) }) },
  'POST /tokens': {
    summary: 'Makes a token',
    errors: ['token_exists'],
    answer: Type.Object({
      ...Token.properties,
      token: Type.String({ description: 'The whole of it: shown in this answer alone.' }),
    }),
  },
  'POST /tokens/:id/revoke': {
    summary: 'Revokes a token',
    answer: Token,
    errors: ['token_not_found', 'token_ambiguous'],
  },
} satisfies Words
