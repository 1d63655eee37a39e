/** Passkeys, and signing in with one. */
import type {
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
} from '@simplewebauthn/server'
import { Type } from '@sinclair/typebox'
import { Passkey, SignedIn } from '../../documents/schemas/people.ts'
import type { Words } from './route-words.ts'

const NO_SESSION = { no_session: 403 }
const NOT_HERE = { no_passkeys_here: 409 }

const CreationOptions = Type.Unsafe<PublicKeyCredentialCreationOptionsJSON>(
  Type.Object({}, { description: 'For `PublicKeyCredential.parseCreationOptionsFromJSON()` of a browser.' }),
)
const RequestOptions = Type.Unsafe<PublicKeyCredentialRequestOptionsJSON>(
  Type.Object({}, { description: 'For `PublicKeyCredential.parseRequestOptionsFromJSON()` of a browser.' }),
)

export const PASSKEYS = {
  'GET /passkeys': {
    summary: "Lists one's own passkeys",
    answer: Type.Object({ passkeys: Type.Array(Passkey) }),
    ownErrors: NO_SESSION,
  },
  'POST /passkeys/options': {
    summary: 'Begins to add a passkey, for whoever knows their password',
    description:
      'What a browser asks an authenticator for; the answer sets a cookie that has to come back with what that says, within ten minutes. Passkeys need an address that is a name: one of --public-url, or localhost.',
    answer: Type.Object({ options: CreationOptions }),
    errors: ['password_off', 'sign_in_failed', 'too_many_passkeys', 'too_many_attempts'],
    ownErrors: { ...NO_SESSION, ...NOT_HERE },
  },
  'POST /passkeys': {
    summary: 'Adds the passkey that an authenticator has made',
    answer: Passkey,
    errors: ['password_off', 'challenge_ended', 'too_many_passkeys'],
    ownErrors: NO_SESSION,
  },
  'PATCH /passkeys/:id': {
    summary: "Renames one of one's own passkeys",
    answer: Passkey,
    errors: ['passkey_not_found'],
    ownErrors: NO_SESSION,
  },
  'DELETE /passkeys/:id': {
    summary: "Removes one of one's own passkeys: nobody signs in with it any more",
    answer: Passkey,
    errors: ['passkey_not_found'],
    ownErrors: NO_SESSION,
  },
  'POST /session/passkey/options': {
    summary: 'Begins to sign somebody in with a passkey',
    description:
      'What a browser asks authenticators for; the answer sets a cookie that has to come back with what one says, within ten minutes.',
    answer: Type.Object({ options: RequestOptions }),
    errors: ['password_off'],
    ownErrors: NOT_HERE,
  },
  'POST /session/passkey': {
    summary: 'Signs somebody in with a passkey',
    description: 'The answer sets the cookie of a session; the one that the browser had ends.',
    answer: SignedIn,
    errors: ['sign_in_failed', 'password_off', 'challenge_ended', 'too_many_attempts'],
  },
} satisfies Words
