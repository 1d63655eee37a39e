/** The wire formats that upstreams speak, and what is particular about an upstream, as the catalog and presets state it. */
import type { LimitName } from './limits.ts'
import type { Effort } from './models.ts'

/** The wire formats that upstreams speak, and the model that is built in. */
export const DIALECTS = ['openai', 'anthropic', 'gemini', 'ollama', 'demo'] as const
export type DialectName = (typeof DIALECTS)[number]

/** What an upstream speaks of which only an address is known. */
export const USUAL_DIALECT: DialectName = 'openai'

/** Whether an upstream is the model that is built in: it has no address, needs no credential, and costs nothing. */
export const isBuiltIn = ({ dialect }: { dialect: string }): boolean => dialect === 'demo'

/** The two names of the output cap; upstreams know one of them, or both. */
export const MAX_TOKENS_FIELDS = ['max_tokens', 'max_completion_tokens'] as const

/** How an upstream may be reached other than by our own HTTP. */
export const TRANSPORTS = ['fetch'] as const

/** In what an upstream says what a call costs: in dollars, or in ticks of a ten-billionth of one. */
export const COST_UNITS = ['usd', '1e-10usd'] as const

/** Which ids of tool calls an upstream takes that does not take all: nine letters and digits, or what is no longer than forty. */
export const TOOL_IDS = ['alphanumeric_9', 'max_40'] as const

/** Which choice of tools an upstream takes that does not take all. */
export const TOOL_CHOICES = ['auto'] as const

/** Where in an answer its upstream says what it charges: names parted by dots, such as `usage.cost`. */
export interface ReportedCost {
  path: string
  unit: (typeof COST_UNITS)[number]
}

/** Whom instructions of the role `developer` are sent as. */
export const DEVELOPER_ROLES = ['developer', 'system'] as const

/** Formats of clients that some upstreams speak themselves: such a request goes on as it came. */
export const PASSTHROUGH_ENDPOINTS = ['messages', 'responses', 'completions'] as const
export type PassthroughEndpoint = (typeof PASSTHROUGH_ENDPOINTS)[number]

/** What is particular about an upstream, as the catalogue states it. */
/** The limits are what its provider allows, all keys together. */
export interface UpstreamSettings extends Partial<Record<LimitName, number>> {
  /** The provider whose settings hold where nothing else is said: a name in `store/presets.yaml`. */
  preset?: string
  /** Where its server is started here: the hash of what it is run by, whose words stand in a file alone (`ProcessSpec`). */
  process?: string
  /** Demo backend only: pause between two chunks, in ms. */
  pace_ms?: number
  /** The name under which it takes the output cap; null sends the one that the client used. */
  max_tokens_field?: (typeof MAX_TOKENS_FIELDS)[number] | null
  /** Whether it writes several choices in one call; otherwise `n` becomes as many calls. */
  n?: boolean
  /** By what it is reached, where our own HTTP does not suit it. */
  transport?: (typeof TRANSPORTS)[number]
  /** Whether it takes the field `user`. */
  user?: boolean
  /** The API formats whose requests and responses pass through unchanged; false: none. */
  passthrough?: readonly PassthroughEndpoint[] | false
  /** Fields of a request that it is sent though others are not (`domain/fields.ts`); `*` at the end of one for any rest. */
  pass?: string[]
  /** Whether `<think>` blocks in its content are reasoning. */
  think_tags?: boolean
  /** How long to keep reading usage after a client disconnects, such as `5s`, or `off`. */
  disconnect_grace?: string
  /** What a choice has at most, where nobody saw how much was written. */
  max_tokens_per_second?: number
  /** Where chats go below its address, where that is not the usual place; `{model}` in it is its name of the model. */
  path?: string
  /** Below its address without `/v1`: what it is asked, for free, whether it could answer, where that is not its list of models. */
  probe?: string
  /** What is added to every address, behind a `?`. */
  query?: Record<string, string>
  /**
   * By which header it is told its credential: `bearer`, or the header's name, and perhaps a word to stand before the credential:
   * `api-key`, `authorization Token`.
   */
  auth?: string
  /** Whether a credential that is a path is the key file of one of Google's service accounts. */
  service_account?: boolean
  /** More headers of every request, by lower-case names. */
  headers?: Record<string, string>
  /** Fields of a request that it is not sent, such as `seed`, or `messages.name` of each message, or of what is deeper still. */
  drop?: string[]
  /** Fields of a request that have another name there; of `messages.reasoning`, its last part has. */
  rename?: Record<string, string>
  /** Fields that every request is sent with, whatever its client says. */
  extra_body?: Record<string, unknown>
  /** The fields that stand there for a `reasoning_effort`; an effort that is not named here is sent as it is. */
  effort_fields?: { [Name in 'none' | Effort]?: Record<string, unknown> }
  developer_role?: (typeof DEVELOPER_ROLES)[number]
  /** Which ids of tool calls it takes, where it does not take all: another upstream's are sent as such. */
  tool_ids?: (typeof TOOL_IDS)[number]
  /** Which choice of tools it takes, where it does not take all. */
  tool_choice?: (typeof TOOL_CHOICES)[number]
  /** Whether it takes `stream_options`, by which usage is asked for. */
  stream_options?: boolean
  /** The version of its API that it is asked for. */
  api_version?: string
  /** What of its API that is not for everybody yet it is asked for, by the provider's names. */
  betas?: string[]
  /** Where it says what a call costs, if that is what counts, and not the price sheet. */
  cost?: ReportedCost | 'off'
  /** How many inputs, and about how many tokens, one call for embeddings takes; what is more becomes several calls. */
  embedding_inputs?: number
  embedding_tokens?: number
}

/** Settings that had another name in 0.1.0: catalog files and stored versions may still say it. */
export const RENAMED_SETTINGS = { native: 'passthrough', leave: 'disconnect_grace' } as const satisfies Record<
  string,
  keyof UpstreamSettings
>

/** Moves each old name to the new one, unless that is there, too. @param onRenamed called with each old name. */
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

/** The settings with every default filled in. */
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
