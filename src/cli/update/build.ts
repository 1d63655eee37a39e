/** Build information of this executable. A checkout has neither commit nor target. */
import { entries } from '../../../drizzle/meta/_journal.json'
import { version } from '../io.ts'

declare const TOLLGATE_COMMIT: string | undefined
declare const TOLLGATE_TARGET: string | undefined
declare const TOLLGATE_PUBLIC_KEYS: string | undefined
declare const TOLLGATE_UPDATE_URL: string | undefined

export interface Build {
  version: string
  /** Null if unknown. */
  commit: string | null
  /** Name of the newest migration. */
  schema: string
  /** Such as `linux-x64-musl`; null unless this is a release. */
  target: string | null
  bun: string
}

export const thisBuild = (): Build => ({
  version: version(),
  commit: (typeof TOLLGATE_COMMIT === 'string' && TOLLGATE_COMMIT) || null,
  schema: entries.at(-1)?.tag ?? '',
  target: (typeof TOLLGATE_TARGET === 'string' && TOLLGATE_TARGET) || null,
  bun: Bun.version,
})

/** Where releases come from, and minisign public keys that may sign them. */
export interface Publisher {
  /** Of `latest.json`; null if the build names none. */
  url: string | null
  keys: readonly string[]
}

export const thisPublisher = (): Publisher => ({
  url: (typeof TOLLGATE_UPDATE_URL === 'string' && TOLLGATE_UPDATE_URL) || null,
  keys: typeof TOLLGATE_PUBLIC_KEYS === 'string' ? TOLLGATE_PUBLIC_KEYS.split(/\s+/).filter(Boolean) : [],
})
