/** A store that takes nothing, whatever it is asked: in no database's words. */
import { codeOf } from '../domain/error.ts'
import { isFullCode, reasonOfCode } from './sqlite/errors.ts'

/** The store as a whole takes nothing at the moment: locked, full, broken. What it was given may be given again. */
export class StoreRefusal extends Error {
  /** `busy`: another writer is at work; `full`: there is no room; `broken`: anything else. */
  readonly reason: 'busy' | 'full' | 'broken'
  /** The store's own word for it. */
  readonly code: string

  constructor(reason: StoreRefusal['reason'], cause: unknown) {
    super(String(cause), { cause })
    this.reason = reason
    this.code = codeOf(cause)
  }
}

/** What a store refused, where that is what was thrown; null for anything else. */
export function refusalOf(error: unknown): StoreRefusal | null {
  if (error instanceof StoreRefusal) return error
  const reason = reasonOfCode(codeOf(error))
  return reason && new StoreRefusal(reason, error)
}

/** Whether a copy failed because its disk got full meanwhile. */
export const isDiskFull = (error: unknown): boolean =>
  isFullCode(codeOf(error)) || /^(ENOSPC|EDQUOT|EFBIG)/.test(codeOf(error))
