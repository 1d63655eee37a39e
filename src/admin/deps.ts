/**
 * What the controllers of the admin API work with: the store, the ledger as it is read, and what the running server goes by.
 */
import type { BackupList } from '../backup/backup-list.ts'
import type { FileThread } from '../catalog/file-thread.ts'
import type { LocalServer } from '../catalog/providers.ts'
import type { LookUp } from '../catalog/remote.ts'
import type { ModelFile } from '../catalog/source.ts'
import type { SettingText } from '../config.ts'
import type { AuditPageDocument } from '../documents/audit.ts'
import type { ChargeDocument, RequestPageDocument } from '../documents/request.ts'
import type { StatusDocument } from '../documents/server.ts'
import type { UpstreamStatus, UpstreamTest } from '../documents/upstream.ts'
import type { FailuresDocument, UsageDocument } from '../documents/usage.ts'
import type { Budget } from '../domain/limits.ts'
import type { ListedModel } from '../domain/model-server.ts'
import type { Model } from '../domain/models.ts'
import type { Environment, Key, Snapshot } from '../domain/snapshot.ts'
import type { OidcDeps } from '../identity/oidc.ts'
import type { PasskeyDeps } from '../identity/passkeys.ts'
import type { SignInDeps } from '../identity/sign-in.ts'
import type { AuditOptions } from '../keys/audit-log.ts'
import type { SpendStatus } from '../keys/spend-status.ts'
import type { FailuresOptions } from '../ledger/failures.ts'
import type { WantedRequests } from '../ledger/report-filter.ts'
import type { ListOptions } from '../ledger/requests.ts'
import type { UsageOptions } from '../ledger/usage.ts'
import type { Log } from '../log.ts'
import type { Actor, ConfigStore } from '../store/config-store.ts'
import type { RequestFilter } from '../store/report-store.ts'
import type { Rotated, Vault } from '../store/vault.ts'
import type { AccessDeps } from './access.ts'
import type { ChangeRate } from './changes.ts'

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
  backups: BackupList
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
  /** Asks the usual ports of loopback, or these addresses, within a second. Never throws. */
  findServers(at?: readonly string[]): Promise<LocalServer[]>
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

export interface Serving {
  /** How it is doing. */
  status(): Promise<StatusDocument>
  /** What it was started with. */
  settings: readonly SettingText[]
  /** Every upstream that is enabled, with what is known of it; null where no server runs. */
  upstreams(): UpstreamStatus[] | null
  /** Where credentials are looked for that no running server knows of. */
  environment: Environment
  /** What requests go by now. */
  readSnapshot(): Promise<Snapshot>
  /** The models that a key of this team, itself without restrictions, is told of. */
  modelsOf(teamId: string): Model[]
  /** Asks an upstream now, at no cost; null where the server has none of that id that is enabled. */
  test(id: string): Promise<UpstreamTest | null>
  /** Asks an upstream which models it has; null where the server has none of that id that is enabled. Throws `list_failed`. */
  models(id: string): Promise<ListedModel[] | null>
  /** The key that an administrator's playground is metered by, in force or not; null where there is none yet. */
  playgroundKey(adminId: string): Key | null
  /** Answers a chat request as `/v1/chat/completions` does, by a key that needs no proof. Never throws. */
  chat(request: Request, headers: Readonly<Record<string, string | undefined>>, key: Key): Promise<Response>
  /** Takes in what was just changed: it holds, and is told of, from then on. */
  refresh(): Promise<void>
}

/** Who asks, and a signal that they wait no more. */
export interface Asker {
  /** Of an administrator or a token. */
  id: string
  /** Of a member who is told of requests of keys of their own alone; absent: of all. Standings and what was changed are not limited by it. */
  ownerId?: string
  signal?: AbortSignal
}

/** Who asks for an answer that lasts. */
export type LastingAsker = Required<Pick<Asker, 'id' | 'signal'>> & Pick<Asker, 'ownerId'>

/** A document as JSON text: it goes to whoever asked as it is, and the loop never goes through its rows. */
export type Json<Document> = string & { readonly holds?: Document }

/** A list of requests, with names in place of ids. */
export type WantedPage = WantedRequests & Pick<ListOptions, 'limit' | 'before' | 'sinceMs' | 'untilMs'>

export interface Reports {
  /** How all keys, or all teams, stand; or the one of that id. */
  spendStatuses(
    asker: Asker,
    kind: 'key' | 'team',
    id?: string,
  ): Promise<(owner: { id: string; budget: Budget | null }) => SpendStatus>
  /** Throws what `reportUsage` throws. */
  usage(asker: Asker, options: Omit<UsageOptions, 'limitMs'>): Promise<Json<UsageDocument>>
  /** Throws what `reportFailures` throws. */
  failures(asker: Asker, options: Omit<FailuresOptions, 'limitMs'>): Promise<Json<FailuresDocument>>
  /** Throws what `listRequests` and `toRequestFilter` throw. */
  requests(asker: Asker, wanted: WantedPage): Promise<Json<RequestPageDocument>>
  /** Throws what `findRequest` throws. */
  request(asker: Asker, id: string): Promise<Json<ChargeDocument>>
  /** Throws what `listAudit` throws. */
  audit(asker: Asker, options: AuditOptions): Promise<Json<AuditPageDocument>>
}

/** The answer that has a document. A typed client reads what it holds. */
export const toAnswer = <Document>(json: Json<Document>) =>
  new Response(json, { headers: { 'content-type': 'application/json' } }) as Document
