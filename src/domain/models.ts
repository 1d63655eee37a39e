/** What is said of models: where it is from, what a model reads, makes and can, how it thinks, and the public Model object. */
import { keysOf } from './json.ts'
import type { ServerState } from './model-server.ts'
import type { PricingItem } from './usage.ts'

/** The layers of the catalog, weakest first: what a later one says counts. `admin` is what was changed by hand. */
export const ORIGIN_WORDS = {
  builtin: 'built in',
  discovered: 'found on this machine',
  file: 'a catalogue file',
  admin: 'set by hand',
} as const
export type Origin = keyof typeof ORIGIN_WORDS
export const ORIGINS = keysOf(ORIGIN_WORDS)

/** How a model is asked to think: by an effort, by a number of tokens, or not at all. */
export const THINKING = ['adaptive', 'budget', 'none'] as const
export const EFFORTS = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Effort = (typeof EFFORTS)[number]

/** What is particular about a model where a route leads to it, as the catalog states it. */
export interface RouteSettings {
  thinking?: (typeof THINKING)[number]
  /** The efforts that it knows; another one becomes the nearest of them. */
  efforts?: Effort[]
  /** Whether it can be told not to think. */
  thinking_off?: boolean
  /** Whether it thinks where nobody asks it to. */
  thinking_unasked?: boolean
  /** Whether it takes `temperature`, `top_p` and `top_k`. */
  sampling?: boolean
}

const INPUT_WORDS = { text: 'text', image: 'images', file: 'files', audio: 'audio', video: 'video' } as const
/** What a model reads or makes. One of embeddings is asked by `/v1/embeddings`, any other by the other endpoints. */
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
  /** What it means: for whoever reads the admin API. */
  says: string
  /** In forms. */
  label: string
  /** Its name among the facts of a model's page; none: it stands above them. */
  fact?: string
  /** What no means, of a flag. */
  no?: string
}
export type ModelFieldName = 'context_length' | 'max_output_length' | 'supported_features' | 'enabled' | 'listed'

/** What is said of a model by hand, beside its prices. */
export const MODEL_FIELDS: Readonly<Record<ModelFieldName, ModelField>> = {
  context_length: {
    ...{ kind: 'tokens', says: 'Tokens that prompt and answer have together, at most.', label: 'Context, tokens' },
  },
  max_output_length: {
    ...{ kind: 'tokens', says: 'Tokens that an answer has, at most.' },
    ...{ label: 'Longest answer, tokens', fact: 'Answers' },
  },
  supported_features: {
    ...{ kind: 'features', says: 'What it can do, such as `tools`.', label: 'What it can', fact: 'Can' },
  },
  enabled: { kind: 'flag', says: 'False: it cannot be called.', label: 'Can be asked', no: 'it is disabled' },
  listed: {
    ...{ kind: 'flag', says: 'Whether lists of models show it.', label: 'In lists of models' },
    ...{ fact: 'Listed', no: 'it can be asked, and is left out of lists of models' },
  },
}

/** Says something of each. */
export const eachModelField = <Said>(say: (name: ModelFieldName, field: ModelField) => Said): Said[] =>
  keysOf(MODEL_FIELDS).map((name) => say(name, MODEL_FIELDS[name]))

/** What `GET /v1/models` lists. All fields always present, but for `alias_of` and those of models that are answered by a local server. */
export interface Model {
  /** The slug, or the alias. */
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
  /** The slug of the model that an alias stands for. */
  alias_of?: string
  is_ready: boolean
  /** How the weights are kept that its server has, such as `Q4_K_M`, where that says it. */
  quantization?: string
  /** Of the file of those, where its server says it. */
  size_bytes?: number
  /** Where its server is started here. */
  state?: ServerState
  /** How fast an answer was written of late, by a local server; null before any was measured. */
  tokens_per_second?: number | null
}
