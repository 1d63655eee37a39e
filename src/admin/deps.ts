/** Dependencies of the admin API's controllers. */
import type { BackupList } from '../backup/backup-list.ts'
import type { FileThread } from '../catalog/file-thread.ts'
import type { LocalServer } from '../catalog/providers.ts'
import type { LookUp } from '../catalog/remote.ts'
import type { ModelFile } from '../catalog/source.ts'
import type { Cluster } from '../cluster/cluster.ts'
import type { SettingText } from '../config.ts'
import type { AuditPageDocument } from '../documents/audit.ts'
import type { ChargeDocument, RequestPageDocument } from '../documents/request.ts'
import type { Reason, StatusDocument } from '../documents/server.ts'
import type { UpstreamStatus, UpstreamTest } from '../documents/upstream.ts'
import type { FailuresDocument, RefusalsDocument, UsageDocument } from '../documents/usage.ts'
import type { Budget } from '../domain/limits.ts'
import type { ListedModel } from '../domain/model-server.ts'
import type { Model } from '../domain/models.ts'
import type { Environment, Key, Snapshot } from '../domain/snapshot.ts'
import type { OtherEndpoint } from '../domain/task.ts'
import type { OidcDeps } from '../identity/oidc.ts'
import type { PasskeyDeps } from '../identity/passkeys.ts'
import type { SignInDeps } from '../identity/sign-in.ts'
import type { AuditOptions } from '../keys/audit-log.ts'
import type { SpendStatus } from '../keys/spend-status.ts'
import type { FailuresOptions } from '../ledger/failures.ts'
import type { Corrections } from '../ledger/reconcile/correct.ts'
import type { RefusalOptions } from '../ledger/refusal-report.ts'
import type { WantedRequests } from '../ledger/report-filter.ts'
import type { ListOptions } from '../ledger/requests.ts'
import type { UsageOptions } from '../ledger/usage.ts'
import type { Log } from '../log.ts'
import type { AlertStore } from '../store/alert-store.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import type { Actor, ConfigStore } from '../store/config-store.ts'
import type { RequestFilter } from '../store/report-store.ts'
import type { Rotated, Vault } from '../store/vault.ts'
import type { AccessDeps } from './access.ts'
import type { ChangeRate } from './changes.ts'
import type { ModelLists } from './model-lists.ts'
import type { createCsvExports } from './requests-csv.ts'

export interface AdminDeps extends AccessDeps, Omit<SignInDeps, 'store'>, Pick<PasskeyDeps, 'pendingPasskeys'> {
  store: ConfigStore
  /** Whether this server itself has TLS. */
  isSecure?: boolean
  alerts: AlertStore
  /** Starts or stops sending, after a change of targets. */
  alertsChanged(): void
  vault: Vault
  reports: Reports
  /** Null without SSO. */
  oidc: Pick<OidcDeps, 'settings' | 'provider' | 'pending'> | null
  serving: Serving
  catalogFiles: FileThread
  /** Reads model files of the data folder. Throws `catalog_unreadable`. */
  loadModelFiles(): Promise<ModelFile[]>
  lookUp: LookUp
  thisMachine: ThisMachine
  facts: PublishedFacts
  live: LiveRequests
  backups: BackupList
  corrections: Corrections
  /** Client address, for display and for counting attempts. */
  addressOf(request: Request): string
  changes: ChangeRate
  exportCsv: ReturnType<typeof createCsvExports>
  modelLists: ModelLists
  /** Re-encrypts stored credentials with a new key. Throws what `store/rotate-secret.ts` throws. */
  rotateSecret(by: Actor): Promise<Rotated>
  log: Log
}

/** Without what the admin API creates itself (`instance.ts`). */
export type GivenDeps = Omit<AdminDeps, 'changes' | 'modelLists' | 'exportCsv'>

export interface PublishedFacts {
  source: string
  /** Throws `facts_unusable`. */
  read(): Promise<string>
}

/** Discovery on the server's machine. */
export interface ThisMachine {
  /** Probes usual loopback ports, or these URLs, within a second. Never throws. */
  findServers(at?: readonly string[]): Promise<LocalServer[]>
  isSet(variable: string): boolean
}

export interface LiveRequests {
  /**
   * Server-sent events of finished requests until the server stops, the client disconnects, or access ends. Null if there are too many
   * followers.
   */
  follow(asker: LastingAsker, filter: RequestFilter, isLetIn: () => Promise<boolean>): Response | null
  /** For the operator's commands, with a higher rate. */
  followByCommand(filter: RequestFilter, signal: AbortSignal): Response | null
  /** Disables the idle timeout of a connection, or enables it again. */
  keepOpen(request: Request, isKept?: boolean): void
}

