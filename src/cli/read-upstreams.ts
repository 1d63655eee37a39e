/** The catalogue's rows with the credentials that were typed in, as far as this user can open them. */
import { openStored } from '../store/vault.ts'
import { type Context, withStore } from './io.ts'

export const readUpstreams = (io: Context) =>
  withStore(io, { readonly: true }, async (store) => ({
    rows: await store.readCatalog(),
    opened: await openStored(store, io.dataFolder, io.environment),
  }))
