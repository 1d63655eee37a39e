/**
 * Stored credentials and URLs of alert targets, encrypted with AES-256-GCM (NIST SP 800-38D) under a key of `secret.ts`, which backups have only on request.
 * Each decrypts only for its upstream and URL, or its target. Credentials are decrypted with the configuration, never per request.
 */
import { ServiceError } from '../domain/service-error.ts'
import type { Environment, OpenedCredential, OpenedCredentials } from '../domain/snapshot.ts'
import type { AlertStore } from './alert-store.ts'
import type { CatalogWrite, SealedCredential, UpstreamRow } from './catalog-rows.ts'
import type { Actor, ConfigStore } from './config-store.ts'
import { type CredentialBinding, toCredentialBinding } from './credential-binding.ts'
import { lockIn } from './data-folder.ts'
import { openSecret, type Secret, type SecretFile } from './secret.ts'

export type SealedFor = (CredentialBinding & Pick<UpstreamRow, 'id'>) | AlertPlace

/** An alert target. */
export interface AlertPlace {
  alert: string
}

export interface Vault {
  /** Creates a missing `secret`. Throws `secret_unusable`. */
  seal(credential: string, place: SealedFor): Promise<string>
  /** Throws `catalog_changed` if one must be encrypted again with the current key. */
  requireCurrent(sealed: readonly string[]): void
  /** Cached, even after the file is gone. */
  open(sealed: readonly SealedCredential[]): Promise<OpenedCredentials>
  /** null if encrypted with another key or for another target. Throws `secret_unusable`. */
  openFor(place: AlertPlace, sealed: string): Promise<string | null>
  readonly secret: SecretFile
}

/** The content of an upstream's revision. Includes stored credentials, so that no one replaces an unseen credential. */
export const toUpstreamState = (row: UpstreamRow, sealed: readonly SealedCredential[]) => ({
  ...row,
  credentials: sealed.flatMap((one) => (one.id === row.id ? [one.sealed] : [])),
})

/** The upstream's URL changed, so the credential must be entered again. */
export const CLEARED = ''

const NOT_GIVEN = 'its credential was removed when its address changed: enter it again'

