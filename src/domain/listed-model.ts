/** What a provider's own list says of a model, whatever its format; what it does not say is left out. Types only. */
import type { Feature, Modality, RouteSettings } from './settings.ts'
import type { PricingItem } from './usage.ts'

export interface ListedModel {
  /** As the provider is asked for it. */
  id: string
  name?: string
  /** Tokens. */
  contextLength?: number
  /** Tokens of one request, as a server of one's own has it loaded now, however the catalogue has it. */
  servedContext?: number
  /** Tokens that it was trained with, of which a server of one's own takes no more, whatever it is asked for. */
  trainedContext?: number
  maxOutputLength?: number
  inputModalities?: Modality[]
  outputModalities?: Modality[]
  /** All that it can, where the list says that of every feature. */
  supportedFeatures?: Feature[]
  /** Features that it can or cannot; of the others nothing is said. */
  can?: { [Name in Feature]?: boolean }
  /** USD per token. */
  pricing?: PricingItem[]
  /** How it thinks, and what it takes. */
  options?: RouteSettings
  /** How many parameters it has, in its server's words, such as `3.2B`. */
  parameters?: string
  /** How its weights are kept, such as `Q4_K_M`. */
  quantization?: string
  /** Of its file. */
  sizeBytes?: number
  /** Whether a server of one's own has it answered by somebody else, who is paid. */
  isElsewhere?: boolean
  /** False where it is for something else, such as embeddings. */
  canChat?: boolean
  /** What of it could not be used, in words that go on behind its name. */
  oddities?: string[]
}
