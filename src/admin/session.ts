/** The doors of the dashboard, and the sessions behind them: `/admin/api/setup`, `/code`, `/session`, `/sessions`, `/password`. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Flag } from '../documents/fields.ts'
import { Session, SignedIn, toSessionDocument, Who } from '../documents/people.ts'
import type { Principal } from '../identity/principal.ts'
import { endSession, listSessions } from '../identity/sessions.ts'
import {
  type Client,
  changePassword,
  isSetUp,
  type SignedIn as OpenedSession,
  setUp,
  signIn,
  useCode,
} from '../identity/sign-in.ts'
import { access, requireSession } from './access.ts'
import { endCookie, toCookie } from './cookie.ts'
import type { AdminDeps } from './deps.ts'
import { type OwnOrigin, toRelyingParty } from './origins.ts'
import { exactly } from './schema.ts'

const Credentials = {
  name: Type.String({ maxLength: 200, description: 'What they sign in with.' }),
  password: Type.String({
    maxLength: 1_000,
    description: 'The one to sign in with from now on, or at this door.',
  }),
}
const Code = Type.String({ maxLength: 100, description: 'Good for one use.' })
const Ended = Type.Object({ ended: Flag })
const NO_SESSION = { no_session: 403 }

const NOBODY = { name: null, role: null, has_password: false }

export function sessionController(deps: AdminDeps) {
  const { identity, now, ways } = deps
  const doors = { ...deps, store: identity }

  const enter = async (
    request: Request,
    own: OwnOrigin,
    principal: Principal,
    open: (client: Client, nowMs: number) => Promise<OpenedSession>,
  ) => {
    const { admin, secret } = await open(toClient(request, principal, deps), now())
    const { name, role } = admin
    return Response.json({ name, role }, { headers: { 'set-cookie': toCookie('session', secret, own) } })
  }

  return new Elysia({ name: 'session' })
    .use(access())
    .get(
      '/session',
      async ({ visitor: { own, principal } }) => {
        const how = { ways, passkeys: ways.includes('password') && toRelyingParty(own) !== null }
        if (principal === null) return { ...NOBODY, is_set_up: isSetUp(await identity.readAdmins(), ways), ...how }
        const { name, role, hasPassword } = principal
        return { name, role, has_password: hasPassword, is_set_up: true, ...how }
      },
      { route: { least: 'door', summary: 'Tells who has signed in, and whether anybody can', answer: Who } },
    )
    .post(
      '/setup',
      ({ request, visitor, principal, body }) =>
        enter(request, visitor.own, principal, (client, nowMs) => setUp(doors, body, client, nowMs)),
      {
        route: {
          least: 'door',
          summary: 'Makes the first owner, and signs them in',
          description:
            'By the code that the server has printed, or `tollgate admin code` prints. The answer sets the cookie of a session.',
          answer: SignedIn,
          errors: ['code_wrong', 'already_set_up', 'password_off', 'too_many_attempts'],
        },
        body: exactly({ ...Credentials, code: Code }),
      },
    )
    .post(
      '/session',
      ({ request, visitor, principal, body }) =>
        enter(request, visitor.own, principal, (client, nowMs) => signIn(doors, body, client, nowMs)),
      {
        route: {
          least: 'door',
          summary: 'Signs somebody in with their password',
          description: 'The answer sets the cookie of a session; the one that the browser had ends.',
          answer: SignedIn,
          errors: ['sign_in_failed', 'password_off', 'too_many_attempts'],
        },
        body: exactly(Credentials),
      },
    )
    .post(
      '/code',
      ({ request, visitor, principal, body }) =>
        enter(request, visitor.own, principal, (client, nowMs) => useCode(doors, body, client, nowMs)),
      {
        route: {
          least: 'door',
          summary: 'Sets the password that an invitation or a reset is for, and signs them in',
          answer: SignedIn,
          errors: ['code_wrong', 'password_off', 'too_many_attempts'],
        },
        body: exactly({ ...Credentials, code: Code }),
      },
    )
    .delete(
      '/session',
      async ({ visitor, principal }) => {
        const { id } = requireSession(principal)
        await endSession(identity, id, null, { actor: principal.id, nowMs: now() })
        return Response.json({ ended: true }, { headers: { 'set-cookie': endCookie('session', visitor.own) } })
      },
      {
        route: {
          least: 'member',
          summary: 'Signs out',
          answer: Ended,
          errors: ['session_not_found'],
          ownErrors: NO_SESSION,
        },
      },
    )
    .get(
      '/sessions',
      async ({ principal }) => {
        const session = requireSession(principal)
        const sessions = await listSessions(identity, ownIdOf(principal), now())
        return { sessions: sessions.map((one) => toSessionDocument(one, session.id)) }
      },
      {
        route: {
          least: 'member',
          summary: "Lists one's own sessions; an owner's list has everybody's",
          answer: Type.Object({ sessions: Type.Array(Session) }),
          ownErrors: NO_SESSION,
        },
      },
    )
    .delete(
      '/sessions/:id',
      async ({ principal, params: { id } }) => {
        requireSession(principal)
        await endSession(identity, id, ownIdOf(principal) ?? null, { actor: principal.id, nowMs: now() })
        return { ended: true }
      },
      {
        route: {
          least: 'member',
          summary: 'Ends a session',
          answer: Ended,
          errors: ['session_not_found'],
          ownErrors: NO_SESSION,
        },
      },
    )
    .post(
      '/password',
      async ({ request, principal, body: { old, password } }) => {
        const change = { session: requireSession(principal), old, password }
        await changePassword(doors, change, deps.addressOf(request), { actor: principal.id, nowMs: now() })
        return { changed: true }
      },
      {
        route: {
          least: 'member',
          summary: "Changes one's own password; all other sessions end",
          answer: Type.Object({ changed: Flag }),
          errors: ['sign_in_failed', 'password_off', 'too_many_attempts'],
          ownErrors: NO_SESSION,
        },
        body: exactly({
          old: Type.String({ maxLength: 1_000, description: 'The password until now.' }),
          password: Credentials.password,
        }),
      },
    )
}

/** Where a request comes from, with what, and the session that the browser has. */
export const toClient = (
  request: Request,
  { session }: Principal,
  { addressOf }: Pick<AdminDeps, 'addressOf'>,
): Client => ({
  address: addressOf(request),
  agent: request.headers.get('user-agent') ?? '',
  sessionId: session?.id ?? null,
})

/** An owner sees and ends everybody's. */
const ownIdOf = ({ id, role }: Principal) => (role === 'owner' ? undefined : id)
