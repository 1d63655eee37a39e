/**
 * The shape of `catalog.yaml` as a TypeBox schema: which fields there are and of which type. What fields
 * mean to each other is in `check.ts`. A section that is there but empty is null, as YAML reads it.
 */
import { Kind, type Static, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import {
  COST_UNITS,
  DEVELOPER_ROLES,
  type DialectName,
  MAX_TOKENS_FIELDS,
  NATIVE_ENDPOINTS,
  type NativeEndpoint,
  TOOL_CHOICES,
  TOOL_IDS,
  TRANSPORTS,
  type UpstreamSettings,
} from '../domain/dialects.ts'
import { MAX_LIMIT, mapLimits } from '../domain/limits.ts'
import {
  EFFORTS,
  type Effort,
  FEATURES,
  INPUT_MODALITIES,
  MODALITIES,
  type RouteSettings,
  THINKING,
} from '../domain/models.ts'
import { toAlternatives } from '../validation/explain.ts'

const closed = <T extends TProperties>(properties: T) => Type.Object(properties, { additionalProperties: false })
const oneOf = <const T extends string>(values: readonly T[]) =>
  Type.Unsafe<T>(Type.Union(values.map((value) => Type.Literal(value))))
const section = <T extends TSchema>(item: T) => Type.Union([Type.Record(Type.String(), item), Type.Null()])
const text = () => Type.String({ minLength: 1, maxLength: 500 })
const price = () => Type.Optional(Type.String())
const tokens = () => Type.Optional(Type.Integer({ minimum: 1 }))
const features = () => Type.Optional(Type.Array(oneOf(FEATURES)))
/** As many as a key may be given (`keys create --rpm`). */
const limit = () => Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_LIMIT }))
/** A text such as `60s`. A number is let through to `check.ts`, which tells that it has no unit. */
const time = () => Type.Optional(Type.Unsafe<string>(Type.Union([Type.Number(), Type.String()])))

const texts = () => Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 2_000 }), { maxProperties: 100 }))
/** Fields of a request, whatever they hold. */
const fields = () => Type.Optional(Type.Record(Type.String(), Type.Unknown(), { maxProperties: 100 }))
const EffortFields = closed({
  none: fields(),
  ...{ minimal: fields(), low: fields(), medium: fields(), high: fields(), xhigh: fields(), max: fields() },
} satisfies Record<'none' | Effort, TSchema>)

/** A number is let through to `process.ts`, as for times. */
const SIZE = Type.Unsafe<string>(Type.Union([Type.Number(), Type.String()]))
const size = () => Type.Optional(SIZE)
const words = () => Type.Array(Type.String({ minLength: 1, maxLength: 4_000 }), { minItems: 1, maxItems: 200 })

const OPTIONS = {
  /** The words of a command; a text is for `process.ts` to tell what it is. */
  process: Type.Optional(Type.Union([words(), Type.String()])),
  preset: Type.Optional(text()),
  pace_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: 60_000 })),
  max_tokens_field: Type.Optional(oneOf(MAX_TOKENS_FIELDS)),
  n: Type.Optional(Type.Boolean()),
  user: Type.Optional(Type.Boolean()),
  think_tags: Type.Optional(Type.Boolean()),
  native: Type.Optional(
    Type.Union([Type.Literal(false), Type.Array(Type.Unsafe<NativeEndpoint>(oneOf(NATIVE_ENDPOINTS)))]),
  ),
  pass: Type.Optional(Type.Array(text(), { maxItems: 100 })),
  leave: time(),
  max_tokens_per_second: limit(),
  cost: Type.Optional(Type.Union([Type.Literal('off'), closed({ path: text(), unit: oneOf(COST_UNITS) })])),
  transport: Type.Optional(oneOf(TRANSPORTS)),
  path: Type.Optional(text()),
  probe: Type.Optional(text()),
  query: texts(),
  auth: Type.Optional(text()),
  service_account: Type.Optional(Type.Boolean()),
  headers: texts(),
  drop: Type.Optional(Type.Array(text(), { maxItems: 100 })),
  rename: texts(),
  extra_body: fields(),
  effort_fields: Type.Optional(EffortFields),
  developer_role: Type.Optional(oneOf(DEVELOPER_ROLES)),
  tool_ids: Type.Optional(oneOf(TOOL_IDS)),
  tool_choice: Type.Optional(oneOf(TOOL_CHOICES)),
  stream_options: Type.Optional(Type.Boolean()),
  api_version: Type.Optional(text()),
  betas: Type.Optional(Type.Array(text(), { maxItems: 50 })),
  embedding_inputs: limit(),
  embedding_tokens: limit(),
  ...mapLimits(limit),
} satisfies Record<keyof UpstreamSettings, TSchema>

