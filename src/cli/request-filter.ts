/** From the options of `requests list | tail` to what they mean. */
import { toDefined } from '../domain/changes.ts'
import { REQUEST_STATUSES, type RequestStatus, UNWELL } from '../domain/report-filters.ts'
import { toRequestFilter } from '../ledger/report-filter.ts'
import type { Configuration } from '../store/config-store.ts'
import type { RequestFilter } from '../store/report-store.ts'
import { usageError } from './command-error.ts'

/** As they stand on the command line. */
export interface FilterFlags {
  key?: string
  team?: string
  model?: string
  upstream?: string
  status?: string[]
  errors?: boolean
  user?: string
  errorCode?: string
}

export function toFilter(
  { key, team, model, upstream, user, errorCode, status, errors }: FilterFlags,
  rows: Pick<Configuration, 'keys' | 'teams' | 'aliases'>,
  nowMs: number,
): RequestFilter {
  const statuses = toStatuses(status, errors)
  return toRequestFilter(toDefined({ key, team, model, upstream, user, errorCode, statuses }), rows, nowMs)
}

function toStatuses(status?: readonly string[], errors?: boolean): readonly RequestStatus[] | undefined {
  if (status === undefined) return errors ? UNWELL : undefined
  if (errors) throw usageError('--errors and --status say the same: write one of them.')
  return status
    .flatMap((text) => text.split(','))
    .map((text) => {
      const known = REQUEST_STATUSES.find((one) => one === text.trim())
      if (known === undefined)
        throw usageError(`--status '${text}' is unknown: write ${REQUEST_STATUSES.join(', ')}, or several with commas.`)
      return known
    })
}
