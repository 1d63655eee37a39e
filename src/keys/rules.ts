/** What a key or a team may be called, limited to and restricted to, whoever asks for it. Pure. */
import { toIpRange, toIpRangeText } from '../domain/ip.ts'
import { type Budget, type Limits, MAX_LIMIT } from '../domain/limits.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isVisible } from '../domain/text.ts'

/** A name of a key, a team or a token. One with invisible characters could be shown, but not typed; two with spaces around them look alike. */
export const isName = (text: string) => text !== '' && text.length <= 200 && text === text.trim() && isVisible(text)

export const NAME_RULE = 'must have 1 to 200 characters, none of them invisible, and no spaces around it'

/** A pattern of an allow-list, such as `openai/*`. */
export const isPattern = (text: string) => /^\S{1,200}$/.test(text)

/** Each name of a list of models is compared with all of them: with more, one key's lists would take other keys' time. */
const MOST_PATTERNS = 200

/** How much may be noted beside a key or a team; the numbers are those of `metadata` in OpenAI's API reference. */
const METADATA = { pairs: 16, name: 64, value: 512 }

const isMetadataName = (text: string) => /^[^\s=\p{Cc}]+$/u.test(text) && text.length <= METADATA.name

export interface CheckedOptions extends Partial<Limits> {
  name?: string
  models?: string[]
  allowedIps?: string[]
  budget?: Budget | null
  maxKeys?: number | null
  expiresMs?: number | null
  metadata?: Record<string, string>
}

const COUNTS = ['requestsPerMinute', 'tokensPerMinute', 'concurrency', 'maxKeys'] as const

/** More is somebody's mistake, and every request of the key would be compared with each. */
const MOST_ALLOWED_IPS = 100

/** What a field is called where it is not by its own name: as its column. */
const COLUMNS: Partial<Record<keyof CheckedOptions, string>> = {
  requestsPerMinute: 'rpm',
  tokensPerMinute: 'tpm',
  allowedIps: 'allowed_ips',
  maxKeys: 'max_keys',
  expiresMs: 'expires_ms',
}

const refuse = (name: keyof CheckedOptions, rule: string): never => {
  const field = COLUMNS[name] ?? name
  throw new ServiceError({ kind: 'invalid', field }, `The field ${field} is invalid: ${rule}.`)
}

/** Addresses and ranges that a key may be used from, in their one form and each once. Throws `invalid`. */
export function toAllowedIps(texts: readonly string[] = []): string[] {
  if (texts.length > MOST_ALLOWED_IPS) refuse('allowedIps', `it may have ${MOST_ALLOWED_IPS} ranges`)
  const forms = texts.map((text) => {
    const range = toIpRange(text)
    return 'problem' in range ? refuse('allowedIps', `'${text}' ${range.problem}`) : toIpRangeText(range)
  })
  return [...new Set(forms)]
}

/** Throws `invalid` for the first field that breaks a rule. */
export function checkOptions(options: CheckedOptions): void {
  if (options.name !== undefined && !isName(options.name)) refuse('name', `it ${NAME_RULE}`)
  const { models = [] } = options
  if (!models.every(isPattern)) refuse('models', 'each must be a pattern such as openai/*')
  if (models.length > MOST_PATTERNS) refuse('models', `it may have ${MOST_PATTERNS} patterns`)
  const { nanoUsd } = options.budget ?? { nanoUsd: 1 }
  if (!Number.isSafeInteger(nanoUsd) || nanoUsd <= 0) refuse('budget', 'it must be more than 0')
  for (const field of COUNTS) {
    const limit = options[field] ?? 1
    if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
      refuse(field, `it must be a whole number from 1 to ${MAX_LIMIT}`)
  }
  const { expiresMs = null, metadata = {} } = options
  if (expiresMs !== null && (!Number.isInteger(expiresMs) || Number.isNaN(new Date(expiresMs).getTime())))
    refuse('expiresMs', 'it must be a time in ms')
  const pairs = Object.entries(metadata)
  if (pairs.length > METADATA.pairs) refuse('metadata', `it may have ${METADATA.pairs} names at most`)
  if (!pairs.every(([name]) => isMetadataName(name)))
    refuse('metadata', `each name must have 1 to ${METADATA.name} characters, without spaces and =`)
  if (!pairs.every(([, { length }]) => length >= 1 && length <= METADATA.value))
    refuse('metadata', `each value must have 1 to ${METADATA.value} characters`)
}
