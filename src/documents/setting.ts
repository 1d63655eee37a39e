/** A setting of a server, as the admin API answers. */
import { toVariableName } from '../config.ts'
import type { Setting } from '../settings/service.ts'

export const toSettingDocument = ({ name, text, place, byDefault, expected, stored, isPending }: Setting) => ({
  name,
  /** In force; null = none. */
  value: text,
  /** `flag`, `environment`, `setting` or `default`. */
  from: place,
  variable: toVariableName(name),
  default: byDefault,
  /** What its row says, which flag and environment go before. */
  stored,
  expected,
  /** Whether a change of the row holds from the next start on. */
  needs_restart: true,
  /** Whether the next start brings another value. */
  pending: isPending,
})
