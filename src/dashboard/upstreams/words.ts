/** Texts of upstreams, the filter of their list, and conversion of their form. */
import type { ShownCredential, ShownPreset, ShownUpstream, UpstreamTest } from '../../documents/upstream.ts'
import { LIMIT_NAMES, type LimitName, mapLimits } from '../../domain/limits.ts'
import { ORIGIN_WORDS } from '../../domain/models.ts'
import { UPSTREAM_STATES } from '../../domain/upstream-state.ts'
import { Refusal } from '../api/refusal.ts'
import { hasWords, toCount, toLatency } from '../figures/figures.ts'
import { toLimit, toText } from '../keys/values.ts'

type StateKind = 'good' | 'warn' | 'bad' | 'off'

export interface Told {
  kind: StateKind
  word: string
}

const READY_KINDS: Partial<Record<ShownUpstream['state'], StateKind>> = {
  ...{ healthy: 'good', degraded: 'warn', unknown: 'off', disabled: 'off' },
}

export const toUpstreamState = ({ state }: Pick<ShownUpstream, 'state'>): Told => ({
  kind: READY_KINDS[state] ?? 'bad',
  word: UPSTREAM_STATES[state].word,
})

type Target = ShownUpstream['targets'][number]

/** An open breaker blocks requests. */
export function toBreaker({ breaker, open_for_keys: keys, retry_in_ms: ms }: Target): Told {
  const forWhom = keys === null ? '' : ` for ${toCount(keys)} ${keys === 1 ? 'key' : 'keys'}`
  if (breaker === 'closed') return { kind: 'good', word: 'closed' }
  if (breaker === 'half_open') return { kind: 'warn', word: `half-open${forWhom}` }
  const again = ms === null ? '' : `, retry in ${toLatency(ms)}`
  return { kind: keys === null ? 'bad' : 'warn', word: `open${forWhom}${again}` }
}

/** '' for none. */
export const toFailedText = (count: number): string =>
  count === 0 ? '' : count === 1 ? 'the last request failed' : `the last ${toCount(count)} requests failed`

/** Summary of all breakers, such as `closed` or `2 of 5 open`; null without routes. */
export function toBreakers(targets: readonly Pick<Target, 'breaker' | 'open_for_keys'>[]): Told | null {
  if (targets.length === 0) return null
  const open = targets.filter(({ breaker }) => breaker !== 'closed')
  if (open.length === 0) return { kind: 'good', word: 'closed' }
  const isHalf = open.every(({ breaker, open_for_keys: keys }) => breaker === 'half_open' || keys !== null)
  const state = open.every(({ breaker }) => breaker === 'half_open') ? 'half-open' : 'open'
  const word = targets.length === 1 ? state : `${open.length} of ${targets.length} ${state}`
  return { kind: isHalf ? 'warn' : 'bad', word }
}

/** Status and source of the credential, never its value. */
export function toCredential(credential: ShownUpstream['credential']): Told {
  if (credential === null) return { kind: 'off', word: 'not needed' }
  const { variable, sealed, status } = credential
  if (sealed)
    return status === 'set' ? { kind: 'good', word: 'set, stored encrypted' } : { kind: 'bad', word: 'not set' }
  const from = variable ?? 'a file'
  return status === 'set' ? { kind: 'good', word: `set, from ${from}` } : { kind: 'bad', word: `${from} is not set` }
}

export function toCredentialOfSeveral({ number, name, status, retry_in_ms: ms }: ShownCredential): Told {
  const word = `${number}, ${name === null ? 'stored encrypted' : `from ${name}`}`
  if (status === 'set') return { kind: 'good', word }
  if (status === 'not_set') return { kind: 'bad', word: `${word}: not set` }
  return { kind: 'warn', word: `${word}: suspended${ms === null ? '' : `, retry in ${toLatency(ms)}`}` }
}

export const toPlaceHint = ({ name, base_url }: Pick<ShownPreset, 'name' | 'base_url'>): string =>
  base_url === null ? `Your URL at ${name}.` : 'Leave empty to use the default.'

const TESTS: Readonly<Record<string, Told>> = {
  ready: { kind: 'good', word: 'OK' },
  unknown: { kind: 'off', word: 'No free health check; the next request will show' },
  refused: { kind: 'bad', word: 'Credential rejected' },
  degraded: { kind: 'warn', word: 'Returned an error' },
  timeout: { kind: 'bad', word: 'Timed out' },
  down: { kind: 'bad', word: 'Unreachable' },
  not_made: { kind: 'off', word: 'Not tested' },
  not_ready: { kind: 'bad', word: 'Not ready' },
}

/** Result of a test, such as `OK after 213 ms.` */
export function toTestText({ state, reason, ms }: UpstreamTest): Told {
  const { kind, word } = TESTS[state] ?? { kind: 'off', word: state }
  const after = ms === null ? '' : ` after ${toLatency(ms)}`
  // Some of its credentials failed.
  return {
    kind: reason !== null && kind === 'good' ? 'warn' : kind,
    word: `${word}${after}${reason === null ? '.' : `: ${reason}`}`,
  }
}

