/** Finds the store for a URL. */
import { sqliteAt } from './sqlite/store.ts'
import type { Store, StoreOptions, StorePlace } from './store.ts'

const STORES: Readonly<Record<string, (place: string) => StorePlace>> = {
  sqlite: sqliteAt,
}

export const toStoreUrl = (dataFolder: string): string => `sqlite:${dataFolder}`

export const storeOf = (dataFolder: string): StorePlace => storeAt(toStoreUrl(dataFolder))

function storeAt(url: string): StorePlace {
  const end = url.indexOf(':')
  const find = STORES[url.slice(0, end)]
  if (find === undefined) throw new Error(`unknown store: ${url}`)
  return find(url.slice(end + 1))
}

/** See `StorePlace.open`. */
export const openStore = (url: string, options?: StoreOptions): Store => storeAt(url).open(options)
