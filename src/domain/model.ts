/** The vocabulary of the catalogue and the public Model object. */
import type { PricingItem } from './usage.ts'

export const MODALITIES = ['text', 'image', 'file', 'audio', 'video'] as const
export type Modality = (typeof MODALITIES)[number]

export const FEATURES = ['tools', 'json_mode', 'structured_outputs', 'logprobs', 'web_search', 'reasoning'] as const
export type Feature = (typeof FEATURES)[number]

/** What `GET /v1/models` lists. All fields always present. */
export interface Model {
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
  is_ready: boolean
}
