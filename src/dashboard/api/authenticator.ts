/** Passkey prompts by the browser; the WebAuthn library is loaded on first use. */
import type {
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
} from '@simplewebauthn/browser'
import { Refusal } from './refusal.ts'
import { takesPasskeys } from './session.ts'

/** True if this origin and browser support passkeys. */
export const hasPasskeys = (): boolean => takesPasskeys.value && 'PublicKeyCredential' in window

/** Call early: browsers prompt only within moments of a click. */
export const prepare = () => import('@simplewebauthn/browser')

/** @throws Refusal */
export const makePasskey = (optionsJSON: PublicKeyCredentialCreationOptionsJSON) =>
  asking(async () => (await prepare()).startRegistration({ optionsJSON }))

/** @throws Refusal */
export const usePasskey = (optionsJSON: PublicKeyCredentialRequestOptionsJSON) =>
  asking(async () => (await prepare()).startAuthentication({ optionsJSON }))

async function asking<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw new Refusal(toSentence(error), 'passkey')
  }
}

/** By the error names of the Web Authentication standard. */
function toSentence(error: unknown): string {
  const name = error instanceof Error ? error.name : ''
  if (name === 'InvalidStateError') return 'This device already has a passkey for your account.'
  if (name === 'ConstraintError' || name === 'NotSupportedError')
    return "This device can't store a passkey. Set up a PIN, fingerprint, or face unlock first."
  return 'No passkey was selected, or the request timed out. Try again.'
}