export function createVault(dataFolder: string, environment: Environment = {}): Vault {
  const secret = openSecret(dataFolder, environment)
  /** By ciphertext and binding. */
  let known = new Map<string, string>()

  return {
    secret,
    async seal(credential, place) {
      const [first] = secret.need()
      if (!first)
        throw new ServiceError(
          { kind: 'secret_unusable', path: 'secret' },
          `The encryption key is missing: ${secret.where}.`,
        )
      const key = await toKey(first)
      const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
      const bytes = await crypto.subtle.encrypt(toParameters(iv, place), key, new TextEncoder().encode(credential))
      return `${VERSION}.${first.id}.${Buffer.concat([iv, new Uint8Array(bytes)]).toString('base64url')}`
    },
    requireCurrent(sealed) {
      const [first] = secret.read()
      if (sealed.every((text) => text === CLEARED || isSealedBy(text, first))) return
      throw new ServiceError({ kind: 'catalog_changed' }, 'The encryption key was rotated meanwhile. Try again.')
    },
    openFor: (place, sealed) => unseal(place, sealed, toKeys(secret)()),
    async open(all) {
      const next = new Map<string, string>()
      const keys = toKeys(secret)
      const openOne = async (one: SealedCredential): Promise<OpenedCredential> => {
        if (one.sealed === CLEARED) return { problem: NOT_GIVEN }
        const name = JSON.stringify([toPlaceText(one), one.sealed])
        try {
          const credential = known.get(name) ?? (await unseal(one, one.sealed, keys()))
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

const isSealedBy = (sealed: string, secret: Secret | undefined): boolean =>
  secret !== undefined && sealed.startsWith(`${VERSION}.${secret.id}.`)

const WRONG =
  "its credential can't be decrypted: it was encrypted with another file 'secret', or for another address. Restore that file, or enter the credential again"

const lower = (sentence: string) => sentence.replace(/^C/, 'c').replace(/\.$/, '')

export interface VaultState {
  /** Part of a sentence. */
  where: string
  /** null if there is none, or it is unreadable. */
  sealed_by: string | null
  credentials: number
  problems: { upstream: string; problem: string }[]
}

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

const toPlaceText = (place: SealedFor) =>
  JSON.stringify('alert' in place ? place : [place.id, ...toCredentialBinding(place)])

const toParameters = (iv: Uint8Array<ArrayBuffer>, place: SealedFor) => ({
  name: 'AES-GCM',
  iv,
  additionalData: new TextEncoder().encode(toPlaceText(place)),
})

type Keys = readonly { id: string; key: Promise<CryptoKey> }[]

/** Throws `secret_unusable`, also without keys. */
function toKeys(secret: SecretFile): () => Keys {
  let keys: Keys | null = null
  return () => {
    keys ??= secret.read().map((one) => ({ id: one.id, key: toKey(one) }))
    if (keys.length > 0) return keys
    throw new ServiceError(
      { kind: 'secret_unusable', path: 'secret' },
      `${secret.where.replace(/^the file /, '')}, the encryption key of stored credentials, is missing. Restore it, set TOLLGATE_SECRET as for the server, or enter the credentials again.`,
    )
  }
}

async function unseal(place: SealedFor, sealed: string, keys: Keys): Promise<string | null> {
  // Version 1 did not store the key's ID.
  const [version, second = '', third = ''] = sealed.split('.')
  if (version !== VERSION && version !== '1') return null
  const bytes = new Uint8Array(Buffer.from(version === '1' ? second : third, 'base64url'))
  const iv = bytes.slice(0, IV_BYTES)
  for (const { id, key } of keys) {
    if (version === VERSION && id !== second) continue
    try {
      const opened = await crypto.subtle.decrypt(toParameters(iv, place), await key, bytes.slice(IV_BYTES))
      return new TextDecoder().decode(opened)
    } catch {
      // Another key may fit.
    }
  }
  return null
}

/** Derived (HKDF, RFC 5869), so that the secret can have other uses. */
async function toKey({ bytes }: Secret): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey('raw', bytes, 'HKDF', false, ['deriveKey'])
  const info = new TextEncoder().encode('tollgate credentials of upstreams')
  const parameters = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info }
  return crypto.subtle.deriveKey(parameters, base, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt'])
}

export interface RotateDeps {
  dataFolder: string
  store: ConfigStore
  alerts: Pick<AlertStore, 'readTargets' | 'changeTargets'>
  vault: Vault
  /** True in a cluster, whose other nodes need the new key first. */
  isShared?: boolean
  /** For tests that stop between steps. */
  onStep?(step: 'renewed' | 'opened' | 'sealed' | 'forgotten'): unknown
}

export interface Rotated {
  credentials: number
  /** Upstreams whose credentials must be entered again. */
  unopened: string[]
  /** Names of alert targets that must be added again. */
  unopened_alerts: string[]
}

type Resealed = NonNullable<CatalogWrite['resealed']>[number]

/** Credentials keep being added. */
const MAX_ROUNDS = 10

const busy = () =>
  new ServiceError({ kind: 'secret_busy' }, 'A rotation is in progress, or credentials keep changing. Try again.')

/** Throws `secret_unchanged`, `secret_busy`, `secret_unusable`. */
export async function rotateSecret(deps: RotateDeps, by: Actor): Promise<Rotated> {
  const { dataFolder, store, alerts, vault, onStep } = deps
  const { secret } = vault
  if (deps.isShared && !secret.isVariable)
    throw new ServiceError(
      { kind: 'secret_unchanged' },
      "A node can't replace the encryption key of a cluster alone. Restart all nodes with the same new TOLLGATE_SECRET, keeping the file `secret`, then rotate.",
    )
  using cleanup = new DisposableStack()
  const unlock = lockIn(dataFolder, 'secret.lock')
  if (unlock === null) throw busy()
  cleanup.defer(unlock)
  const before = secret.read()
  if (before.length === 0)
    throw new ServiceError(
      { kind: 'secret_unchanged' },
      'No credentials are stored yet, so there is no encryption key to rotate.',
    )
  secret.renew()
  onStep?.('renewed')
  const [current, ...others] = secret.read()
  const isDone = (text: string) => text === CLEARED || isSealedBy(text, current)
  const all = [...(await store.readSealed()), ...(await alerts.readTargets())]
  if (others.length === 0 && all.every(({ sealed }) => isDone(sealed)))
    throw new ServiceError(
      { kind: 'secret_unchanged' },
      'All credentials are encrypted with TOLLGATE_SECRET already. To rotate it, move it to TOLLGATE_SECRET_PREVIOUS, set a new TOLLGATE_SECRET, and start the server with both.',
    )
  // Waits for writers that began before the new key existed.
  await store.changeSettings(by, () => ({ value: null, change: null }))
  let credentials = 0
  const unopened = new Set<string>()
  // The next round finds credentials written with the old key in between. Once the key is replaced, they are rejected.
  for (let rounds = 0; ; rounds++) {
    const left = (await store.readSealed()).filter(({ id, sealed }) => !isDone(sealed) && !unopened.has(id))
    if (left.length === 0) break
    if (rounds === MAX_ROUNDS) throw busy()
    const resealed: Resealed[] = []
    for (const one of left) {
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
  const targets = await resealTargets(deps, by, isDone)
  onStep?.('sealed')
  secret.forget()
  onStep?.('forgotten')
  return { credentials: credentials + targets.resealed, unopened: [...unopened], unopened_alerts: targets.unopened }
}

/** Later targets are encrypted with the current key: `requireCurrent` checks it when they are written. */
async function resealTargets({ alerts, vault }: RotateDeps, by: Actor, isDone: (sealed: string) => boolean) {
  const resealed: { id: string; before: string; sealed: string }[] = []
  const unopened: string[] = []
  for (const { id, name, sealed: before } of await alerts.readTargets()) {
    if (isDone(before)) continue
    const opened = await vault.openFor({ alert: id }, before)
    if (opened === null) unopened.push(name)
    else resealed.push({ id, before, sealed: await vault.seal(opened, { alert: id }) })
  }
  const detail = { name: 'alert targets', credentials: resealed.length }
  await alerts.changeTargets(by, () => ({
    value: null,
    change:
      resealed.length === 0 ? null : { action: 'database.reseal', subject: 'database', detail, write: { resealed } },
  }))
  return { resealed: resealed.length, unopened }
}
