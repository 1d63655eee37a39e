/**
 * Defines every field of upstreams, models, routes, and aliases once: shape, description, column, default, and whether
 * it can be set manually. Files, plans, exports, and the admin API follow from it; the checks say how fields relate.
 */
import { type Static, type TProperties, type TSchema, Type, Kind as TypeKind } from '@sinclair/typebox'
import type { Fields } from '../domain/changes.ts'
import { byField, DEADLINE_NAMES, DEADLINES } from '../domain/deadlines.ts'
import {
  BATCH_REQUESTS,
  COST_UNITS,
  DEVELOPER_ROLES,
  type DialectName,
  IMAGES,
  MAX_TOKENS_FIELDS,
  PASSTHROUGH_ENDPOINTS,
  type PassthroughEndpoint,
  RERANKS,
  TOOL_CHOICES,
  TOOL_IDS,
  TRANSPORTS,
  type UpstreamSettings,
} from '../domain/dialects.ts'
import { toAlternatives } from '../domain/explain.ts'
import { MAX_LIMIT, mapLimits } from '../domain/limits.ts'
import {
  EFFORTS,
  type Effort,
  FEATURES,
  INPUT_MODALITIES,
  MODALITIES,
  MODEL_FIELDS,
  type ModelFieldName,
  type RouteSettings,
  THINKING,
} from '../domain/models.ts'
import { toSpan } from '../domain/time.ts'
import { mapPrices, type PricingItem } from '../domain/usage.ts'
import type { EntryOf, Kind } from '../store/catalog-layers.ts'
import type { AliasRow, CatalogRows, ModelRow, RouteRow, UpstreamRow } from '../store/catalog-rows.ts'

interface Facets {
  /** For the admin API, with its unit. */
  description?: string
  /** Exports omit it. */
  default?: unknown
  /** Configures a model server; stored as a hash. */
  process?: true
  /** Can be set with the admin API. `none`: the meaning of null. */
  byHand?: true | { none: string }
}

/** Null = not stored. */
const columnsOf =
  <Row>() =>
  <T extends TSchema>(column: (keyof Row & string) | null, shape: T, facets: Facets = {}) => {
    const field: T = { ...shape, ...facets, column }
    return Type.Optional(field)
  }

const closed = <T extends TProperties>(properties: T) => Type.Object(properties, { additionalProperties: false })
const oneOf = <const T extends string>(values: readonly T[]) =>
  Type.Unsafe<T>(Type.Union(values.map((value) => Type.Literal(value))))
const section = <T extends TSchema>(item: T) => Type.Union([Type.Record(Type.String(), item), Type.Null()])
const flag = () => Type.Boolean()
const text = () => Type.String({ minLength: 1, maxLength: 500 })
const list = <T extends TSchema>(item: T, maxItems = 100) => Type.Array(item, { maxItems })
const some = <T extends TSchema>(item: T) => Type.Array(item, { minItems: 1 })
const tokens = () => Type.Integer({ minimum: 1 })
const features = () => Type.Array(oneOf(FEATURES))
/** The same range as for keys (`keys create --rpm`). */
const limit = () => Type.Integer({ minimum: 1, maximum: MAX_LIMIT })
/** Accepts numbers, so that the checks can ask for a unit. */
const measure = () => Type.Unsafe<string>(Type.Union([Type.Number(), Type.String()]))
const texts = () => Type.Record(Type.String(), Type.String({ maxLength: 2_000 }), { maxProperties: 100 })
/** Request fields with any value. */
const fields = () => Type.Record(Type.String(), Type.Unknown(), { maxProperties: 100 })
const words = () => Type.Array(Type.String({ minLength: 1, maxLength: 4_000 }), { minItems: 1, maxItems: 200 })

const seconds = () => Type.Optional(Type.Integer({ minimum: 1, maximum: 3_600 }))

const Pricing = some(
  closed({
    // Per image too, so that `check.ts` can suggest `image_token`.
    ...mapPrices(() => Type.Optional(Type.String())),
    ...{ prompt: Type.String(), completion: Type.String() },
    ...{ mode: Type.Optional(text()), size: Type.Optional(text()), quality: Type.Optional(text()) },
    min_prompt_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
    ...{ audio_min_seconds: seconds(), audio_step_seconds: seconds() },
  } satisfies Record<keyof PricingItem, TSchema>),
)

const ENABLED = 'If false, no requests are sent there.'

const upstream = columnsOf<UpstreamRow>()
const option = <T extends TSchema>(shape: T, facets?: Facets) => upstream('options', shape, facets)
const ofProcess = <T extends TSchema>(shape: T) => upstream(null, shape, { process: true })

