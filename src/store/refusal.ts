/** Errors of a store that temporarily rejects writes. */
import { codeOf } from '../domain/error.ts'
import { isFullCode, reasonOfCode } from './sqlite/errors.ts'

/** The caller may retry later. */
export class StoreRefusal extends Error {
  /** `busy`: another writer; `full`: no space. */
  readonly reason: 'busy' | 'full' | 'broken'
  readonly code: string

  constructor(reason: StoreRefusal['reason'], cause: unknown) {
    super(String(cause), { cause })
    this.reason = reason
    this.code = codeOf(cause)
  }
}

export function refusalOf(error: unknown): StoreRefusal | null {
  if (error instanceof StoreRefusal) return error
  const reason = reasonOfCode(codeOf(error))
  return reason && new StoreRefusal(reason, error)
}

export const isDiskFull = (error: unknown): boolean =>
  isFullCode(codeOf(error)) || /^(ENOSPC|EDQUOT|EFBIG)/.test(codeOf(error))
