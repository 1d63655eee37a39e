/**
 * Credentials of upstreams that administrators have typed in: sealed by AES-256-GCM (NIST SP 800-38D) under a key of the data folder's
 * file `secret`, which no backup has unless that is asked for. Each is sealed for its upstream and for where that is: in another
 * row, or after a change of the address, it does not open. Opened when the configuration is read, and never for a request.
 */
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { OpenedCredential, OpenedCredentials } from '../domain/snapshot.ts'
import type { SealedCredential, UpstreamRow } from './catalog-rows.ts'
import type { ConfigStore } from './config-store.ts'
import { syncPath } from './disk.ts'
import { type Place, toPlace } from './place.ts'

/** What a credential is sealed for. */
export type SealedFor = Place & Pick<UpstreamRow, 'id'>

export interface Vault {
  /** Makes the file `secret` where there is none. Throws `secret_unusable`. */
  seal(credential: string, place: SealedFor): Promise<string>
  /** Opens each, or says why it does not open. What was opened once stays so without the file. */
  open(sealed: readonly SealedCredential[]): Promise<OpenedCredentials>
}

/** Stands in the place of a credential that has lost its upstream's trust: it is to be typed in again. */
export const CLEARED = ''

const NOT_GIVEN = 'its credential was taken away when its address changed: type it in again'

export function createVault(dataFolder: string): Vault {
  const path = join(dataFolder, 'secret')
  /** By what is sealed and for what. */
  let known = new Map<string, string>()

  return {
    async seal(credential, place) {
      const key = await toKey(readSecret(path) ?? makeSecret(path, dataFolder))
      const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
      const bytes = await crypto.subtle.encrypt(toParameters(iv, place), key, new TextEncoder().encode(credential))
      return `${VERSION}.${Buffer.concat([iv, new Uint8Array(bytes)]).toString('base64url')}`
    },
    async open(all) {
      const next = new Map<string, string>()
      let key: CryptoKey | null = null
      const openOne = async (one: SealedCredential): Promise<OpenedCredential> => {
        if (one.sealed === CLEARED) return { problem: NOT_GIVEN }
        const name = JSON.stringify([toPlaceText(one), one.sealed])
        try {
          let credential = known.get(name)
          if (credential === undefined) {
            key ??= await toKey(requireSecret(path))
            credential = await unseal(one, key)
          }
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

const WRONG =
  "its credential does not open: it was sealed with another file 'secret', or for another address. Put that file back, or type it in again"

const lower = (sentence: string) => sentence.replace(/^T/, 't').replace(/\.$/, '')

/** For commands: opens what a store has. */
export const openStored = async (store: Pick<ConfigStore, 'readSealed'>, dataFolder: string) =>
  createVault(dataFolder).open(await store.readSealed())

const VERSION = '1'
const IV_BYTES = 12

const toPlaceText = (place: SealedFor) => JSON.stringify([place.id, ...toPlace(place)])

const toParameters = (iv: Uint8Array<ArrayBuffer>, place: SealedFor) => ({
  name: 'AES-GCM',
  iv,
  additionalData: new TextEncoder().encode(toPlaceText(place)),
})

async function unseal(one: SealedCredential, key: CryptoKey): Promise<string> {
  const [version, text = ''] = one.sealed.split('.')
  if (version !== VERSION) throw new Error('sealed by another version')
  const bytes = new Uint8Array(Buffer.from(text, 'base64url'))
  const iv = bytes.slice(0, IV_BYTES)
  const opened = await crypto.subtle.decrypt(toParameters(iv, one), key, bytes.slice(IV_BYTES))
  return new TextDecoder().decode(opened)
}

/** A key of its own (HKDF, RFC 5869): the same secret may have other uses one day. */
async function toKey(secret: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey('raw', secret, 'HKDF', false, ['deriveKey'])
  const info = new TextEncoder().encode('tollgate credentials of upstreams')
  const parameters = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info }
  return crypto.subtle.deriveKey(parameters, base, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt'])
}

const SECRET_BYTES = 32

/** Null where there is none. Throws `secret_unusable`. */
function readSecret(path: string): Uint8Array<ArrayBuffer> | null {
  let text: string
  try {
    text = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw unusable(path, `The file ${path} cannot be read: ${messageOf(error)}.`)
  }
  if (/^[\da-f]{64}$/.test(text)) return new Uint8Array(Buffer.from(text, 'hex'))
  throw unusable(path, `The file ${path} is not as Tollgate has made it. Put it back from a copy.`)
}

function requireSecret(path: string): Uint8Array<ArrayBuffer> {
  const secret = readSecret(path)
  if (secret !== null) return secret
  throw unusable(
    path,
    `The file ${path} is gone, with which credentials are opened. Put it back, or type them in again.`,
  )
}

/** Whole or not at all, and never over another one. */
function makeSecret(path: string, dataFolder: string): Uint8Array<ArrayBuffer> {
  const secret = crypto.getRandomValues(new Uint8Array(SECRET_BYTES))
  const part = `${path}.${process.pid}.part`
  try {
    rmSync(part, { force: true })
    writeFileSync(part, `${Buffer.from(secret).toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
    syncPath(part)
    linkSync(part, path)
    syncPath(dataFolder)
    return secret
  } catch (error) {
    // Another process was first.
    if (codeOf(error) === 'EEXIST') return requireSecret(path)
    throw unusable(path, `The file ${path} cannot be written: ${messageOf(error)}.`)
  } finally {
    rmSync(part, { force: true })
  }
}

const unusable = (path: string, message: string) => new ServiceError({ kind: 'secret_unusable', path }, message)
