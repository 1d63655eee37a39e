/** `/admin/api/passkeys` and sign-in with them, `/admin/api/session/passkey`, each in two steps: options, then the response. */
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Passkey, SignedIn, toPasskeyDocument } from '../documents/people.ts'
import {
  addPasskey,
  beginPasskey,
  beginPasskeySignIn,
  endPasskeySignIn,
  type RelyingParty,
  removePasskey,
  renamePasskey,
} from '../identity/passkeys.ts'
import { access, requireSession } from './access.ts'
import { actors } from './changes.ts'
import type { AdminDeps } from './deps.ts'
import { AdminError } from './errors.ts'
import { endCookie, type OwnOrigin, readCookie, toCookie, toRelyingParty } from './origins.ts'
import { exactly } from './schema.ts'
import { toClient } from './sign-in.ts'

const Name = Type.String({ maxLength: 200, description: 'Name of the passkey.' })
const Bytes = Type.String({ minLength: 1, pattern: '^[A-Za-z0-9_-]+$' })

const SAID = "The authenticator's response: `toJSON()` of the browser's `PublicKeyCredential`."

/** Allows unknown fields, since browsers may send more. */
const fromBrowser = <Json>(response: Record<string, ReturnType<typeof Type.String>>, more: object = {}) =>
  Type.Unsafe<Json>(
    Type.Object(
      {
        ...{ id: Bytes, rawId: Bytes, type: Type.Literal('public-key') },
        response: Type.Object({ ...response, ...more }),
      },
      { description: SAID },
    ),
  )

const Created = fromBrowser<RegistrationResponseJSON>(
  { clientDataJSON: Bytes, attestationObject: Bytes },
  { transports: Type.Optional(Type.Array(Type.String({ maxLength: 40 }), { maxItems: 10 })) },
)
const Used = fromBrowser<AuthenticationResponseJSON>({
  ...{ clientDataJSON: Bytes, authenticatorData: Bytes, signature: Bytes, userHandle: Bytes },
})

const CreationOptions = Type.Unsafe<PublicKeyCredentialCreationOptionsJSON>(
  Type.Object({}, { description: 'For `PublicKeyCredential.parseCreationOptionsFromJSON()` in the browser.' }),
)
const RequestOptions = Type.Unsafe<PublicKeyCredentialRequestOptionsJSON>(
  Type.Object({}, { description: 'For `PublicKeyCredential.parseRequestOptionsFromJSON()` in the browser.' }),
)
const NO_SESSION = { no_session: 403 }
const NOT_HERE = { no_passkeys_here: 409 }

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
      {
        route: {
          least: 'member',
          summary: 'List your passkeys',
          answer: Type.Object({ passkeys: Type.Array(Passkey) }),
          ownErrors: NO_SESSION,
        },
      },
    )
    .post(
      '/passkeys/options',
      async ({ request, visitor: { own }, principal, body: { password }, set }) => {
        const what = { session: requireSession(principal), password, party: requireParty(own) }
        const { options, secret } = await beginPasskey(passkeys, what, deps.addressOf(request), now())
        set.headers['set-cookie'] = toCookie('passkey', secret, own)
        return { options }
      },
      {
        route: {
          least: 'member',
          summary: 'Start adding a passkey',
          description:
            "Returns options for the authenticator and sets a cookie. Send both the authenticator's response and the cookie within ten minutes. Passkeys need a host name: one of --public-url, or localhost.",
          answer: Type.Object({ options: CreationOptions }),
          errors: ['password_off', 'sign_in_failed', 'too_many_passkeys', 'too_many_attempts'],
          ownErrors: { ...NO_SESSION, ...NOT_HERE },
        },
        body: exactly({ password: Type.String({ maxLength: 1_000, description: 'Current password.' }) }),
      },
    )
    .post(
      '/passkeys',
      async ({ request, visitor: { own }, principal, body, set }) => {
        const made = { ...body, secret: readCookie('passkey', request.headers, own) }
        const passkey = await addPasskey(passkeys, made, requireSession(principal), by(principal))
        set.headers['set-cookie'] = endCookie('passkey', own)
        return toPasskeyDocument(passkey)
      },
      {
        route: {
          least: 'member',
          summary: 'Add a passkey',
          answer: Passkey,
          errors: ['password_off', 'challenge_ended', 'too_many_passkeys'],
          ownErrors: NO_SESSION,
        },
        body: exactly({ name: Name, response: Created }),
      },
    )
    .patch(
      '/passkeys/:id',
      async ({ principal, params: { id }, body: { name } }) => {
        const { adminId } = requireSession(principal)
        return toPasskeyDocument(await renamePasskey(identity, id, name, adminId, by(principal)))
      },
      {
        route: {
          least: 'member',
          summary: 'Rename one of your passkeys',
          answer: Passkey,
          errors: ['passkey_not_found'],
          ownErrors: NO_SESSION,
        },
        body: exactly({ name: Name }),
      },
    )
    .delete(
      '/passkeys/:id',
      async ({ principal, params: { id } }) => {
        const { adminId } = requireSession(principal)
        return toPasskeyDocument(await removePasskey(identity, id, adminId, by(principal)))
      },
      {
        route: {
          least: 'member',
          summary: 'Remove one of your passkeys',
          answer: Passkey,
          errors: ['passkey_not_found'],
          ownErrors: NO_SESSION,
        },
      },
    )
    .post(
      '/session/passkey/options',
      async ({ request, visitor: { own }, set }) => {
        const address = deps.addressOf(request)
        const { options, secret } = await beginPasskeySignIn(passkeys, requireParty(own), address, now())
        set.headers['set-cookie'] = toCookie('passkey', secret, own)
        return { options }
      },
      {
        route: {
          least: 'anyone',
          summary: 'Start signing in with a passkey',
          description:
            "Returns options for the authenticator and sets a cookie. Send both the authenticator's response and the cookie within ten minutes.",
          answer: Type.Object({ options: RequestOptions }),
          errors: ['password_off'],
          ownErrors: NOT_HERE,
        },
      },
    )
    .post(
      '/session/passkey',
      async ({ request, visitor: { own }, principal, body: { response }, set }) => {
        const said = { response, secret: readCookie('passkey', request.headers, own) }
        const { admin, secret } = await endPasskeySignIn(passkeys, said, toClient(request, principal, deps), now())
        set.headers['set-cookie'] = [toCookie('session', secret, own), endCookie('passkey', own)]
        return { name: admin.name, role: admin.role }
      },
      {
        route: {
          least: 'anyone',
          summary: 'Sign in with a passkey',
          description: "Sets the session cookie and ends the browser's previous session.",
          answer: SignedIn,
          errors: ['sign_in_failed', 'password_off', 'challenge_ended', 'too_many_attempts'],
        },
        body: exactly({ response: Used }),
      },
    )
}

/** @throws `no_passkeys_here` */
function requireParty(own: OwnOrigin): RelyingParty {
  const party = toRelyingParty(own)
  if (party !== null) return party
  throw new AdminError(409, 'no_passkeys_here', ELSEWHERE)
}

const ELSEWHERE =
  'Passkeys need a host name, not an IP address. Start the server with --public-url https://HOST, or open the dashboard on the server at http://localhost:PORT.'
