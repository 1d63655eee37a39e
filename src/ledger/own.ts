/** What a member is told of the ledger: requests of keys of their own alone, whatever they ask for. Pure. */
import { ServiceError } from '../domain/service-error.ts'
import type { KeyRows } from '../store/config-store.ts'
import type { StoredRequest } from '../store/ledger-rows.ts'
import type { RequestReader } from '../store/request-store.ts'
import { toWholeId } from './requests.ts'

/** The keys that somebody has made for themselves, what their playground is metered by among them, and the teams of those. */
export function toOwnRows<Rows extends KeyRows>(rows: Rows, ownerId: string): Rows {
  const keys = rows.keys.filter((key) => key.ownerId === ownerId)
  return { ...rows, keys, teams: rows.teams.filter(({ id }) => keys.some(({ teamId }) => teamId === id)) }
}

/** The part of a filter that keeps it to these keys. */
export const toOwnFilter = ({ keys }: Pick<KeyRows, 'keys'>) => ({ ownKeys: keys.map(({ id }) => id) })

/** A request of one of these keys, by its whole id. Throws `request_not_found`, also where there is such a request of another key. */
export function findOwnRequest(
  reader: Pick<RequestReader, 'get'>,
  text: string,
  { keys }: Pick<KeyRows, 'keys'>,
): StoredRequest {
  const id = toWholeId(text)
  const found = id === null ? null : reader.get(id)
  if (found && keys.some(({ id }) => id === found.keyId)) return found
  const request = text.slice(0, 200)
  const message = `No key of yours has a request '${request}' on record: give its whole id.`
  throw new ServiceError({ kind: 'request_not_found', request }, message)
}
