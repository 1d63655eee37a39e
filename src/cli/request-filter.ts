/** From the options of `requests list | tail` to what they mean: names become ids, times become ms. */
import { findKey, findTeam } from '../keys/find.ts'
import type { Configuration } from '../store/config-store.ts'
import { REQUEST_STATUSES, type RequestFilter, type RequestStatus, UNWELL } from '../store/request-store.ts'
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
}

/** Whoever asks without a key is on record under this id. */
const SYSTEM = 'system'

/**
 * @param rows that keys, teams and aliases are looked for in. What a model was called then is what counts, and it may be gone: it
 *   is not looked for.
 */
export function toFilter(
  flags: FilterFlags,
  rows: Pick<Configuration, 'keys' | 'teams' | 'aliases'>,
  nowMs: number,
): RequestFilter {
  const { key, team, model, upstream, user } = flags
  const filter: RequestFilter = {}
  if (key !== undefined) filter.keyId = key === SYSTEM ? SYSTEM : findKey(rows.keys, key, nowMs).id
  if (team !== undefined) filter.teamId = findTeam(rows.teams, team).id
  if (model !== undefined) filter.model = rows.aliases.find(({ alias }) => alias === model)?.model ?? model
  if (upstream !== undefined) filter.upstream = upstream
  if (user !== undefined) filter.user = user
  const statuses = toStatuses(flags)
  if (statuses) filter.statuses = statuses
  return filter
}

function toStatuses({ status, errors }: FilterFlags): RequestStatus[] | null {
  if (status === undefined) return errors ? [...UNWELL] : null
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