const Upstream = closed({
  /** What a preset names says it, too. */
  dialect: Type.Optional(Type.Unsafe<DialectName>(text())),
  base_url: Type.Optional(text()),
  /** One reference, or several. */
  api_key: Type.Optional(Type.Union([text(), Type.Array(text(), { minItems: 1, maxItems: 50 })])),
  local: Type.Optional(Type.Boolean()),
  enabled: Type.Optional(Type.Boolean()),
  deadlines: Type.Optional(
    closed({ headers: time(), first_token: time(), idle: time(), total: time(), total_whole: time(), start: time() }),
  ),
  stop_command: Type.Optional(words()),
  health: Type.Optional(text()),
  idle: time(),
  memory: size(),
  device: Type.Optional(text()),
  pin: Type.Optional(Type.Boolean()),
  preload: Type.Optional(Type.Boolean()),
  ...OPTIONS,
})

const Pricing = Type.Array(
  closed({
    prompt: Type.String(),
    completion: Type.String(),
    input_cache_read: price(),
    input_cache_write: price(),
    input_cache_write_1h: price(),
    internal_reasoning: price(),
    audio: price(),
    audio_completion: price(),
    image_token: price(),
    image_token_completion: price(),
    /** Known, so that `check.ts` can tell what to write in its place. */
    image: price(),
    request: price(),
    web_search: price(),
    second: price(),
    mode: Type.Optional(text()),
    min_prompt_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
  }),
  { minItems: 1 },
)

const ROUTE_OPTIONS = {
  thinking: Type.Optional(oneOf(THINKING)),
  efforts: Type.Optional(Type.Array(oneOf(EFFORTS), { minItems: 1 })),
  thinking_off: Type.Optional(Type.Boolean()),
  thinking_unasked: Type.Optional(Type.Boolean()),
  sampling: Type.Optional(Type.Boolean()),
} satisfies Record<keyof RouteSettings, TSchema>

const Route = closed({
  upstream: text(),
  model: text(),
  priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
  weight: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
  pricing: Type.Optional(Pricing),
  context_length: tokens(),
  max_output_length: tokens(),
  supported_features: features(),
  enabled: Type.Optional(Type.Boolean()),
  ...ROUTE_OPTIONS,
})

const Model = closed({
  name: Type.Optional(text()),
  owned_by: Type.Optional(text()),
  /** Unix seconds. */
  created: Type.Optional(Type.Integer({ minimum: 0, maximum: 253_402_300_799 })),
  context_length: tokens(),
  max_output_length: tokens(),
  input_modalities: Type.Optional(Type.Array(oneOf(INPUT_MODALITIES), { minItems: 1 })),
  output_modalities: Type.Optional(Type.Array(oneOf(MODALITIES), { minItems: 1 })),
  supported_features: features(),
  pricing: Type.Optional(Pricing),
  routes: Type.Array(Route, { minItems: 1 }),
  enabled: Type.Optional(Type.Boolean()),
  /** Whether lists of models show it. */
  listed: Type.Optional(Type.Boolean()),
  /** Whether it is one of those that a wildcard stood for: an export has them one by one. */
  from_wildcard: Type.Optional(Type.Boolean()),
})

/** The model that it stands for, alone or with what else is said of the alias. */
const Alias = Type.Union([text(), closed({ model: text(), listed: Type.Optional(Type.Boolean()) })])

export const CatalogSchema = closed({
  version: Type.Literal(1),
  /** What the model servers that are started here may take together: of the machine, or of each device. */
  memory: Type.Optional(Type.Union([SIZE, Type.Record(Type.String(), SIZE, { maxProperties: 100 })])),
  upstreams: section(Upstream),
  models: section(Model),
  aliases: Type.Optional(section(Alias)),
})

export type CatalogFile = Static<typeof CatalogSchema>
export type UpstreamEntry = Static<typeof Upstream>
export type ModelEntry = Static<typeof Model>
export type PricingEntry = Static<typeof Pricing>

/** Lists the field names that the schema knows at a path. */
export function fieldsAt(path: readonly (string | number)[], schema: TSchema = CatalogSchema): string[] {
  const [segment, ...rest] = path
  const branches = toAlternatives(schema)
  if (segment === undefined) return branches.flatMap((branch) => Object.keys(branch.properties ?? {}))
  for (const branch of branches) {
    const next =
      branch[Kind] === 'Array'
        ? branch.items
        : (branch.properties?.[segment] ?? Object.values<TSchema>(branch.patternProperties ?? {})[0])
    if (next) return fieldsAt(rest, next)
  }
  return []
}