const effort = () => Type.Optional(fields())
const OPTIONS = {
  /** `process.ts` rejects plain text unless it is a hash. */
  process: option(Type.Union([words(), Type.String()])),
  preset: option(text(), {
    description: 'A provider of `GET /presets`, whose settings apply unless overridden.',
    byHand: { none: 'none' },
  }),
  pace_ms: option(Type.Integer({ minimum: 0, maximum: 60_000 })),
  max_tokens_field: option(oneOf(MAX_TOKENS_FIELDS)),
  n: option(flag()),
  user: option(flag()),
  think_tags: option(flag()),
  passthrough: option(
    Type.Union([Type.Literal(false), Type.Array(Type.Unsafe<PassthroughEndpoint>(oneOf(PASSTHROUGH_ENDPOINTS)))]),
  ),
  batches: option(list(oneOf(BATCH_REQUESTS))),
  pass: option(list(text())),
  disconnect_grace: option(measure()),
  max_tokens_per_second: option(limit()),
  cost: option(Type.Union([Type.Literal('off'), closed({ path: text(), unit: oneOf(COST_UNITS) })])),
  transport: option(oneOf(TRANSPORTS)),
  path: option(text()),
  probe: option(text()),
  query: option(texts()),
  auth: option(text()),
  service_account: option(flag()),
  headers: option(texts()),
  drop: option(list(text())),
  rename: option(texts()),
  extra_body: option(fields()),
  effort_fields: option(
    closed({
      none: effort(),
      ...{ minimal: effort(), low: effort(), medium: effort(), high: effort(), xhigh: effort(), max: effort() },
    } satisfies Record<'none' | Effort, TSchema>),
  ),
  developer_role: option(oneOf(DEVELOPER_ROLES)),
  tool_ids: option(oneOf(TOOL_IDS)),
  tool_choice: option(oneOf(TOOL_CHOICES)),
  stream_options: option(flag()),
  api_version: option(text()),
  betas: option(list(text(), 50)),
  embedding_inputs: option(limit()),
  embedding_tokens: option(limit()),
  rerank: option(oneOf(RERANKS)),
  images: option(oneOf(IMAGES)),
  ...mapLimits(() => option(limit())),
} satisfies Record<keyof UpstreamSettings, TSchema>

const deadline = () => Type.Optional(measure())
export const Upstream = closed({
  /** A preset implies it. */
  dialect: upstream('dialect', Type.Unsafe<DialectName>(text())),
  base_url: upstream('baseUrl', text(), {
    description: 'Base URL, such as `https://api.openai.com/v1`.',
    byHand: { none: "the preset's" },
  }),
  /** One or several references. The admin API takes the credential itself. */
  api_key: upstream('apiKeyRef', Type.Union([text(), Type.Array(text(), { minItems: 1, maxItems: 50 })])),
  local: upstream('local', flag(), { default: false, description: 'True if it is free.', byHand: true }),
  enabled: upstream('enabled', flag(), { default: true, description: ENABLED, byHand: true }),
  deadlines: upstream('deadlines', closed({ ...byField(deadline), start: deadline() })),
  stop_command: ofProcess(words()),
  health: ofProcess(text()),
  idle: ofProcess(measure()),
  memory: ofProcess(measure()),
  device: ofProcess(text()),
  pin: ofProcess(flag()),
  preload: ofProcess(flag()),
  ...OPTIONS,
})

const route = columnsOf<RouteRow>()
const UNSAID = { none: 'unset' }
const ROUTE_OPTIONS = {
  thinking: route('options', oneOf(THINKING), {
    description: 'How the model reasons: by effort, by a token budget, or not at all.',
    byHand: UNSAID,
  }),
  efforts: route('options', some(oneOf(EFFORTS)), { description: 'Supported reasoning efforts.', byHand: UNSAID }),
  thinking_off: route('options', flag(), { description: 'True if reasoning can be turned off.', byHand: UNSAID }),
  thinking_unasked: route('options', flag(), {
    description: 'True if the model reasons by default.',
    byHand: UNSAID,
  }),
  sampling: route('options', flag(), {
    description: 'True if it accepts `temperature`, `top_p`, and `top_k`.',
    byHand: UNSAID,
  }),
} satisfies Record<keyof RouteSettings, TSchema>

const PRICING =
  'Prices in USD as decimals, such as `{"prompt":"0.000001","completion":"0.000002"}`. Later prices apply if their conditions match.'
const AS_MODEL = { none: "the model's" }
const said = (name: ModelFieldName, byHand: true | typeof AS_MODEL) => ({
  description: MODEL_FIELDS[name].says,
  byHand,
})

