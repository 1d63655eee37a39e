/** The API formats of upstreams, and the settings of an upstream in catalog and presets. */
import type { LimitName } from './limits.ts'
import type { Effort } from './models.ts'

/** `demo` is the built-in model. */
export const DIALECTS = ['openai', 'anthropic', 'gemini', 'ollama', 'demo'] as const
export type DialectName = (typeof DIALECTS)[number]

/** The dialect assumed for an upstream of which only the URL is known. */
export const USUAL_DIALECT: DialectName = 'openai'

/** True for the built-in model, which has no URL, needs no credential, and is free. */
export const isBuiltIn = ({ dialect }: { dialect: string }): boolean => dialect === 'demo'

/** The two names of the output cap; upstreams know one or both. */
export const MAX_TOKENS_FIELDS = ['max_tokens', 'max_completion_tokens'] as const

/** Transports other than our own HTTP client. */
export const TRANSPORTS = ['fetch'] as const

/** Units of reported costs: dollars, or ten-billionths of a dollar. */
export const COST_UNITS = ['usd', '1e-10usd'] as const

/** Restrictions of tool call IDs: nine letters and digits, or at most 40 characters. */
export const TOOL_IDS = ['alphanumeric_9', 'max_40'] as const

/** Restrictions of `tool_choice`. */
export const TOOL_CHOICES = ['auto'] as const

/** Where a response reports its cost: a dotted path, such as `usage.cost`. */
export interface ReportedCost {
  path: string
  unit: (typeof COST_UNITS)[number]
}

/** The role that `developer` instructions are sent as. */
export const DEVELOPER_ROLES = ['developer', 'system'] as const

/** Client formats that some upstreams speak too: those requests pass through unchanged. */
export const PASSTHROUGH_ENDPOINTS = ['messages', 'responses', 'completions'] as const
export type PassthroughEndpoint = (typeof PASSTHROUGH_ENDPOINTS)[number]

/** Settings of an upstream in the catalog. The limits are the provider's, shared by all keys. */
export interface UpstreamSettings extends Partial<Record<LimitName, number>> {
  /** Provider whose settings are the defaults: a name in `store/presets.yaml`. */
  preset?: string
  /** If Tollgate starts the server: hash of its `ProcessSpec`, which itself stays in its file. */
  process?: string
  /** Demo backend only: pause between chunks, ms. */
  pace_ms?: number
  /** The output cap's name here; null keeps the client's. */
  max_tokens_field?: (typeof MAX_TOKENS_FIELDS)[number] | null
  /** True if it returns several choices per call; otherwise `n` becomes parallel calls. */
  n?: boolean
  /** Replaces our own HTTP client. */
  transport?: (typeof TRANSPORTS)[number]
  /** True if it accepts the field `user`. */
  user?: boolean
  /** The API formats whose requests and responses pass through unchanged; false: none. */
  passthrough?: readonly PassthroughEndpoint[] | false
  /** Fields that are sent although they are withheld by default (`domain/fields.ts`); a trailing `*` matches any rest. */
  pass?: string[]
  /** True if `<think>` blocks in the content are reasoning. */
  think_tags?: boolean
  /** How long to keep reading usage after a client disconnects, such as `5s`, or `off`. */
  disconnect_grace?: string
  /** Upper bound of the output rate, to estimate output that nobody counted. */
  max_tokens_per_second?: number
  /** Path of chat requests below the base URL, if not the usual one; `{model}` is its model name. */
  path?: string
  /** Path of a free health check below the base URL without `/v1`; default: the model list. */
  probe?: string
  /** Query parameters of every request. */
  query?: Record<string, string>
  /** Credential header: `bearer`, or a header name with an optional scheme: `api-key`, `authorization Token`. */
  auth?: string
  /** True if a credential that is a path names a Google service account key file. */
  service_account?: boolean
  /** Extra headers of every request, by lowercase name. */
  headers?: Record<string, string>
  /** Request fields to remove, such as `seed`, `messages.name` (of each message), or deeper. */
  drop?: string[]
  /** Request fields to rename; of `messages.reasoning` the last part. */
  rename?: Record<string, string>
  /** Fields that override the client's in every request. */
  extra_body?: Record<string, unknown>
  /** Fields sent in place of each `reasoning_effort`; unlisted efforts are sent as they are. */
  effort_fields?: { [Name in 'none' | Effort]?: Record<string, unknown> }
  developer_role?: (typeof DEVELOPER_ROLES)[number]
  /** Tool call IDs that it accepts, if not all: others are converted. */
  tool_ids?: (typeof TOOL_IDS)[number]
  /** The tool choice that it accepts, if not all. */
  tool_choice?: (typeof TOOL_CHOICES)[number]
  /** True if it accepts `stream_options`, which requests usage. */
  stream_options?: boolean
  /** API version to request. */
  api_version?: string
  /** Beta features to request, by the provider's names. */
  betas?: string[]
  /** Where it reports its cost, if that is charged in place of the price list. */
  cost?: ReportedCost | 'off'
  /** Maximum inputs, and approximate tokens, per embeddings call; larger requests are split. */
  embedding_inputs?: number
  embedding_tokens?: number
}

/** Settings with another name in 0.1.0: catalog files and stored versions may still use it. */
export const RENAMED_SETTINGS = { native: 'passthrough', leave: 'disconnect_grace' } as const satisfies Record<
  string,
  keyof UpstreamSettings
>

/** Renames old settings, unless the new name is present too. @param onRenamed called with each old name. */
export function renameSettings<T extends object>(
  entry: T,
  onRenamed: (was: keyof typeof RENAMED_SETTINGS) => void = () => {},
): T {
  if (!Object.keys(RENAMED_SETTINGS).some((was) => was in entry)) return entry
  const isOld = (name: string): name is keyof typeof RENAMED_SETTINGS =>
    Object.hasOwn(RENAMED_SETTINGS, name) && !(RENAMED_SETTINGS[name as keyof typeof RENAMED_SETTINGS] in entry)
  return Object.fromEntries(
    Object.entries(entry).map(([name, value]) => {
      if (!isOld(name)) return [name, value]
      onRenamed(name)
      return [RENAMED_SETTINGS[name], value]
    }),
  ) as T
}

/** Settings with all defaults filled in. */
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
