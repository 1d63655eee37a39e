/**
 * What the admin API reads of the ledger, each as it is by now: requests that have settled before are in it. Answered on a thread
 * (`server/reports.ts`), where everybody who asks takes turns: whoever asks for too much at once is told so.
 */
import type { AuditPageDocument } from '../documents/audit.ts'
import type { ChargeDocument, RequestPageDocument } from '../documents/request.ts'
import type { FailuresDocument, UsageDocument } from '../documents/usage.ts'
import type { Budget } from '../domain/limits.ts'
import type { AuditOptions } from '../keys/audit-log.ts'
import type { Standing } from '../keys/standing.ts'
import type { FailuresOptions } from '../ledger/failures.ts'
import type { WantedRequests } from '../ledger/report-filter.ts'
import type { ListOptions } from '../ledger/requests.ts'
import type { UsageOptions } from '../ledger/usage.ts'

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
  standings(
    asker: Asker,
    kind: 'key' | 'team',
    id?: string,
  ): Promise<(owner: { id: string; budget: Budget | null }) => Standing>
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