export const Route = closed({
  upstream: text(),
  model: text(),
  priority: route('priority', Type.Integer({ minimum: 0, maximum: 1_000_000 }), {
    ...{ default: 0, description: 'Lower priorities are tried first.', byHand: true },
  }),
  weight: route('weight', Type.Integer({ minimum: 1, maximum: 1_000_000 }), {
    ...{ default: 1, description: 'Share of requests among routes of the same priority.', byHand: true },
  }),
  pricing: route('pricing', Pricing, { description: PRICING, byHand: AS_MODEL }),
  context_length: route('contextLength', tokens(), said('context_length', AS_MODEL)),
  max_output_length: route('maxOutputLength', tokens(), said('max_output_length', AS_MODEL)),
  supported_features: route('supportedFeatures', features(), said('supported_features', AS_MODEL)),
  enabled: route('enabled', flag(), { default: true, description: ENABLED, byHand: true }),
  ...ROUTE_OPTIONS,
})

const model = columnsOf<ModelRow>()
export const Model = closed({
  owned_by: model('ownedBy', text()),
  name: model('name', text()),
  context_length: model('contextLength', tokens(), said('context_length', true)),
  max_output_length: model('maxOutputLength', tokens(), said('max_output_length', true)),
  input_modalities: model('inputModalities', some(oneOf(INPUT_MODALITIES))),
  output_modalities: model('outputModalities', some(oneOf(MODALITIES))),
  supported_features: model('supportedFeatures', features(), said('supported_features', true)),
  /** Omitted if unknown. */
  pricing: model('pricing', Pricing, { description: PRICING, byHand: true }),
  /** Unix seconds. */
  created: model('createdMs', Type.Integer({ minimum: 0, maximum: 253_402_300_799 })),
  enabled: model('enabled', flag(), { default: true, ...said('enabled', true) }),
  listed: model('listed', flag(), { default: true, ...said('listed', true) }),
  /** Exports list its models. */
  from_wildcard: model('fromWildcard', flag(), {
    ...{ default: false, description: 'True if a wildcard added it.' },
  }),
  routes: some(Route),
} satisfies Record<ModelFieldName, TSchema> & TProperties)

const Alias = Type.Union([text(), closed({ model: text(), listed: Type.Optional(flag()) })])

export const CatalogSchema = closed({
  version: Type.Literal(1),
  /** Limit for all local model servers: of the machine, or per device. */
  memory: Type.Optional(Type.Union([measure(), Type.Record(Type.String(), measure(), { maxProperties: 100 })])),
  upstreams: section(Upstream),
  models: section(Model),
  aliases: Type.Optional(section(Alias)),
})

export type CatalogFile = Static<typeof CatalogSchema>
export type UpstreamEntry = Static<typeof Upstream>
export type ModelEntry = Static<typeof Model>
export type RouteEntry = Static<typeof Route>
export type PricingEntry = Static<typeof Pricing>

/** Facts that every model needs, from its entry or known facts. Prices have their own rules. */
export const FACT_FIELDS = [
  ['name', 'name'],
  ['contextLength', 'context_length'],
  ['maxOutputLength', 'max_output_length'],
  ['inputModalities', 'input_modalities'],
  ['outputModalities', 'output_modalities'],
  ['supportedFeatures', 'supported_features'],
] as const satisfies [keyof ModelRow, keyof ModelEntry][]

type Named = [field: string, shape: TSchema]
const namedOf = ({ properties }: { properties: TProperties }): Named[] => Object.entries(properties)

/** Fields that the admin API sets, and the meaning of null. If that is null, the field can't be cleared. */
export const byHand = (of: { properties: TProperties }): [field: string, shape: TSchema, none: string | null][] =>
  namedOf(of).flatMap(([field, { byHand, default: _, column: __, ...shape }]) =>
    byHand ? [[field, shape as TSchema, byHand === true ? null : byHand.none]] : [],
  )

export const saysOf = <Fields extends TProperties>({ properties }: { properties: Fields }, field: keyof Fields) => ({
  description: `${properties[field]?.description}`,
})

/** Fields that configure a model server, besides `process` and `deadlines.start`. */
export const PROCESS_FIELDS = namedOf(Upstream).flatMap(([field, { process }]) => (process ? field : []))

/** Valid field names at a path. */
export function fieldsAt(path: readonly (string | number)[], schema: TSchema): string[] {
  const [segment, ...rest] = path
  const branches = toAlternatives(schema)
  if (segment === undefined) return branches.flatMap((branch) => Object.keys(branch.properties ?? {}))
  for (const branch of branches) {
    const next =
      branch[TypeKind] === 'Array'
        ? branch.items
        : (branch.properties?.[segment] ?? Object.values<TSchema>(branch.patternProperties ?? {})[0])
    if (next) return fieldsAt(rest, next)
  }
  return []
}

/** Fields of the `options` column. */
export const toOptions = <Options extends object>(of: { properties: TProperties }, entry: Options): Options =>
  Object.fromEntries(Object.entries(entry).filter(([field]) => of.properties[field]?.column === 'options')) as Options

