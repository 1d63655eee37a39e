/**
 * From the rows of a store to the immutable view that every request reads: keys by the hash of each secret, models by
 * slug with their targets, upstreams with every default filled in and their credential resolved. Built anew after each
 * change of the configuration and swapped whole. Called by `server/` and by commands. Of the machine it
 * reads the files that credentials are in.
 */
import {
  DEFAULT_DEADLINES,
  DEFAULT_OPTIONS,
  DIALECTS,
  type DialectName,
  LOCAL_HEADERS_MS,
  LOCAL_OPTIONS,
  OWN_FORMAT_OPTIONS,
  type UpstreamOptions,
  type UpstreamSettings,
} from '../domain/settings.ts'
import type {
  CatalogModel,
  CredentialSource,
  Environment,
  Key,
  OpenedCredential,
  OpenedCredentials,
  Secret,
  Snapshot,
  Target,
  Team,
  Upstream,
} from '../domain/snapshot.ts'
import { LEAVE_MS, toMs } from '../domain/time.ts'
import type { CatalogRows, ModelRow, RouteRow, UpstreamRow } from './catalog-rows.ts'
import type { Configuration, StoredKey, StoredTeam } from './config-store.ts'
import { NO_PRICES, toPrice, toPrices } from './model-prices.ts'
import { findPreset } from './presets.ts'
import { resolveReference, toReferences, toSource } from './references.ts'

const NOTHING_OPENED: OpenedCredentials = new Map()

/**
 * @param environment resolves `${NAME}` references.
 * @param opened the credentials that were typed in.
 */
export function toSnapshot(
  rows: Configuration,
  environment: Environment,
  opened: OpenedCredentials = NOTHING_OPENED,
): Snapshot {
  return {
    revision: rows.revision,
    secrets: new Map(rows.keys.flatMap(toSecrets)),
    playgrounds: new Map(rows.keys.flatMap(toPlayground)),
    teams: new Map(rows.teams.map(toTeam)),
    ...toCatalog(rows, environment, opened),
  }
}

/** What of it comes from the catalogue. */
export function toCatalog(
  rows: CatalogRows,
  environment: Environment,
  opened: OpenedCredentials = NOTHING_OPENED,
): Pick<Snapshot, 'models' | 'aliases' | 'upstreams'> {
  const prices = toPrices(rows)
  const upstreams = new Map(
    rows.upstreams
      .filter((row) => row.enabled)
      .map((row) => {
        const upstream = toUpstream(row, environment, 'on the server', opened.get(row.id))
        const own = { prices: prices.get(row.id) ?? NO_PRICES }
        return [row.id, { ...upstream, ...own, each: upstream.each?.map((one) => ({ ...one, ...own })) ?? null }]
      }),
  )
  return {
    models: toModels(rows.models, rows.routes, upstreams),
    aliases: new Map(rows.aliases.map(({ alias, model, listed }) => [alias, { model, listed }])),
    upstreams,
  }
}

/** Of keys that a store has read before and gives again: nobody changes those. */
const SECRETS = new WeakMap<StoredKey, [hash: string, Secret][]>()

/** A key once for each of its secrets, by its hash. */
function toSecrets(stored: StoredKey): [hash: string, Secret][] {
  const known = SECRETS.get(stored)
  if (known) return known
  const { secrets } = stored
  const key = toKey(stored)
  const made = secrets.map(({ hash, lastFour, expiresMs }): [string, Secret] => [hash, { key, lastFour, expiresMs }])
  SECRETS.set(stored, made)
  return made
}

const toPlayground = (stored: StoredKey): [ownerId: string, Key][] =>
  stored.hidden && stored.ownerId !== null ? [[stored.ownerId, toKey(stored)]] : []

const toKey = ({ secrets: _, metadata: __, createdMs: ___, hidden: ____, ...key }: StoredKey): Key => ({
  ...key,
  shareId: key.ownerId ?? key.id,
})

const toTeam = ({ maxKeys: _, metadata: __, createdMs: ___, ...team }: StoredTeam): [string, Team] => [team.id, team]

/** What holds for the upstreams of each dialect where the catalogue says nothing. */
const OPTIONS: Readonly<Record<DialectName, Record<'remote' | 'local', UpstreamOptions>>> = {
  openai: { remote: DEFAULT_OPTIONS, local: LOCAL_OPTIONS },
  anthropic: { remote: OWN_FORMAT_OPTIONS, local: OWN_FORMAT_OPTIONS },
  gemini: { remote: OWN_FORMAT_OPTIONS, local: OWN_FORMAT_OPTIONS },
  // It is built in: it needs no allowances.
  demo: { remote: DEFAULT_OPTIONS, local: DEFAULT_OPTIONS },
}

/**
 * Converts an upstream, enabled or not.
 * @param where that environment is, in words for an administrator.
 * @param opened its credentials, where some were typed in.
 */
