/** Names of a request's fields, read out of its schema while the code is built: to make that schema takes a tenth of a start. */
import { toRequestNames } from './request-names.macro.ts' with { type: 'macro' }

const { fields, nullable, all } = toRequestNames()

/** Fields of the request itself. */
export const REQUEST_FIELDS: ReadonlySet<string> = new Set(fields)
/** Fields that some message may leave out. */
export const NULLABLE_OF_MESSAGES: ReadonlySet<string> = new Set(nullable)
/** All names that the schema knows, at whatever depth. */
export const REQUEST_NAMES: ReadonlySet<string> = new Set(all)
