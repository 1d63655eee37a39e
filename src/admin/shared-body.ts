/** From a body's fields, named as columns are, to the changes of a key or a team. What is left out stays as it is. */
import { type Static, Type } from '@sinclair/typebox'
import type { Budget } from '../domain/limits.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { SharedChanges } from '../keys/shared-fields.ts'
import { exactly, Shared } from './schema.ts'

const Body = exactly({ ...Shared, name: Type.Optional(Type.String()) })

export function toSharedChanges(body: Static<typeof Body>): SharedChanges {
  const { rpm, tpm, budget_nano_usd: nanoUsd, budget_period: period, ...others } = body
  const changes: SharedChanges = { ...others }
  if (rpm !== undefined) changes.requestsPerMinute = rpm
  if (tpm !== undefined) changes.tokensPerMinute = tpm
  if (nanoUsd !== undefined || period !== undefined) changes.budget = toBudget(nanoUsd, period)
  return changes
}

/** Both or, for none, an amount of null. */
function toBudget(nanoUsd: number | null | undefined, period: Budget['period'] | undefined): Budget | null {
  if (nanoUsd === null) return null
  if (nanoUsd !== undefined && period !== undefined) return { nanoUsd, period }
  const message = 'A budget needs both budget_nano_usd and budget_period.'
  throw new ServiceError({ kind: 'invalid', field: 'budget' }, message)
}
