/** Between what is typed of an upstream and what the API takes. Pure. */
import type { ShownUpstream } from '../../documents/upstream.ts'
import { Refusal } from '../api/refusal.ts'
import { toLimit, toText } from '../keys/values.ts'

export const NEW_UPSTREAM = {
  id: '',
  /** '' for any that speaks as OpenAI does. */
  preset: '',
  /** '' for the one that the preset has. */
  base_url: '',
  /** `kept` as it is, `typed` in `api_key`, or `none`. */
  credential: 'typed',
  api_key: '',
  local: 'no',
  enabled: 'yes',
  rpm: '',
  tpm: '',
  concurrency: '',
}

export type UpstreamValues = typeof NEW_UPSTREAM

type Before = Pick<ShownUpstream, 'preset' | 'base_url' | 'credential' | 'local' | 'enabled' | 'limits'>

export const toUpstreamValues = ({ id, preset, base_url, local, enabled, limits }: ShownUpstream): UpstreamValues => ({
  ...{ id, preset: preset ?? '', base_url: base_url ?? '', credential: 'kept', api_key: '' },
  ...{ local: local ? 'yes' : 'no', enabled: enabled ? 'yes' : 'no' },
  ...{ rpm: toText(limits.rpm), tpm: toText(limits.tpm), concurrency: toText(limits.concurrency) },
})

/** Throws a Refusal that names the field for what cannot be read. */
export function toNewUpstream(values: UpstreamValues) {
  const { preset } = values
  return {
    id: values.id.trim(),
    ...(preset === '' ? { dialect: 'openai' as const, base_url: toAddress(values.base_url) } : { preset }),
    ...(preset !== '' && values.base_url.trim() !== '' ? { base_url: toAddress(values.base_url) } : {}),
    ...(values.api_key.trim() === '' ? {} : { api_key: toKeys(values.api_key) }),
    ...{ local: values.local === 'yes', limits: toLimits(values) },
  }
}

/** What is said otherwise than it is. Throws a Refusal that names the field for what cannot be read. */
export function toUpstreamPatch(values: UpstreamValues, before: Before) {
  const limits = toLimits(values)
  const changed = LIMITS.filter((name) => limits[name] !== before.limits[name])
  const [isLocal, isEnabled] = [values.local === 'yes', values.enabled === 'yes']
  return {
    ...(values.preset === (before.preset ?? '') ? {} : { preset: values.preset || null }),
    ...(isElsewhere(values, before) ? { base_url: toAddress(values.base_url) || null } : {}),
    ...toCredentialChange(values),
    ...(isLocal === before.local ? {} : { local: isLocal }),
    ...(isEnabled === before.enabled ? {} : { enabled: isEnabled }),
    ...(changed.length === 0 ? {} : { limits: Object.fromEntries(changed.map((name) => [name, limits[name]])) }),
  }
}

function toCredentialChange({ credential, api_key }: UpstreamValues) {
  if (credential === 'kept') return {}
  if (credential === 'none') return { api_key: null }
  if (api_key.trim() !== '') return { api_key: toKeys(api_key) }
  throw new Refusal('Type the credential in, or leave it as it is.', 'invalid', 'api_key')
}

/** One credential, or several: none has a space in it. */
function toKeys(text: string): string | string[] {
  const [first = '', ...others] = text.trim().split(/\s+/)
  return others.length === 0 ? first : [first, ...others]
}

const isElsewhere = ({ base_url }: UpstreamValues, before: Before) => toAddress(base_url) !== (before.base_url ?? '')

/** Whether it would be asked somewhere else, or otherwise. */
const isMoved = (values: UpstreamValues, before: Before) =>
  isElsewhere(values, before) || values.preset !== (before.preset ?? '')

/** Whether its credential goes with the address that it was meant for, and none is given for the new one. */
export const losesCredential = (values: UpstreamValues, before: Before): boolean =>
  isMoved(values, before) && before.credential !== null && values.credential === 'kept'

const toAddress = (text: string) => text.trim().replace(/\/+$/, '')

const LIMITS = ['rpm', 'tpm', 'concurrency'] as const

const toLimits = (values: UpstreamValues) => ({
  rpm: toLimit(values.rpm, 'rpm'),
  tpm: toLimit(values.tpm, 'tpm'),
  concurrency: toLimit(values.concurrency, 'concurrency'),
})
