/** The doors of the dashboard, and the sessions behind them: `/admin/api/setup`, `/code`, `/session`, `/sessions`, `/password`. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { toSessionDocument } from '../documents/admin.ts'
import type { Principal } from '../identity/principal.ts'
import { endSession, listSessions } from '../identity/sessions.ts'
import { type Client, changePassword, isSetUp, type SignedIn, setUp, signIn, useCode } from '../identity/sign-in.ts'
import { access, requireSession } from './access.ts'
import { endCookie, toCookie } from './cookie.ts'
import type { AdminDeps } from './deps.ts'
import { type OwnOrigin, toRelyingParty } from './origins.ts'
import { exactly } from './schema.ts'

const Credentials = { name: Type.String({ maxLength: 200 }), password: Type.String({ maxLength: 1_000 }) }
const Code = Type.String({ maxLength: 100 })

const NOBODY = { name: null, role: null, has_password: false }

export function sessionController(deps: AdminDeps) {
  const { identity, now, ways } = deps
  const doors = { ...deps, store: identity }

  const enter = async (
    request: Request,
    own: OwnOrigin,
    principal: Principal,
    open: (client: Client, nowMs: number) => Promise<SignedIn>,
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
      { least: 'door' },
    )
    .post(
      '/setup',
      ({ request, visitor, principal, body }) =>
        enter(request, visitor.own, principal, (client, nowMs) => setUp(doors, body, client, nowMs)),
      { least: 'door', body: exactly({ ...Credentials, code: Code }) },
    )
    .post(
      '/session',
      ({ request, visitor, principal, body }) =>
        enter(request, visitor.own, principal, (client, nowMs) => signIn(doors, body, client, nowMs)),
      { least: 'door', body: exactly(Credentials) },
    )
    .post(
      '/code',
      ({ request, visitor, principal, body }) =>
        enter(request, visitor.own, principal, (client, nowMs) => useCode(doors, body, client, nowMs)),
      { least: 'door', body: exactly({ ...Credentials, code: Code }) },
    )
    .delete(
      '/session',
      async ({ visitor, principal }) => {
        const { id } = requireSession(principal)
        await endSession(identity, id, null, { actor: principal.id, nowMs: now() })
        return Response.json({ ended: true }, { headers: { 'set-cookie': endCookie('session', visitor.own) } })
      },
      { least: 'member' },
    )
    .get(
      '/sessions',
      async ({ principal }) => {
        const session = requireSession(principal)
        const sessions = await listSessions(identity, ownIdOf(principal), now())
        return { sessions: sessions.map((one) => toSessionDocument(one, session.id)) }
      },
      { least: 'member' },
    )
    .delete(
      '/sessions/:id',
      async ({ principal, params: { id } }) => {
        requireSession(principal)
        await endSession(identity, id, ownIdOf(principal) ?? null, { actor: principal.id, nowMs: now() })
        return { ended: true }
      },
      { least: 'member' },
    )
    .post(
      '/password',
      async ({ request, principal, body: { old, password } }) => {
        const change = { session: requireSession(principal), old, password }
        await changePassword(doors, change, deps.addressOf(request), { actor: principal.id, nowMs: now() })
        return { changed: true }
      },
      { least: 'member', body: exactly({ old: Credentials.password, password: Credentials.password }) },
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
