/** Finds the store that a URL names: the one place that knows which stores there are. */
import { sqliteAt } from './sqlite/store.ts'
import type { Store, StoreOptions, StorePlace } from './store.ts'

const STORES: Readonly<Record<string, (place: string) => StorePlace>> = {
  sqlite: sqliteAt,
}

/** Where the store of a data folder is. */
export const toStoreUrl = (dataFolder: string): string => `sqlite:${dataFolder}`

/** The store of a data folder. */
export const storeOf = (dataFolder: string): StorePlace => storeAt(toStoreUrl(dataFolder))

function storeAt(url: string): StorePlace {
  const end = url.indexOf(':')
  const find = STORES[url.slice(0, end)]
  if (find === undefined) throw new Error(`there is no store for ${url}`)
  return find(url.slice(end + 1))
}

/** Opens a store for a command or a report; see `StorePlace.open`. */
export const openStore = (url: string, options?: StoreOptions): Store => storeAt(url).open(options)
