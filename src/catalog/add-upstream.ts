/**
 * Adds a provider: its upstream becomes the administrator's, its models, routes, and prices are `discovered`, so files
 * override them and refreshes update them.
 */
import { ServiceError } from '../domain/service-error.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { CLEARED, type Vault } from '../store/vault.ts'
import { type AddDetails, type Added, withModels } from './add-models.ts'
import { changeCatalog, type Decision, type EditBy, toState } from './change.ts'
import { requireSoundUpstream } from './check-edit.ts'
import type { DeclaredModel } from './complete.ts'
import { withEntry } from './edit.ts'
import { STORED } from './edit-upstream.ts'

export interface AddDeps {
  store: ConfigStore
  vault: Pick<Vault, 'seal' | 'requireCurrent'>
}

export type NewUpstream = Pick<UpstreamRow, 'id' | 'dialect' | 'baseUrl' | 'local' | 'options'>

/** A variable of the server's environment, or the credential, which is stored encrypted. */
export type NewCredential = { variable: string } | { credential: string } | null

export const toUpstreamRow = (wanted: NewUpstream, credential: NewCredential, nowMs: number): UpstreamRow => ({
  ...wanted,
  apiKeyRef: credential !== null && 'variable' in credential ? `\${${credential.variable}}` : null,
  ...{ enabled: true, deadlines: {}, origin: 'admin', createdMs: nowMs, updatedMs: nowMs },
})

/** @throws `invalid` with the field, and `upstream_exists`. */
export function requireNewUpstream({ upstreams }: { upstreams: readonly { id: string }[] }, row: UpstreamRow): void {
  requireSoundUpstream(row, (path) => path || 'base_url')
  if (upstreams.some(({ id }) => id === row.id))
    throw new ServiceError({ kind: 'upstream_exists', upstream: row.id }, `Upstream ${row.id} already exists.`)
}

/** @throws what `requireNewUpstream` does, and `secret_unusable`. */
export async function addUpstream(
  { store, vault }: AddDeps,
  wanted: { upstream: NewUpstream; credential: NewCredential; models: DeclaredModel[] },
  by: EditBy,
): Promise<Added> {
  const { credential, models } = wanted
  const row = toUpstreamRow(wanted.upstream, credential, by.nowMs)
  requireNewUpstream(await store.readCatalog(), row)
  const isTyped = credential !== null && 'credential' in credential
  // Planning must not create an encryption key.
  const sealed = !isTyped ? null : by.isPlan ? CLEARED : await vault.seal(credential.credential, row)
  return changeCatalog(
    store,
    by,
    { action: 'upstreams.create', subject: row.id },
    ({ layers, rows }): Decision<AddDetails> => {
      requireNewUpstream(rows, row)
      const found = withModels(toState(withEntry(layers, 'upstreams', row)), row.id, models, by.nowMs)
      if (sealed === null) return found
      vault.requireCurrent([sealed])
      const aside = { name: `upstreams.${row.id}`, origin: row.origin, before: {}, after: { api_key: STORED } }
      return { ...found, credentials: [{ id: row.id, sealed: [sealed] }], aside }
    },
  )
}