export interface Serving {
  status(): Promise<StatusDocument>
  /** Why its readiness is not `ok`. */
  reasons(): readonly Reason[]
  /** Null without one, or without a running server. */
  cluster:
    | (Pick<Cluster, 'state' | 'nodes' | 'drain' | 'remove'> & { postgres: Pick<Cluster['postgres'], 'server'> })
    | null
  /** Settings as of the server's start. */
  settings: readonly SettingText[]
  /** Enabled upstreams; null without a running server. */
  upstreams(): UpstreamStatus[] | null
  /** For credentials when no server is running. */
  environment: Environment
  readSnapshot(): Promise<Snapshot>
  /** Models available to an unrestricted key of this team. */
  modelsOf(teamId: string): Model[]
  /** Free health check; null if no enabled upstream has this ID. */
  test(id: string): Promise<UpstreamTest | null>
  /** Models the upstream lists; null if no enabled upstream has this ID. Throws `list_failed`. */
  models(id: string): Promise<ListedModel[] | null>
  /** Models that an upstream lists which isn't saved. Throws `list_failed`. @param typed its credentials, if typed */
  modelsAt(row: UpstreamRow, typed: readonly string[] | undefined): Promise<ListedModel[]>
  /** A user's playground key, active or not; null if there is none yet. */
  playgroundKey(adminId: string): Key | null
  /** Serves a request as its endpoint does, with a key that needs no secret. Never throws. @param upstream the only one to use */
  play(
    endpoint: 'chat' | OtherEndpoint,
    request: Request,
    headers: Readonly<Record<string, string | undefined>>,
    key: Key,
    upstream: string | null,
  ): Promise<Response>
  /** Reloads the snapshot after a change. */
  refresh(): Promise<void>
}

export interface Asker {
  /** Of a user or token. */
  id: string
  /** Limits requests and usage to keys of this member; spend status and audit log are not limited. */
  ownerId?: string
  signal?: AbortSignal
}

/** For long-lived responses. */
export type LastingAsker = Required<Pick<Asker, 'id' | 'signal'>> & Pick<Asker, 'ownerId'>

/** A document as JSON text, which is sent as it is, so that large ones don't block the event loop. */
export type Json<Document> = string & { readonly holds?: Document }

export type WantedPage = WantedRequests & Pick<ListOptions, 'limit' | 'before' | 'sinceMs' | 'untilMs'>

/** A part of a CSV file, without headings. */
export interface CsvPage {
  text: string
  rows: number
  /** `before` of the next part; null after the last. */
  next: string | null
}

export interface Reports {
  /** Spend status of all keys or teams, or of one. */
  spendStatuses(
    asker: Asker,
    kind: 'key' | 'team',
    id?: string,
  ): Promise<(owner: { id: string; budget: Budget | null }) => SpendStatus>
  /** Throws what `reportUsage` throws. */
  usage(asker: Asker, options: Omit<UsageOptions, 'limitMs'>): Promise<Json<UsageDocument>>
  /** Throws what `reportFailures` throws. */
  failures(asker: Asker, options: Omit<FailuresOptions, 'limitMs'>): Promise<Json<FailuresDocument>>
  /** Throws what `reportRefusals` throws. */
  refusals(asker: Asker, options: Omit<RefusalOptions, 'limitMs'>): Promise<Json<RefusalsDocument>>
  /** Throws what `listRequests` and `toRequestFilter` throw. */
  requests(asker: Asker, wanted: WantedPage): Promise<Json<RequestPageDocument>>
  /** Throws what `listRequests` and `toRequestFilter` throw. */
  requestsCsv(asker: Asker, wanted: WantedPage): Promise<CsvPage>
  /** Throws what `findRequest` throws. */
  request(asker: Asker, id: string): Promise<Json<ChargeDocument>>
  /** Throws what `listAudit` throws. */
  audit(asker: Asker, options: AuditOptions): Promise<Json<AuditPageDocument>>
}

export const toUsage = (json: Json<UsageDocument>) => JSON.parse(json) as UsageDocument
export const toUsageRows = (json: Json<UsageDocument>) => toUsage(json).usage

/** Response with a JSON document; typed as the document for the client. */
export const toAnswer = <Document>(json: Json<Document>) =>
  new Response(json, { headers: { 'content-type': 'application/json' } }) as Document

/** URL of the dashboard for links in messages; null without `--public-url`. */
export const toDashboard = (publicUrls: readonly string[]) =>
  publicUrls[0] === undefined ? null : `${publicUrls[0]}/admin`
