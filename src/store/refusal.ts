/** Errors of a store that accepts nothing for now, independent of the database. */
import { codeOf } from '../domain/error.ts'
import { isFullCode, reasonOfCode } from './sqlite/errors.ts'

/** The store accepts nothing for now; the same may be tried again later. */
export class StoreRefusal extends Error {
  /** `busy`: another writer is active; `full`: no space; `broken`: anything else. */
  readonly reason: 'busy' | 'full' | 'broken'
  /** The database's error code. */
  readonly code: string

  constructor(reason: StoreRefusal['reason'], cause: unknown) {
    super(String(cause), { cause })
    this.reason = reason
    this.code = codeOf(cause)
  }
}

/** Null for other errors. */
export function refusalOf(error: unknown): StoreRefusal | null {
  if (error instanceof StoreRefusal) return error
  const reason = reasonOfCode(codeOf(error))
  return reason && new StoreRefusal(reason, error)
}

/** True if a copy failed because its disk is full. */
export const isDiskFull = (error: unknown): boolean =>
  isFullCode(codeOf(error)) || /^(ENOSPC|EDQUOT|EFBIG)/.test(codeOf(error))
