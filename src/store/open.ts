/** Opens the store that a URL names: the one place that knows which stores there are. */
import { openSqliteStore } from './sqlite/store.ts'
import type { Store } from './store.ts'

export interface StoreOptions {
  readonly?: boolean
  /** For one look, in a process that goes on: nothing of it is left once it is closed. */
  isLook?: boolean
}

const SQLITE = 'sqlite:'

/** The store of a data folder. */
export const toStoreUrl = (dataFolder: string): string => SQLITE + dataFolder

/** Opens a store for a command or a report. Throws a ServiceError where a server has not made one yet, or it is of another version. */
export function openStore(url: string, options: StoreOptions = {}): Store {
  if (url.startsWith(SQLITE)) return openSqliteStore(url.slice(SQLITE.length), options)
  throw new Error(`there is no store for ${url}`)
}
