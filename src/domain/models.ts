/** Facts about models. */
import { keysOf } from './json.ts'
import type { ServerState } from './model-server.ts'
import type { OtherEndpoint, RecordedEndpoint } from './task.ts'
import type { PricingItem } from './usage.ts'

/** Catalog layers, weakest first. */
export const ORIGIN_WORDS = {
  builtin: 'built-in',
  discovered: "from an upstream's list",
  file: 'catalog file',
  admin: 'set manually',
} as const
export type Origin = keyof typeof ORIGIN_WORDS
export const ORIGINS = keysOf(ORIGIN_WORDS)

export const THINKING = ['adaptive', 'budget', 'none'] as const
export const EFFORTS = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Effort = (typeof EFFORTS)[number]

export interface RouteSettings {
  thinking?: (typeof THINKING)[number]
  /** Others become the nearest one. */
  efforts?: Effort[]
  /** Reasoning can be disabled. */
  thinking_off?: boolean
  /** Reasons by default. */
  thinking_unasked?: boolean
  /** Accepts `temperature`, `top_p`, and `top_k`. */
  sampling?: boolean
}

const INPUT_WORDS = { text: 'text', image: 'images', file: 'files', audio: 'audio', video: 'video' } as const
/** Modalities of models that have their own endpoint (`MAKES`), such as embeddings at `/v1/embeddings`. */
const ENDPOINT_WORDS = {
  embeddings: 'embeddings',
  rerank: 'reranking',
  moderation: 'moderation',
  transcription: 'transcription',
  speech: 'speech',
  realtime: 'realtime',
} as const
export const MODALITY_WORDS = { ...INPUT_WORDS, ...ENDPOINT_WORDS } as const
export type Modality = keyof typeof MODALITY_WORDS
export const ENDPOINT_MODALITIES = keysOf(ENDPOINT_WORDS)
export const INPUT_MODALITIES = keysOf(INPUT_WORDS)
export const MODALITIES = keysOf(MODALITY_WORDS)

/** Output of the models that each endpoint other than chat is for. */
export const MAKES: Readonly<Record<OtherEndpoint, Modality>> = {
  embeddings: 'embeddings',
  rerank: 'rerank',
  moderations: 'moderation',
  transcriptions: 'transcription',
  translations: 'transcription',
  speech: 'speech',
  images: 'image',
  image_edits: 'image',
}

/** Models with only these outputs can't chat. */
const ONLY: ReadonlySet<string> = new Set(Object.values(MAKES))

export type CalledEndpoint = 'chat' | OtherEndpoint | 'realtime'

/** Endpoints for models with these outputs; chat first. Realtime models work in sessions only. */
export const endpointsOf = (made: readonly string[]): CalledEndpoint[] =>
  made.includes('realtime')
    ? ['realtime']
    : [
        ...(made.some((modality) => !ONLY.has(modality)) ? (['chat'] as const) : []),
        ...keysOf(MAKES).filter((endpoint) => made.includes(MAKES[endpoint])),
      ]

/** Output that a model needs for the endpoint; null: any chat model. */
export const outputFor = (endpoint: RecordedEndpoint): Modality | null => {
  if (endpoint === 'realtime') return endpoint
  return isOther(endpoint) ? MAKES[endpoint] : null
}

export const isOther = (endpoint: RecordedEndpoint): endpoint is OtherEndpoint => endpoint in MAKES

export const FEATURE_WORDS = {
  tools: 'tools',
  json_mode: 'JSON',
  structured_outputs: 'JSON schemas',
  logprobs: 'log probabilities',
  web_search: 'web search',
  reasoning: 'reasoning',
} as const
export type Feature = keyof typeof FEATURE_WORDS
export const FEATURES = keysOf(FEATURE_WORDS)

export interface ModelField {
  kind: 'tokens' | 'features' | 'flag'
  says: string
  label: string
  /** On a model's page; absent: shown above. */
  fact?: string
  /** Meaning of false. */
  no?: string
}
export type ModelFieldName = 'context_length' | 'max_output_length' | 'supported_features' | 'enabled' | 'listed'

/** Editable, besides prices. */
export const MODEL_FIELDS: Readonly<Record<ModelFieldName, ModelField>> = {
  context_length: {
    ...{
      kind: 'tokens',
      says: 'Context window: maximum tokens of prompt and response together.',
      label: 'Context window, tokens',
    },
  },
  max_output_length: {
    ...{ kind: 'tokens', says: 'Maximum output tokens.' },
    ...{ label: 'Max output tokens', fact: 'Max output' },
  },
  supported_features: {
    ...{ kind: 'features', says: 'Capabilities, such as `tools`.', label: 'Capabilities', fact: 'Capabilities' },
  },
  enabled: { kind: 'flag', says: 'False: it cannot be called.', label: 'Enabled', no: 'requests for it fail' },
  listed: {
    ...{ kind: 'flag', says: 'True if model lists show it.', label: 'Show in model lists' },
    ...{ fact: 'Listed', no: 'hidden from model lists, but can be called' },
  },
}

export const eachModelField = <Said>(say: (name: ModelFieldName, field: ModelField) => Said): Said[] =>
  keysOf(MODEL_FIELDS).map((name) => say(name, MODEL_FIELDS[name]))

/** Entry of `GET /v1/models`. Optional fields are `alias_of` and those of local servers. */
export interface Model {
  /** Or alias. */
  id: string
  object: 'model'
  owned_by: string
  /** Unix seconds. */
  created: number
  name: string
  context_length: number
  max_output_length: number
  input_modalities: Modality[]
  output_modalities: Modality[]
  supported_features: Feature[]
  pricing: (PricingItem & { input_cache_read: string })[]
  alias_of?: string
  is_ready: boolean
  /** Such as `Q4_K_M`. */
  quantization?: string
  size_bytes?: number
  /** If Tollgate starts it. */
  state?: ServerState
  /** null before the first measurement. */
  tokens_per_second?: number | null
}

/** Reason of a route whose upstream is disabled; the dashboard recognizes such routes by it. */
export const UPSTREAM_DISABLED = 'its upstream is disabled'
