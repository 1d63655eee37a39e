/** From the options of `requests list | tail` to what the admin API is asked with. */
import { toDefined } from '../domain/changes.ts'
import { REQUEST_STATUSES } from '../domain/report-filters.ts'
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

export function toFilter({ key, team, model, upstream, user, errorCode, status, errors }: FilterFlags) {
  if (errors && status !== undefined) throw usageError('--errors and --status say the same: write one of them.')
  const statuses = status?.flatMap((text) => text.split(',')).map((text) => text.trim())
  const wrong = statuses?.find((text) => !REQUEST_STATUSES.some((known) => known === text))
  if (wrong !== undefined)
    throw usageError(`--status '${wrong}' is unknown: write ${REQUEST_STATUSES.join(', ')}, or several with commas.`)
  return toDefined({ key, team, model, upstream, user, error_code: errorCode, status: statuses?.join(','), errors })
}
