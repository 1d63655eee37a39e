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
      { least: 'door' },
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
      { least: 'door' },
    )
}

function seeOther(location: string, cookies: readonly string[]): Response {
  const headers = new Headers({ location })
  for (const cookie of cookies) headers.append('set-cookie', cookie)
  return new Response(null, { status: 303, headers })
}
