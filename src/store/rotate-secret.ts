/**
 * Has every credential that was typed in sealed anew, by another secret. Whenever it is cut off, all that opened before opens still: the
 * new secret is in its file, beside the old one, before anything is sealed by it; all is sealed in one transaction; and the old
 * one is forgotten only after that. Done again, it goes on where it was cut off.
 */
import { ServiceError } from '../domain/service-error.ts'
import type { CatalogWrite } from './catalog-rows.ts'
import type { Actor, ConfigStore } from './config-store.ts'
import { takeNamedLock } from './sqlite/lock.ts'
import { CLEARED, isSealedBy, type Vault } from './vault.ts'

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
const MOST_ROUNDS = 10

const busy = () =>
  new ServiceError({ kind: 'secret_busy' }, 'It is being done already, or much is changed meanwhile. Try again.')

/** Throws `secret_unchanged`, `secret_busy`, `secret_unusable`. */
export async function rotateSecret(deps: RotateDeps, by: Actor): Promise<Rotated> {
  const { dataFolder, store, vault, onStep } = deps
  const { secret } = vault
  using cleanup = new DisposableStack()
  cleanup.defer(takeNamedLock(dataFolder, 'secret.lock', busy))
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
    if (rounds === MOST_ROUNDS) throw busy()
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
        write: { ...NOTHING, resealed },
      },
    }))
  }
  onStep?.('sealed')
  secret.forget()
  onStep?.('forgotten')
  return { credentials, unopened: [...unopened] }
}

const none = () => ({ create: [], update: [], delete: [] })
const NOTHING = { upstreams: none(), models: none(), routes: none(), aliases: none(), prices: [] }
