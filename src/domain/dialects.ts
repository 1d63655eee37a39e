/** Dialects and settings of upstreams. */
import { keysOf } from './json.ts'
import type { LimitName } from './limits.ts'
import type { Effort } from './models.ts'

/** `demo` is the built-in model. */
export const DIALECTS = ['openai', 'anthropic', 'gemini', 'ollama', 'demo'] as const
export type DialectName = (typeof DIALECTS)[number]

/** Default if only the URL is known. */
export const USUAL_DIALECT: DialectName = 'openai'

/** Has no URL, needs no credential, and is free. */
export const isBuiltIn = ({ dialect }: { dialect: string }): boolean => dialect === 'demo'

export const MAX_TOKENS_FIELDS = ['max_tokens', 'max_completion_tokens'] as const

/** Besides our own HTTP client. */
export const TRANSPORTS = ['fetch'] as const

export const COST_UNITS = ['usd', '1e-10usd'] as const

/** Nine letters and digits, or at most 40 characters. */
export const TOOL_IDS = ['alphanumeric_9', 'max_40'] as const

export const TOOL_CHOICES = ['auto'] as const

/** `path` is dotted, such as `usage.cost`. */
export interface ReportedCost {
  path: string
  unit: (typeof COST_UNITS)[number]
}

export const RERANKS = ['texts', 'queries'] as const

export const IMAGES = ['base64', 'aspect_ratio', 'workflows'] as const

/** Requests that an upstream takes in its own batches, by the path of a single request. */
export const BATCH_PATHS = {
  chat: '/chat/completions',
  responses: '/responses',
  completions: '/completions',
  embeddings: '/embeddings',
  messages: '/messages',
} as const
export const BATCH_REQUESTS = keysOf(BATCH_PATHS)
export type BatchRequests = (typeof BATCH_REQUESTS)[number]

export const DEVELOPER_ROLES = ['developer', 'system'] as const

export const PASSTHROUGH_ENDPOINTS = ['messages', 'responses', 'completions', 'gemini'] as const
export type PassthroughEndpoint = (typeof PASSTHROUGH_ENDPOINTS)[number]

/** The limits are the provider's, shared by all keys. */
export interface UpstreamSettings extends Partial<Record<LimitName, number>> {
  /** Its settings are the defaults (`store/presets.yaml`). */
  preset?: string
  /** Hash of the `ProcessSpec`, if Tollgate starts the server. */
  process?: string
  /** Demo only: ms between chunks. */
  pace_ms?: number
  /** null keeps the client's name. */
  max_tokens_field?: (typeof MAX_TOKENS_FIELDS)[number] | null
  /** False: `n` becomes parallel calls. */
  n?: boolean
  transport?: (typeof TRANSPORTS)[number]
  /** Accepts the field `user`. */
  user?: boolean
  /** Formats that pass through unchanged. */
  passthrough?: readonly PassthroughEndpoint[] | false
  /** Requests that it takes in batches; a model also needs a price with `mode: batch`. */
  batches?: readonly BatchRequests[]
  /** Sent despite `domain/fields.ts`; a trailing `*` matches any rest. */
  pass?: string[]
  /** `<think>` blocks are reasoning. */
  think_tags?: boolean
  /** Such as `5s`, or `off`. */
  disconnect_grace?: string
  /** To estimate output without reported usage. */
  max_tokens_per_second?: number
  /** Path of chat requests, if not the default; `{model}` is the upstream's model name. */
  path?: string
  /** Path of a free health check, under the base URL without `/v1`; default: the model list. */
  probe?: string
  query?: Record<string, string>
  /** `bearer`, or a header with an optional scheme: `api-key`, `authorization Token`. */
  auth?: string
  /** A credential that is a path names a Google service account key file. */
  service_account?: boolean
  /** By lowercase name. */
  headers?: Record<string, string>
  /** Such as `seed`, or `messages.name` of each message. */
  drop?: string[]
  /** Of `messages.reasoning` the last part is renamed. */
  rename?: Record<string, string>
  /** Overrides the client's fields. */
  extra_body?: Record<string, unknown>
  /** Sent in place of `reasoning_effort`; unlisted efforts are sent unchanged. */
  effort_fields?: { [Name in 'none' | Effort]?: Record<string, unknown> }
  developer_role?: (typeof DEVELOPER_ROLES)[number]
  /** Other IDs are converted. */
  tool_ids?: (typeof TOOL_IDS)[number]
  tool_choice?: (typeof TOOL_CHOICES)[number]
  /** Accepts `stream_options`, which requests usage. */
  stream_options?: boolean
  api_version?: string
  betas?: string[]
  /** Charged in place of the price list. */
  cost?: ReportedCost | 'off'
  /** Approximate maximum per call; larger requests are split. */
  embedding_inputs?: number
  embedding_tokens?: number
  /** Format of its rerank requests, if not the default: `texts` for TEI, `queries` for DeepInfra. */
  rerank?: (typeof RERANKS)[number]
  /** Format of its image requests, if not OpenAI's: `base64` for Together, `aspect_ratio` for xAI, `workflows` for Fireworks. */
  images?: (typeof IMAGES)[number]
}

/** Names from 0.1.0, which files and stored versions may still use. */
export const RENAMED_SETTINGS = { native: 'passthrough', leave: 'disconnect_grace' } as const satisfies Record<
  string,
  keyof UpstreamSettings
>

/** Ignores an old name if the new one is present. @param onRenamed gets each old name. */
export function renameSettings<T extends object>(
  entry: T,
  onRenamed: (was: keyof typeof RENAMED_SETTINGS) => void = () => {},
): T {
  const old = keysOf(RENAMED_SETTINGS).filter((was) => was in entry && !(RENAMED_SETTINGS[was] in entry))
  if (old.length === 0) return entry
  for (const was of old) onRenamed(was)
  const toNow = new Map<string, string>(old.map((was) => [was, RENAMED_SETTINGS[was]]))
  return Object.fromEntries(Object.entries(entry).map(([name, value]) => [toNow.get(name) ?? name, value])) as T
}

export type UpstreamOptions = Omit<UpstreamSettings, 'cost'> & { cost?: ReportedCost } & Required<
    Pick<
      UpstreamSettings,
      | 'max_tokens_field'
      | 'n'
      | 'passthrough'
      | 'user'
      | 'think_tags'
      | 'pass'
      | 'max_tokens_per_second'
      | 'embedding_inputs'
    >
  >
