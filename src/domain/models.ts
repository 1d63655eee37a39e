/** Facts about models: origin, modalities, features, reasoning, and the public Model object. */
import { keysOf } from './json.ts'
import type { ServerState } from './model-server.ts'
import type { PricingItem } from './usage.ts'

/** Catalog layers, weakest first: later ones override. `admin`: manual changes. */
export const ORIGIN_WORDS = {
  builtin: 'built-in',
  discovered: 'discovered on this machine',
  file: 'catalog file',
  admin: 'set manually',
} as const
export type Origin = keyof typeof ORIGIN_WORDS
export const ORIGINS = keysOf(ORIGIN_WORDS)

/** How reasoning is requested: by effort, by a token budget, or not at all. */
export const THINKING = ['adaptive', 'budget', 'none'] as const
export const EFFORTS = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Effort = (typeof EFFORTS)[number]

/** Catalog settings of a model on one route. */
export interface RouteSettings {
  thinking?: (typeof THINKING)[number]
  /** Efforts that it accepts; others become the nearest one. */
  efforts?: Effort[]
  /** True if reasoning can be disabled. */
  thinking_off?: boolean
  /** True if it reasons by default. */
  thinking_unasked?: boolean
  /** True if it accepts `temperature`, `top_p`, and `top_k`. */
  sampling?: boolean
}

const INPUT_WORDS = { text: 'text', image: 'images', file: 'files', audio: 'audio', video: 'video' } as const
/** Input and output modalities. Models with `embeddings` are called at `/v1/embeddings`, all others at the other endpoints. */
export const MODALITY_WORDS = { ...INPUT_WORDS, embeddings: 'embeddings' } as const
export type Modality = keyof typeof MODALITY_WORDS
export const INPUT_MODALITIES = keysOf(INPUT_WORDS)
export const MODALITIES = keysOf(MODALITY_WORDS)

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
  /** For the admin API. */
  says: string
  /** In forms. */
  label: string
  /** Label among the facts on a model's page; absent: shown above them. */
  fact?: string
  /** Meaning of "no", for flags. */
  no?: string
}
export type ModelFieldName = 'context_length' | 'max_output_length' | 'supported_features' | 'enabled' | 'listed'

/** Facts of a model that can be edited, besides prices. */
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
  enabled: { kind: 'flag', says: 'False: it cannot be called.', label: 'Enabled', no: 'disabled' },
  listed: {
    ...{ kind: 'flag', says: 'True if model lists show it.', label: 'Show in model lists' },
    ...{ fact: 'Listed', no: 'hidden from model lists, but can be called' },
  },
}

export const eachModelField = <Said>(say: (name: ModelFieldName, field: ModelField) => Said): Said[] =>
  keysOf(MODEL_FIELDS).map((name) => say(name, MODEL_FIELDS[name]))

/** Entry of `GET /v1/models`. All fields are always present, except `alias_of` and those of models on local servers. */
export interface Model {
  /** Model ID or alias. */
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
  /** Model ID that the alias stands for. */
  alias_of?: string
  is_ready: boolean
  /** Quantization on its server, such as `Q4_K_M`, if reported. */
  quantization?: string
  /** Size of the weights' file, if reported. */
  size_bytes?: number
  /** For servers that Tollgate starts. */
  state?: ServerState
  /** Recent output rate of a local server; null before the first measurement. */
  tokens_per_second?: number | null
}