/** Searches name, URL, API format, and reason. '' means all states. */
export function filterUpstreams(
  upstreams: readonly ShownUpstream[],
  { search, state }: { search: string; state: string },
): ShownUpstream[] {
  return upstreams.filter((upstream) => {
    if (state !== '' && (state === 'unwell' ? !isUnwell(upstream) : upstream.state !== state)) return false
    return hasWords(
      [upstream.id, upstream.preset ?? '', upstream.dialect, upstream.base_url ?? '', upstream.reason ?? ''],
      search,
    )
  })
}

const SERVER_KINDS: Readonly<Record<NonNullable<ShownUpstream['process']>['state'], StateKind>> = {
  ...{ stopped: 'off', loading: 'warn', ready: 'good', sleeping: 'off', failed: 'bad' },
}

/** State of a managed model server, such as `ready, 2 in flight, 3 queued`. */
export function toServer({ state, answering, queued }: NonNullable<ShownUpstream['process']>): Told {
  const parts = [state, answering > 0 && `${toCount(answering)} in flight`, queued > 0 && `${toCount(queued)} queued`]
  return { kind: SERVER_KINDS[state], word: parts.filter(Boolean).join(', ') }
}

const isUnwell = ({ state, targets }: Pick<ShownUpstream, 'state' | 'targets'>): boolean =>
  ['bad', 'warn'].includes(toUpstreamState({ state }).kind) || targets.some(({ breaker }) => breaker !== 'closed')

interface Hour {
  ms: number
  requests: number
  errors: number
}

/** Every hour up to the current one, including hours without requests. */
export function toStrip(hours: readonly Hour[], nowMs: number, hourMs = 3_600_000, shown = 24): (Hour & Told)[] {
  const last = Math.floor(nowMs / hourMs) * hourMs
  const byHour = new Map(hours.map((hour) => [hour.ms, hour]))
  return Array.from({ length: shown }, (_, index) => {
    const ms = last - (shown - 1 - index) * hourMs
    const hour = byHour.get(ms) ?? { ms, requests: 0, errors: 0 }
    return { ...hour, ...toHourState(hour) }
  })
}

function toHourState({ requests, errors }: Hour): Told {
  if (requests === 0) return { kind: 'off', word: 'no requests' }
  if (errors === 0) return { kind: 'good', word: 'none failed' }
  return { kind: errors * 2 > requests ? 'bad' : 'warn', word: `${toCount(errors)} of ${toCount(requests)} failed` }
}

export const toNewServers = <Server extends { upstream: string | null }>(servers: readonly Server[]): Server[] =>
  servers.filter(({ upstream }) => upstream === null)

export const toAddedText = (id: string, models: number): string =>
  `Added ${id} with ${toCount(models)} ${models === 1 ? 'model' : 'models'}.`

const ORIGINS: Readonly<Record<string, string>> = ORIGIN_WORDS

/** Source of a catalog entry. */
export const toOriginWord = (origin: string): string => ORIGINS[origin] ?? origin

export interface UpstreamValues extends Record<string, string>, Record<LimitName, string> {
  id: string
  /** '' for any OpenAI-compatible API. */
  preset: string
  /** '' for the preset's URL. */
  base_url: string
  /** `kept`, `typed` (in `api_key`), or `none`. */
  credential: string
  api_key: string
  local: string
  enabled: string
}

type Before = Pick<ShownUpstream, 'preset' | 'base_url' | 'credential' | 'local' | 'enabled' | 'limits'>

export const toUpstreamValues = ({ id, preset, base_url, local, enabled, limits }: ShownUpstream): UpstreamValues => ({
  ...{ id, preset: preset ?? '', base_url: base_url ?? '', credential: 'kept', api_key: '' },
  ...{ local: local ? 'yes' : 'no', enabled: enabled ? 'yes' : 'no' },
  ...mapLimits((name) => toText(limits[name])),
})

/** Changed fields only. @throws a Refusal that names the field. */
export function toUpstreamPatch(values: UpstreamValues, before: Before) {
  const limits = toLimits(values)
  const changed = LIMIT_NAMES.filter((name) => limits[name] !== before.limits[name])
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
  throw new Refusal('Enter the credential, or keep the current one.', 'invalid', 'api_key')
}

/** Credentials contain no spaces. */
function toKeys(text: string): string | string[] {
  const [first = '', ...others] = text.trim().split(/\s+/)
  return others.length === 0 ? first : [first, ...others]
}

const isElsewhere = ({ base_url }: UpstreamValues, before: Before) => toAddress(base_url) !== (before.base_url ?? '')

const isMoved = (values: UpstreamValues, before: Before) =>
  isElsewhere(values, before) || values.preset !== (before.preset ?? '')

/** True if moving the upstream removes its credential without a new one. */
export const losesCredential = (values: UpstreamValues, before: Before): boolean =>
  isMoved(values, before) && before.credential !== null && values.credential === 'kept'

const toAddress = (text: string) => text.trim().replace(/\/+$/, '')

const toLimits = (values: UpstreamValues) => mapLimits((name) => toLimit(values[name], name))
