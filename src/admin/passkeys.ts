/**
 * Passkeys: `/admin/api/passkeys` of one's own, and the door that they open, `/admin/api/session/passkey`. Each goes in two steps: what
 * a browser is to ask an authenticator for, and what that has said.
 */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { toPasskeyDocument } from '../documents/admin.ts'
import { addPasskey, beginPasskey, removePasskey, renamePasskey } from '../identity/passkeys/passkeys.ts'
import { beginPasskeySignIn, endPasskeySignIn } from '../identity/passkeys/sign-in.ts'
import type { RelyingParty } from '../identity/passkeys/verify.ts'
import { access, requireSession } from './access.ts'
import { actors } from './actor.ts'
import { endCookie, readCookie, toCookie } from './cookie.ts'
import type { AdminDeps } from './deps.ts'
import { AdminError } from './errors.ts'
import { type OwnOrigin, toRelyingParty } from './origins.ts'
import { exactly } from './schema.ts'
import { toClient } from './session.ts'

const Name = Type.String({ maxLength: 200 })
const Bytes = Type.String({ minLength: 1, pattern: '^[A-Za-z0-9_-]+$' })

/** As a browser's `toJSON()` has what an authenticator said: it may know of more, which is nothing to us. */
const fromBrowser = <Json>(response: Record<string, ReturnType<typeof Type.String>>, more: object = {}) =>
  Type.Unsafe<Json>(
    Type.Object({
      ...{ id: Bytes, rawId: Bytes, type: Type.Literal('public-key') },
      response: Type.Object({ ...response, ...more }),
    }),
  )

const Created = fromBrowser<RegistrationResponseJSON>(
  { clientDataJSON: Bytes, attestationObject: Bytes },
  { transports: Type.Optional(Type.Array(Type.String({ maxLength: 40 }), { maxItems: 10 })) },
)
const Used = fromBrowser<AuthenticationResponseJSON>({
  ...{ clientDataJSON: Bytes, authenticatorData: Bytes, signature: Bytes, userHandle: Bytes },
})

export function passkeysController(deps: AdminDeps) {
  const { identity, now } = deps
  const by = actors(deps)
  const passkeys = { ...deps, store: identity }

  return new Elysia({ name: 'passkeys' })
    .use(access())
    .get(
      '/passkeys',
      async ({ principal }) => {
        const { adminId } = requireSession(principal)
        return { passkeys: (await identity.readPasskeys(adminId)).map(toPasskeyDocument) }
      },
      { least: 'member' },
    )
    .post(
      '/passkeys/options',
      async ({ request, visitor: { own }, principal, body: { password }, set }) => {
        const what = { session: requireSession(principal), password, party: requireParty(own) }
        const { options, secret } = await beginPasskey(passkeys, what, deps.addressOf(request), now())
        set.headers['set-cookie'] = toCookie('passkey', secret, own)
        return { options }
      },
      { least: 'member', body: exactly({ password: Type.String({ maxLength: 1_000 }) }) },
    )
    .post(
      '/passkeys',
      async ({ request, visitor: { own }, principal, body, set }) => {
        const made = { ...body, secret: readCookie('passkey', request.headers, own) }
        const passkey = await addPasskey(passkeys, made, requireSession(principal), by(principal))
        set.headers['set-cookie'] = endCookie('passkey', own)
        return toPasskeyDocument(passkey)
      },
      { least: 'member', body: exactly({ name: Name, response: Created }) },
    )
    .patch(
      '/passkeys/:id',
      async ({ principal, params: { id }, body: { name } }) => {
        const { adminId } = requireSession(principal)
        return toPasskeyDocument(await renamePasskey(identity, id, name, adminId, by(principal)))
      },
      { least: 'member', body: exactly({ name: Name }) },
    )
    .delete(
      '/passkeys/:id',
      async ({ principal, params: { id } }) => {
        const { adminId } = requireSession(principal)
        return toPasskeyDocument(await removePasskey(identity, id, adminId, by(principal)))
      },
      { least: 'member' },
    )
    .post(
      '/session/passkey/options',
      ({ request, visitor: { own }, set }) => {
        const address = deps.addressOf(request)
        const { options, secret } = beginPasskeySignIn(passkeys, requireParty(own), address, now())
        set.headers['set-cookie'] = toCookie('passkey', secret, own)
        return { options }
      },
      { least: 'door' },
    )
    .post(
      '/session/passkey',
      async ({ request, visitor: { own }, principal, body: { response }, set }) => {
        const said = { response, secret: readCookie('passkey', request.headers, own) }
        const { admin, secret } = await endPasskeySignIn(passkeys, said, toClient(request, principal, deps), now())
        set.headers['set-cookie'] = [toCookie('session', secret, own), endCookie('passkey', own)]
        return { name: admin.name, role: admin.role }
      },
      { least: 'door', body: exactly({ response: Used }) },
    )
}

/** Throws `no_passkeys_here`. */
function requireParty(own: OwnOrigin): RelyingParty {
  const party = toRelyingParty(own)
  if (party !== null) return party
  throw new AdminError(409, 'no_passkeys_here', ELSEWHERE)
}

const ELSEWHERE =
  'Browsers have passkeys for names alone, not for addresses of numbers. Start the server with --public-url https://NAME, or open the dashboard on its own machine at http://localhost and its port.'
