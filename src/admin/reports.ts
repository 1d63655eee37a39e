/** What the admin API reads of the ledger. */

import type { Budget } from '../domain/settings.ts'
import type { Standing } from '../keys/standing.ts'

export interface Reports {
  /** How all keys, or all teams, stand; or the one of that id. Requests that have settled before are counted. */
  standings(kind: 'key' | 'team', id?: string): Promise<(owner: { id: string; budget: Budget | null }) => Standing>
}
