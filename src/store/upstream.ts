/** Converts an upstream's row to settings for calls, with defaults, preset, and credentials (which may read files). */
import { DEFAULT_DEADLINES, LOCAL_HEADERS_MS } from '../domain/deadlines.ts'
import { DIALECTS, type UpstreamOptions, type UpstreamSettings } from '../domain/dialects.ts'
import { mapLimits } from '../domain/limits.ts'
import type { CredentialSource, Environment, OpenedCredential, Upstream } from '../domain/snapshot.ts'
import { DISCONNECT_GRACE_MS, toMs } from '../domain/time.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import type { UpstreamRow } from './catalog-rows.ts'
import { resolveReference, toReferences, toSource } from './credential-binding.ts'
import { findPreset } from './presets.ts'

export const NO_PRICES: Upstream['prices'] = new Map()

/**
 * Also converts disabled upstreams.
 * @param where location of the environment, for messages.
 * @param opened stored credentials, decrypted.
 */
export function toUpstream(
  row: UpstreamRow,
  environment: Environment,
  where: 'here' | 'on the server',
  opened?: readonly OpenedCredential[],
): Upstream {
  // A newer version may have written an unknown dialect or preset.
  const isKnown = DIALECTS.includes(row.dialect)
  const preset = row.options.preset === undefined ? null : (findPreset(row.options.preset) ?? null)
  const isForeign = preset === null && row.options.preset !== undefined
  const found = toCredentials(row, environment, where, opened)
  const usable = found.flatMap(({ source, value }) => (value === null ? [] : toOne(source, value)))
  const [first = found[0] ? toOne(found[0].source, null) : NO_CREDENTIAL] = usable
  // An upstream that was manually moved to a URL is no longer started here.
  const process = row.baseUrl === null ? (row.options.process ?? null) : null
  const lacking = found.length > 0 && usable.length === 0 ? (found[0]?.source.problem ?? null) : null
  const upstream: Upstream = {
    id: row.id,
    dialect: row.dialect,
    baseUrl: row.baseUrl ?? preset?.base_url ?? null,
    local: row.local,
    deadlines: {
      ...DEFAULT_DEADLINES,
      ...(row.local ? { headers: LOCAL_HEADERS_MS } : {}),
      ...row.deadlines,
    },
    disconnectGraceMs: toDisconnectGraceMs(row.options),
    limits: {
      ...mapLimits((name) => row.options[name] ?? null),
      // Excess requests are queued, not rejected.
      ...(process === null ? {} : { concurrency: null }),
    },
    prices: NO_PRICES,
    options: toOptions(dialectOf(row).defaults[row.local ? 'local' : 'remote'], {
      ...preset?.settings,
      ...row.options,
    }),
    ...first,
    secrets: found.flatMap(({ value }) => value ?? []),
    credentials: found.map(({ source }) => source),
    each: null,
    process,
    notReady: isForeign
      ? `this version of Tollgate doesn't support its preset '${row.options.preset}'`
      : isKnown
        ? lacking
        : `this version of Tollgate doesn't support the API format '${row.dialect}'`,
  }
  if (usable.length < 2) return upstream
  const each: Upstream[] = []
  for (const one of usable) each.push({ ...upstream, ...one, each })
  return { ...upstream, each }
}

/** `off` means unset. */
function toOptions(defaults: UpstreamOptions, { cost, ...said }: UpstreamSettings): UpstreamOptions {
  return { ...defaults, ...said, ...(cost === undefined || cost === 'off' ? {} : { cost }) }
}

type OneCredential = Pick<Upstream, 'variable' | 'hasStoredCredential' | 'credential' | 'credentialNumber'>

const NO_CREDENTIAL: OneCredential = {
  variable: null,
  hasStoredCredential: false,
  credential: null,
  credentialNumber: 1,
}

const toOne = ({ from, name, number }: CredentialSource, credential: string | null): OneCredential => ({
  variable: from === 'variable' ? name : null,
  hasStoredCredential: from === 'typed_in',
  credential,
  credentialNumber: number,
})

function toCredentials(
  { apiKeyRef }: UpstreamRow,
  environment: Environment,
  where: string,
  opened: readonly OpenedCredential[] | undefined,
): { source: CredentialSource; value: string | null }[] {
  const found = opened
    ? opened.map((one) => ({ from: 'typed_in' as const, name: null, one }))
    : toReferences(apiKeyRef).map((ref) => ({ ...toSource(ref), one: resolveReference(ref, environment, where) }))
  return found.map(({ from, name, one }, index) => {
    const [value, problem] = 'credential' in one ? [one.credential, null] : [null, one.problem]
    return { source: { number: index + 1, from, name, problem }, value }
  })
}

function toDisconnectGraceMs({ disconnect_grace: grace }: UpstreamRow['options']): number | null {
  if (grace === undefined) return null
  return grace === 'off' ? 0 : toMs(String(grace), DISCONNECT_GRACE_MS)
}