export function toUpstream(
  row: UpstreamRow,
  environment: Environment,
  where: 'here' | 'on the server',
  opened?: readonly OpenedCredential[],
): Upstream {
  // A newer version may have written either.
  const isKnown = DIALECTS.includes(row.dialect)
  const preset = row.options.preset === undefined ? null : (findPreset(row.options.preset) ?? null)
  const isForeign = preset === null && row.options.preset !== undefined
  const found = toCredentials(row, environment, where, opened)
  const usable = found.flatMap(({ source, value }) => (value === null ? [] : toOne(source, value)))
  const [first = found[0] ? toOne(found[0].source, null) : NO_CREDENTIAL] = usable
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
    leaveMs: toLeaveMs(row.options),
    limits: {
      requestsPerMinute: row.options.rpm ?? null,
      tokensPerMinute: row.options.tpm ?? null,
      concurrency: row.options.concurrency ?? null,
    },
    prices: NO_PRICES,
    options: toOptions(isKnown ? OPTIONS[row.dialect][row.local ? 'local' : 'remote'] : DEFAULT_OPTIONS, {
      ...preset?.settings,
      ...row.options,
    }),
    ...first,
    secrets: found.flatMap(({ value }) => value ?? []),
    credentials: found.map(({ source }) => source),
    each: null,
    notReady: isForeign
      ? `this version of Tollgate does not know its preset '${row.options.preset}'`
      : isKnown
        ? lacking
        : `this version of Tollgate does not know its dialect '${row.dialect}'`,
  }
  if (usable.length < 2) return upstream
  const each: Upstream[] = []
  for (const one of usable) each.push({ ...upstream, ...one, each })
  return { ...upstream, each }
}

/** What is off is as if nothing were said. */
function toOptions(defaults: UpstreamOptions, { cost, ...said }: UpstreamSettings): UpstreamOptions {
  return { ...defaults, ...said, ...(cost === undefined || cost === 'off' ? {} : { cost }) }
}

type OneCredential = Pick<Upstream, 'variable' | 'isSealed' | 'credential' | 'credentialNumber'>

const NO_CREDENTIAL: OneCredential = { variable: null, isSealed: false, credential: null, credentialNumber: 1 }

const toOne = ({ from, name, number }: CredentialSource, credential: string | null): OneCredential => ({
  variable: from === 'variable' ? name : null,
  isSealed: from === 'typed_in',
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

/** How long its calls are read on for their usage once a client has left; null where the catalogue does not say. */
function toLeaveMs({ leave }: UpstreamRow['options']): number | null {
  if (leave === undefined) return null
  return leave === 'off' ? 0 : toMs(String(leave), LEAVE_MS)
}

/** The enabled models, by slug; a route counts where it and its upstream are enabled. */
function toModels(
  modelRows: ModelRow[],
  routeRows: RouteRow[],
  upstreams: ReadonlyMap<string, Upstream>,
): Map<string, CatalogModel> {
  const rows = new Map(modelRows.filter((row) => row.enabled).map((row) => [row.slug, row]))
  const bySlug = new Map([...rows].map(([slug, row]) => [slug, toModel(row)]))
  for (const route of routeRows) {
    const row = rows.get(route.model)
    const upstream = upstreams.get(route.upstream)
    if (route.enabled && row && upstream && isPriced(route, row, upstream))
      bySlug.get(row.slug)?.targets.push(toTarget(route, row, upstream))
  }
  // A stable sort: routes of one priority stay in the order of their rows.
  for (const model of bySlug.values()) model.targets.sort((a, b) => a.priority - b.priority)
  return bySlug
}

function toModel(row: ModelRow): CatalogModel {
  return {
    listed: row.listed,
    fromWildcard: row.fromWildcard,
    facts: {
      id: row.slug,
      object: 'model',
      owned_by: row.ownedBy,
      created: Math.floor(row.createdMs / 1000),
      name: row.name,
      context_length: row.contextLength,
      max_output_length: row.maxOutputLength,
      input_modalities: row.inputModalities,
      output_modalities: row.outputModalities,
      supported_features: row.supportedFeatures,
      pricing: row.pricing,
    },
    targets: [],
  }
}

/** What costs money is not asked for while nobody knows how much. */
const isPriced = ({ pricing }: RouteRow, model: ModelRow, upstream: Upstream): boolean =>
  pricing !== null || upstream.local || upstream.dialect === 'demo' || model.pricing.length > 0

/** A route may be weaker than its model and never stronger: the model's facts are what a client is promised. */
function toTarget(route: RouteRow, model: ModelRow, upstream: Upstream): Target {
  const contextLength = Math.min(route.contextLength ?? model.contextLength, model.contextLength)
  const { supportedFeatures } = route
  return {
    model: route.model,
    upstream,
    upstreamModel: route.upstreamModel,
    priority: route.priority,
    weight: route.weight,
    ...toPrice(route, model, upstream.local),
    // What is written stands in the context, too.
    maxOutputLength: Math.min(route.maxOutputLength ?? model.maxOutputLength, model.maxOutputLength, contextLength),
    contextLength,
    features: supportedFeatures
      ? model.supportedFeatures.filter((feature) => supportedFeatures.includes(feature))
      : model.supportedFeatures,
    options: route.options,
  }
}
