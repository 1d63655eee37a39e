/**
 * Credentials of upstreams that administrators have typed in: sealed by AES-256-GCM (NIST SP 800-38D) under a key of `secret.ts`, which
 * no backup has unless that is asked for. Each is sealed for its upstream and for where that is: in another
 * row, or after a change of the address, it does not open. Opened when the configuration is read, and never for a request.
 */
import { ServiceError } from '../domain/service-error.ts'
import type { Environment, OpenedCredential, OpenedCredentials } from '../domain/snapshot.ts'
import type { CatalogWrite, SealedCredential, UpstreamRow } from './catalog-rows.ts'
import type { Actor, ConfigStore } from './config-store.ts'
import { type CredentialBinding, toCredentialBinding } from './credential-binding.ts'
import { lockIn } from './data-folder.ts'
import { openSecret, type Secret, type SecretFile } from './secret.ts'

/** What a credential is sealed for. */
export type SealedFor = CredentialBinding & Pick<UpstreamRow, 'id'>

export interface Vault {
  /** Makes the file `secret` where there is none. Throws `secret_unusable`. */
  seal(credential: string, place: SealedFor): Promise<string>
  /** Throws `catalog_changed` where one was sealed by what does not seal any more: whoever writes it now has to seal it again. */
  requireCurrent(sealed: readonly string[]): void
  /** Opens each, or says why it does not open. What was opened once stays so without the file. */
  open(sealed: readonly SealedCredential[]): Promise<OpenedCredentials>
  readonly secret: SecretFile
}

/** Stands in the place of a credential that has lost its upstream's trust: it is to be typed in again. */
export const CLEARED = ''

const NOT_GIVEN = 'its credential was taken away when its address changed: type it in again'

/** @param environment says whether a variable has the secret. */
export function createVault(dataFolder: string, environment: Environment = {}): Vault {
  const secret = openSecret(dataFolder, environment)
  /** By what is sealed and for what. */
  let known = new Map<string, string>()

  return {
    secret,
    async seal(credential, place) {
      const [first] = secret.need()
      if (!first) throw new ServiceError({ kind: 'secret_unusable', path: 'secret' }, `${secret.where} is gone.`)
      const key = await toKey(first)
      const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
      const bytes = await crypto.subtle.encrypt(toParameters(iv, place), key, new TextEncoder().encode(credential))
      return `${VERSION}.${first.id}.${Buffer.concat([iv, new Uint8Array(bytes)]).toString('base64url')}`
    },
    requireCurrent(sealed) {
      const [first] = secret.read()
      if (sealed.every((text) => text === CLEARED || isSealedBy(text, first))) return
      throw new ServiceError({ kind: 'catalog_changed' }, 'What seals credentials was changed meanwhile. Try again.')
    },
    async open(all) {
      const next = new Map<string, string>()
      const keys = toKeys(secret)
      const openOne = async (one: SealedCredential): Promise<OpenedCredential> => {
        if (one.sealed === CLEARED) return { problem: NOT_GIVEN }
        const name = JSON.stringify([toPlaceText(one), one.sealed])
        try {
          const credential = known.get(name) ?? (await unseal(one, keys()))
          if (credential === null) return { problem: WRONG }
          next.set(name, credential)
          return { credential }
        } catch (error) {
          return { problem: error instanceof ServiceError ? lower(error.message) : WRONG }
        }
      }
      const opened = new Map<string, OpenedCredential[]>()
      for (const one of all) opened.getOrInsertComputed(one.id, () => []).push(await openOne(one))
      known = next
      return opened
    },
  }
}

/** Whether it is what seals now that has sealed it. */
const isSealedBy = (sealed: string, secret: Secret | undefined): boolean =>
  secret !== undefined && sealed.startsWith(`${VERSION}.${secret.id}.`)

const WRONG =
  "its credential does not open: it was sealed with another file 'secret', or for another address. Put that file back, or type it in again"

const lower = (sentence: string) => sentence.replace(/^T(?!OLL)/, 't').replace(/\.$/, '')

/** How credentials that were typed in stand before one process, by its own environment. */
export interface VaultState {
  /** What seals, and opens, in words that go on a sentence. */
  where: string
  /** By which what it seals is known; null where there is none yet, or it cannot be read. */
  sealed_by: string | null
  credentials: number
  /** Those that do not open. */
  problems: { upstream: string; problem: string }[]
}

/** Opens all of them anew, whatever was opened before. */
export async function inspectVault(
  store: Pick<ConfigStore, 'readSealed'>,
  dataFolder: string,
  environment: Environment,
): Promise<VaultState> {
  const { secret, open } = createVault(dataFolder, environment)
  const opened = await open(await store.readSealed())
  const all = [...opened].flatMap(([upstream, each]) => each.map((one) => ({ upstream, ...one })))
  const problems = all.flatMap((one) => ('problem' in one ? { upstream: one.upstream, problem: one.problem } : []))
  return { where: secret.where, sealed_by: toIdOf(secret), credentials: all.length, problems }
}

function toIdOf(secret: SecretFile): string | null {
  try {
    return secret.read()[0]?.id ?? null
  } catch (error) {
    if (error instanceof ServiceError) return null
    throw error
  }
}

const VERSION = '2'
const IV_BYTES = 12

