/** What the controllers of the admin API work with. */
import type { BackupShelf } from '../backup/shelf.ts'
import type { FileThread } from '../catalog/file-thread.ts'
import type { LocalServer } from '../catalog/providers.ts'
import type { LookUp } from '../catalog/remote.ts'
import type { ModelFile } from '../catalog/source.ts'
import type { OidcDeps } from '../identity/oidc.ts'
import type { PasskeyDeps } from '../identity/passkeys.ts'
import type { SignInDeps } from '../identity/sign-in.ts'
import type { Log } from '../log.ts'
import type { Actor, ConfigStore } from '../store/config-store.ts'
import type { RequestFilter } from '../store/report-store.ts'
import type { Rotated, Vault } from '../store/vault.ts'
import type { AccessDeps } from './access.ts'
import type { ChangeRate } from './change-rate.ts'
import type { LastingAsker, Reports } from './reports.ts'
import type { Serving } from './serving.ts'

export interface AdminDeps extends AccessDeps, Omit<SignInDeps, 'store'>, Pick<PasskeyDeps, 'pendingPasskeys'> {
  store: ConfigStore
  vault: Vault
  reports: Reports
  /** Null where nobody signs in through an identity provider. */
  oidc: Pick<OidcDeps, 'settings' | 'provider' | 'pending'> | null
  serving: Serving
  catalogFiles: FileThread
  /** Reads the files of models in the data folder. Throws `catalog_unreadable`. */
  loadModelFiles(): Promise<ModelFile[]>
  lookUp: LookUp
  thisMachine: ThisMachine
  facts: PublishedFacts
  live: LiveRequests
  backups: BackupShelf
  /** Where a request comes from, for people to read and attempts to be counted by. */
  addressOf(request: Request): string
  changes: ChangeRate
  /** Seals by a new secret what was typed in. Throws what `store/rotate-secret.ts` throws. */
  rotateSecret(by: Actor): Promise<Rotated>
  log: Log
}

/** Newer public facts. */
export interface PublishedFacts {
  /** Where they are read from. */
  source: string
  /** Throws `facts_unusable`. */
  read(): Promise<string>
}

/** What could be an upstream where the server runs. */
export interface ThisMachine {
  /** Asks the usual ports of loopback, within a second. Never throws. */
  findServers(): Promise<LocalServer[]>
  /** Whether a variable is set for the server. */
  isSet(variable: string): boolean
}

export interface LiveRequests {
  /**
   * Server-sent events of the requests that finish from now on, until the server stops, the asker has left or is let in no more. Null
   * where too many follow already.
   */
  follow(asker: LastingAsker, filter: RequestFilter, isLetIn: () => Promise<boolean>): Response | null
  /** The same for a command of the operator, which is told of more of them. */
  followByCommand(filter: RequestFilter, signal: AbortSignal): Response | null
  /** Has the connection of a request stay open, however long nothing is said on it. */
  keepOpen(request: Request): void
}
