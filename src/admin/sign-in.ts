/**
 * Sign-in and sessions: `/admin/api/setup`, `/code`, `/session`, `/sessions`, `/password`; SSO: `/oidc` and `/oidc/callback`, which show
 * errors as a page, since browsers open them.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Flag } from '../documents/fields.ts'
import { Session, SignedIn, toSessionDocument, Who } from '../documents/people.ts'
import { beginOidc, endOidc } from '../identity/oidc.ts'
import { endSession, listSessions, type Principal } from '../identity/principal.ts'
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
import type { AdminDeps } from './deps.ts'
import { AdminError, toRefusal } from './errors.ts'
import { endCookie, type OwnOrigin, readCookie, toCookie, toRelyingParty } from './origins.ts'
import { exactly } from './schema.ts'

const Credentials = {
  name: Type.String({ maxLength: 200, description: 'User name.' }),
  password: Type.String({
    maxLength: 1_000,
    description: 'Password; the new one if this operation sets it.',
  }),
}
const Code = Type.String({ maxLength: 100, description: 'One-time code.' })
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
        const how = { sign_in_methods: ways, passkeys: ways.includes('password') && toRelyingParty(own) !== null }
        if (principal === null) return { ...NOBODY, is_set_up: isSetUp(await identity.readAdmins(), ways), ...how }
        const { name, role, hasPassword } = principal
        return { name, role, has_password: hasPassword, is_set_up: true, ...how }
      },
      { route: { least: 'anyone', summary: 'Get the current user and the sign-in methods', answer: Who } },
    )
    .post(
      '/setup',
      ({ request, visitor, principal, body }) =>
        enter(request, visitor.own, principal, (client, nowMs) => setUp(doors, body, client, nowMs)),
      {
        route: {
          least: 'anyone',
          summary: 'Create the first owner and sign in',
          description: 'Needs the code printed by the server or by `tollgate admin code`. Sets the session cookie.',
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
          least: 'anyone',
          summary: 'Sign in with a password',
          description: "Sets the session cookie and ends the browser's previous session.",
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
          least: 'anyone',
          summary: 'Set a password with an invitation or reset code, and sign in',
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
          summary: 'Sign out',
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
          summary: "List your sessions; owners see everyone's",
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
          summary: 'End a session',
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
          summary: 'Change your password. Ends all other sessions',
          answer: Type.Object({ changed: Flag }),
          errors: ['sign_in_failed', 'password_off', 'too_many_attempts'],
          ownErrors: NO_SESSION,
        },
        body: exactly({
          old: Type.String({ maxLength: 1_000, description: 'Current password.' }),
          password: Credentials.password,
        }),
      },
    )
}

export const toClient = (
  request: Request,
  { session }: Principal,
  { addressOf }: Pick<AdminDeps, 'addressOf'>,
): Client => ({
  address: addressOf(request),
  agent: request.headers.get('user-agent') ?? '',
  sessionId: session?.id ?? null,
})

/** Undefined for owners, who can see and end all sessions. */
const ownIdOf = ({ id, role }: Principal) => (role === 'owner' ? undefined : id)

/** Errors are a page for browsers. */
const TO_ELSEWHERE = { responses: { 303: { description: 'Redirect.' } } }
const CALLBACK = '/admin/api/oidc/callback'

export function oidcController(deps: AdminDeps) {
  const { identity, attempts, setupCode, now } = deps
  const requireOidc = () => {
    if (deps.oidc !== null) return { ...deps.oidc, ...{ store: identity, attempts, setupCode } }
    throw new AdminError(404, 'oidc_off', 'SSO is not configured on this server.')
  }

  return new Elysia({ name: 'oidc' })
    .use(access())
    .get(
      '/oidc',
      ({ request, visitor: { own }, principal }) =>
        orPage(request, async () => {
          const client = toClient(request, principal, deps)
          const { location, secret } = await beginOidc(requireOidc(), own.origin + CALLBACK, client, now())
          return seeOther(location.href, [toCookie('signIn', secret, own)])
        }),
      {
        route: {
          least: 'anyone',
          summary: 'Redirect to the identity provider to sign in',
          answer: null,
          operation: TO_ELSEWHERE,
          errors: ['provider_unavailable', 'provider_wrong', 'too_many_attempts'],
          ownErrors: { oidc_off: 404 },
        },
      },
    )
    .get(
      '/oidc/callback',
      ({ request, visitor: { own }, principal }) =>
        orPage(request, async () => {
          const secret = readCookie('signIn', request.headers, own)
          const cameBack = { secret, url: new URL(request.url) }
          const signedIn = await endOidc(requireOidc(), cameBack, toClient(request, principal, deps), now())
          // The redirect still counts as cross-site, so the page is loaded without the strict cookie; its API requests have it.
          return seeOther('/admin', [toCookie('session', signedIn.secret, own), endCookie('signIn', own)])
        }),
      {
        route: {
          least: 'anyone',
          summary: 'Complete sign-in with the identity provider and redirect to the dashboard',
          answer: null,
          operation: TO_ELSEWHERE,
          errors: [
            ...([
              'sign_in_ended',
              'sign_in_failed',
              'provider_unavailable',
              'provider_wrong',
              'too_many_attempts',
            ] as const),
            ...(['no_role', 'admin_exists', 'admin_disabled', 'invalid', 'team_not_found', 'team_ambiguous'] as const),
          ],
          ownErrors: { oidc_off: 404 },
        },
      },
    )
}

function seeOther(location: string, cookies: readonly string[]): Response {
  const headers = new Headers({ location })
  for (const cookie of cookies) headers.append('set-cookie', cookie)
  return new Response(null, { status: 303, headers })
}

/** Shows errors as a page to browsers, as JSON to scripts. */
async function orPage(request: Request, work: () => Promise<Response>): Promise<Response> {
  try {
    return await work()
  } catch (error) {
    const refusal = toRefusal(error)
    if (refusal === null || !(request.headers.get('accept') ?? '').includes('text/html')) throw error
    const { error: refused } = (await refusal.json()) as { error: { message: string } }
    return toPage(refusal.status, refused.message)
  }
}

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.45 system-ui, sans-serif }
body { max-width: 34rem; margin: 15vh auto; padding: 0 24px; background: light-dark(#fbfaf8, #12130f); color: light-dark(#1d1b16, #eceae2) }
h1 { font-size: 20px }
a { color: light-dark(#0b6b57, #4fc3a1) }
`

/** No scripts, and only its own style. The icon is empty: Firefox reports that the policy blocks /favicon.ico. */
const POLICY = `default-src 'none'; img-src data:; style-src 'sha256-${new Bun.CryptoHasher('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

const toPage = (status: number, message: string): Response =>
  new Response(
    `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sign-in failed · Tollgate</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
<main>
<h1>Sign-in failed</h1>
<p>${Bun.escapeHTML(message)}</p>
<p><a href="/admin">Back to the dashboard</a></p>
</main>
</html>
`,
    {
      status,
      headers: {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': POLICY,
      },
    },
  )