const toPlaceText = (place: SealedFor) => JSON.stringify([place.id, ...toCredentialBinding(place)])

const toParameters = (iv: Uint8Array<ArrayBuffer>, place: SealedFor) => ({
  name: 'AES-GCM',
  iv,
  additionalData: new TextEncoder().encode(toPlaceText(place)),
})

type Keys = readonly { id: string; key: Promise<CryptoKey> }[]

/** Those that open, read when the first is wanted. Throws `secret_unusable`, also where there is none. */
function toKeys(secret: SecretFile): () => Keys {
  let keys: Keys | null = null
  return () => {
    keys ??= secret.read().map((one) => ({ id: one.id, key: toKey(one) }))
    if (keys.length > 0) return keys
    throw new ServiceError(
      { kind: 'secret_unusable', path: 'secret' },
      `The file ${secret.where.replace(/^the file /, '')} is gone, with which credentials are opened. Put it back, give TOLLGATE_SECRET as the server has it, or type them in again.`,
    )
  }
}

/** Null where none of the keys opens it. */
async function unseal(one: SealedCredential, keys: Keys): Promise<string | null> {
  // The first version did not say which one had sealed it.
  const [version, second = '', third = ''] = one.sealed.split('.')
  if (version !== VERSION && version !== '1') return null
  const bytes = new Uint8Array(Buffer.from(version === '1' ? second : third, 'base64url'))
  const iv = bytes.slice(0, IV_BYTES)
  for (const { id, key } of keys) {
    if (version === VERSION && id !== second) continue
    try {
      const opened = await crypto.subtle.decrypt(toParameters(iv, one), await key, bytes.slice(IV_BYTES))
      return new TextDecoder().decode(opened)
    } catch {
      // Another one may.
    }
  }
  return null
}

/** A key of its own (HKDF, RFC 5869): the same secret may have other uses one day. */
async function toKey({ bytes }: Secret): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey('raw', bytes, 'HKDF', false, ['deriveKey'])
  const info = new TextEncoder().encode('tollgate credentials of upstreams')
  const parameters = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info }
  return crypto.subtle.deriveKey(parameters, base, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt'])
}

export interface RotateDeps {
  dataFolder: string
  store: ConfigStore
  vault: Vault
  /** Called between its steps: for tests, which end it there. */
  onStep?(step: 'renewed' | 'opened' | 'sealed' | 'forgotten'): unknown
}

export interface Rotated {
  /** How many were sealed anew. */
  credentials: number
  /** Upstreams whose credentials did not open, and are to be typed in again. */
  unopened: string[]
}

type Resealed = NonNullable<CatalogWrite['resealed']>[number]

/** Somebody types in one after the other all the time. */
const MAX_ROUNDS = 10

const busy = () =>
  new ServiceError({ kind: 'secret_busy' }, 'It is being done already, or much is changed meanwhile. Try again.')

/** Throws `secret_unchanged`, `secret_busy`, `secret_unusable`. */
export async function rotateSecret(deps: RotateDeps, by: Actor): Promise<Rotated> {
  const { dataFolder, store, vault, onStep } = deps
  const { secret } = vault
  using cleanup = new DisposableStack()
  const unlock = lockIn(dataFolder, 'secret.lock')
  if (unlock === null) throw busy()
  cleanup.defer(unlock)
  const before = secret.read()
  if (before.length === 0)
    throw new ServiceError({ kind: 'secret_unchanged' }, 'Nothing was typed in yet: there is no secret to replace.')
  secret.renew()
  onStep?.('renewed')
  const [current, ...others] = secret.read()
  const isDone = (text: string) => text === CLEARED || isSealedBy(text, current)
  if (others.length === 0 && (await store.readSealed()).every(({ sealed }) => isDone(sealed)))
    throw new ServiceError(
      { kind: 'secret_unchanged' },
      'TOLLGATE_SECRET is what seals already. Put a new one there, and this one into TOLLGATE_SECRET_PREVIOUS, and start the server with both.',
    )
  // Who writes what the old secret has sealed, and began before there was another one, has written it down after this.
  await store.changeSettings(by, () => ({ value: null, change: null }))
  let credentials = 0
  const unopened = new Set<string>()
  // What others write meanwhile by the old secret is found the next time round; once it is replaced, they are refused.
  for (let rounds = 0; ; rounds++) {
    const all = (await store.readSealed()).filter(({ id, sealed }) => !isDone(sealed) && !unopened.has(id))
    if (all.length === 0) break
    if (rounds === MAX_ROUNDS) throw busy()
    const resealed: Resealed[] = []
    for (const one of all) {
      const [opened] = (await vault.open([one])).get(one.id) ?? []
      if (opened === undefined || !('credential' in opened)) unopened.add(one.id)
      else resealed.push({ ...one, before: one.sealed, sealed: await vault.seal(opened.credential, one) })
    }
    onStep?.('opened')
    credentials += resealed.length
    await store.changeCatalog(by, () => ({
      value: null,
      change: {
        ...{
          action: 'database.reseal',
          subject: 'database',
          detail: { name: 'credentials', credentials: resealed.length },
        },
        write: { resealed },
      },
    }))
  }
  onStep?.('sealed')
  secret.forget()
  onStep?.('forgotten')
  return { credentials, unopened: [...unopened] }
}
