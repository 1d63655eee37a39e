/**
 * What keeps passkeys: the device itself, a phone nearby, a stick. The browser asks it, and whoever sits there; what reads and writes that is
 * loaded when somebody first does.
 */
import type {
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
} from '@simplewebauthn/browser'
import { Refusal } from './refusal.ts'
import { takesPasskeys } from './session.ts'

/** Whether there can be passkeys at this address, in this browser. */
export const hasPasskeys = (): boolean => takesPasskeys.value && 'PublicKeyCredential' in window

/** Loads what it takes: browsers ask an authenticator only moments after somebody has pressed something. */
export const prepare = () => import('@simplewebauthn/browser')

/** Has an authenticator make a passkey. Throws a Refusal. */
export const makePasskey = (optionsJSON: PublicKeyCredentialCreationOptionsJSON) =>
  asking(async () => (await prepare()).startRegistration({ optionsJSON }))

/** Has an authenticator use one of those that it keeps. Throws a Refusal. */
export const usePasskey = (optionsJSON: PublicKeyCredentialRequestOptionsJSON) =>
  asking(async () => (await prepare()).startAuthentication({ optionsJSON }))

async function asking<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw new Refusal(toSentence(error), 'passkey')
  }
}

/** By the names that the Web Authentication standard gives to what goes wrong. */
function toSentence(error: unknown): string {
  const name = error instanceof Error ? error.name : ''
  if (name === 'InvalidStateError') return 'There is a passkey of yours on this device already.'
  if (name === 'ConstraintError' || name === 'NotSupportedError')
    return 'This device keeps no passkeys that know their owner: it needs a PIN, a finger or a face.'
  return 'Nothing came of it: no passkey was chosen, or it took too long.'
}
