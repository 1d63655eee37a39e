/**
 * Sign-in through an identity provider: `/admin/api/oidc` sends a browser there, `/admin/api/oidc/callback` is where it comes back
 * to, from that other site. Both are opened by people, who read a page of what goes wrong. Where they go then is fixed.
 */
import { Elysia } from 'elysia'
import { beginOidc, endOidc } from '../identity/oidc/sign-in.ts'
import { access } from './access.ts'
import { endCookie, readCookie, toCookie } from './cookie.ts'
import type { AdminDeps } from './deps.ts'
import { AdminError } from './errors.ts'
import { orPage } from './refusal-page.ts'
import { toClient } from './session.ts'

/** A browser that is refused reads a page in place of JSON. */
const TO_ELSEWHERE = { responses: { 303: { description: 'Where to go on.' } } }
const CALLBACK = '/admin/api/oidc/callback'

export function oidcController(deps: AdminDeps) {
  const { identity, attempts, setupCode, now } = deps
  const requireOidc = () => {
    if (deps.oidc !== null) return { ...deps.oidc, ...{ store: identity, attempts, setupCode } }
    throw new AdminError(404, 'oidc_off', 'Nobody signs in through an identity provider here.')
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
          least: 'door',
          summary: 'Sends a browser to the identity provider, to sign in there',
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
          // The browser is on its way from another site still, and brings no strict cookie to the page: what that asks for, does.
          return seeOther('/admin', [toCookie('session', signedIn.secret, own), endCookie('signIn', own)])
        }),
      {
        route: {
          least: 'door',
          summary: 'Signs in who comes back from the identity provider, and sends them to the dashboard',
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
