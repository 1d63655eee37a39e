/** Between what is typed of a team and what the API takes. Pure. */
import type { TeamDocument } from '../../documents/key.ts'
import { NEW_SHARED, toChangedFields, toLimit, toSharedBody, toSharedValues, toText } from '../keys/shared-values.ts'

export const NEW_TEAM = { ...NEW_SHARED, max_keys: '10' }

export type TeamValues = typeof NEW_TEAM

export const toValues = (team: TeamDocument): TeamValues => ({
  ...toSharedValues(team),
  max_keys: toText(team.max_keys),
})

/** Throws a Refusal that names the field for what cannot be read. */
export const toBody = (values: TeamValues) => ({
  ...toSharedBody(values),
  max_keys: toLimit(values.max_keys, 'max_keys'),
})

/** What is said otherwise than it is. Throws a Refusal that names the field. */
export const toPatch = (values: TeamValues, before: TeamDocument) =>
  toChangedFields(toBody(values), toBody(toValues(before)))