export function toColumns<Columns extends object>(of: { properties: TProperties }, fields: object): Columns {
  const columns: Record<string, unknown> = {}
  const options: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(fields)) {
    const column = of.properties[field]?.column
    if (column === 'options') options[field] = value
    else if (column) columns[column] = value
  }
  return (Object.keys(options).length > 0 ? { ...columns, options } : columns) as Columns
}

/** Every field is present, null if unset. */
const toFields = (of: { properties: TProperties }, row: object, options: object = {}): Fields => {
  const own: Readonly<Record<string, unknown>> = { ...row }
  const kept = namedOf(of).filter(([, { column }]) => column && column !== 'options' && column !== 'deadlines')
  return { ...Object.fromEntries(kept.map(([field, { column }]) => [field, own[column] ?? null])), ...options }
}

export interface KindOf<Row, Entry = Row> {
  /** Such as `upstreams.openai`, `models.v/m`, `models.v/m: route u (m)`, `aliases.fast`. */
  nameOf(entry: Entry): string
  /** Named as in files. Deadlines are separate fields, and models have no routes. */
  fieldsOf(row: Row): Fields
}

export const toRouteName = (row: Pick<RouteRow, 'model' | 'upstream' | 'upstreamModel'>) =>
  `models.${row.model}: route ${row.upstream} (${row.upstreamModel})`

export const KINDS: { [K in Kind]: KindOf<CatalogRows[K][number], EntryOf<K>> } = {
  upstreams: {
    nameOf: ({ id }) => `upstreams.${id}`,
    fieldsOf: (row) => ({ ...toFields(Upstream, row), ...toDeadlines(row), ...row.options }),
  },
  models: {
    nameOf: ({ slug }) => `models.${slug}`,
    fieldsOf: (row) => ({
      ...toFields(Model, row),
      pricing: row.pricing.length === 0 ? null : row.pricing,
      created: Math.floor(row.createdMs / 1_000),
    }),
  },
  routes: {
    nameOf: toRouteName,
    fieldsOf: (row) => ({ upstream: row.upstream, model: row.upstreamModel, ...toFields(Route, row, row.options) }),
  },
  aliases: {
    nameOf: ({ alias }) => `aliases.${alias}`,
    fieldsOf: ({ model, listed }: AliasRow) => ({ model, listed }),
  },
}

const toDeadlines = ({ deadlines }: UpstreamRow): Fields =>
  Object.fromEntries(
    DEADLINE_NAMES.map((name) => {
      const ms = deadlines[name]
      return [`deadlines.${DEADLINES[name].field}`, ms === undefined ? null : toSpan(ms)]
    }),
  )

export const withoutNull = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))

export interface FileEntries {
  version: 1
  upstreams: Record<string, Fields>
  models: Record<string, Fields>
  aliases?: Record<string, Fields | string>
}

export function toFileEntries({ upstreams, models, routes, aliases }: CatalogRows): FileEntries {
  const routesOf = Map.groupBy(routes, (row) => row.model)
  const entries: FileEntries = {
    version: 1,
    upstreams: Object.fromEntries(upstreams.map((row) => [row.id, toUpstreamEntry(row)])),
    models: Object.fromEntries(
      models.map((row) => {
        const own = (routesOf.get(row.slug) ?? []).map((route) => withoutDefaults(Route, KINDS.routes.fieldsOf(route)))
        return [row.slug, { ...withoutDefaults(Model, KINDS.models.fieldsOf(row)), routes: own }]
      }),
    ),
  }
  if (aliases.length === 0) return entries
  const names = aliases.map((row): [string, Fields | string] => [
    row.alias,
    row.listed ? row.model : KINDS.aliases.fieldsOf(row),
  ])
  return { ...entries, aliases: Object.fromEntries(names) }
}

const withoutDefaults = ({ properties }: { properties: TProperties }, fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(withoutNull(fields)).filter(([field, value]) => properties[field]?.default !== value),
  )

const DEADLINE = 'deadlines.'

/** Omits what the preset sets. */
function toUpstreamEntry(row: UpstreamRow): Fields {
  const { dialect, ...rest } = withoutDefaults(Upstream, KINDS.upstreams.fieldsOf(row))
  const all = Object.entries(row.options.preset === undefined ? { dialect, ...rest } : rest)
  const own = all.filter(([field]) => !field.startsWith(DEADLINE))
  const deadlines = all.flatMap(([field, value]) =>
    field.startsWith(DEADLINE) ? [[field.slice(DEADLINE.length), value]] : [],
  )
  return Object.fromEntries(deadlines.length === 0 ? own : [...own, ['deadlines', Object.fromEntries(deadlines)]])
}
