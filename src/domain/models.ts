/** What is said of models: where it is from, what a model reads, makes and can, how it thinks, and the public Model object. */
import type { ServerState } from './model-server.ts'
import type { PricingItem } from './usage.ts'

/** The layers of the catalog, weakest first: what a later one says counts. `admin` is what was changed by hand. */
export const ORIGINS = ['builtin', 'discovered', 'file', 'admin'] as const
export type Origin = (typeof ORIGINS)[number]

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

/** What a model reads. */
export const INPUT_MODALITIES = ['text', 'image', 'file', 'audio', 'video'] as const
/** What it reads or makes. One of embeddings is asked by `/v1/embeddings`, any other by the other endpoints. */
export const MODALITIES = [...INPUT_MODALITIES, 'embeddings'] as const
export type Modality = (typeof MODALITIES)[number]

export const FEATURES = ['tools', 'json_mode', 'structured_outputs', 'logprobs', 'web_search', 'reasoning'] as const
export type Feature = (typeof FEATURES)[number]

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
