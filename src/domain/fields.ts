/**
 * Which top-level fields of a request are not a client's to send. Fields that this server does not know travel on to
 * upstreams that speak the format, and many of those are gateways, providers or engines with fields of their own: by some
 * another model, price, address or key would be chosen, by others somebody else's stored data be read. The names are those
 * that LiteLLM, OpenRouter, Vercel's, Cloudflare's, Portkey's and Helicone's gateways, Bifrost, TensorZero, Azure, vLLM and
 * the providers read from a body. An upstream's option `pass` names those that it may be sent all the same. Pure.
 */
import { toRequestNames } from './request-names.macro.ts' with { type: 'macro' }

/** No name that is looked for is longer. */
const MAX_CHARS = 64

/**
 * Reduces a name to letters and digits without case. Receivers differ in what they take for the same name: Go's
 * `encoding/json` folds case, `ſ` and the Kelvin sign included, and others read `apiBase`, `api-base` and `api_base` alike.
 */
export const toPlainName = (name: string): string =>
  name
    .slice(0, MAX_CHARS)
    .toUpperCase()
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '')

/** Made on first need, as what else is worked out of all names: nearly no request has an unknown one. */
let plainNames: ReadonlySet<string> | null = null

function isPlainName(plain: string): boolean {
  plainNames ??= new Set([...REQUEST_NAMES].map(toPlainName))
  return plainNames.has(plain)
}

/**
 * Whether a name is one of the request's own, written otherwise (`Model`, `maxTokens`): nobody here has looked at what it
 * holds, and a receiver may read it in place of the right one.
 */
export const isMiswritten = (name: string): boolean =>
  !REQUEST_NAMES.has(name) && !USUAL_NAME.test(name) && isPlainName(toPlainName(name))

/** As all of them are written; no receiver takes two such names for one. */
const USUAL_NAME = /^[a-z0-9_]*$/

/** Beginnings, and parts, of names by which a gateway is told what to do. */
const ROUTING_FAMILY =
  /^(?:model|litellm|portkey|helicone|tensorzero|azure|aws|vertex|bedrock|sagemaker|watsonx|s3|gcs|langfuse|langsmith|arize|posthog|humanloop|wandb|mock)|fallback|costper|credential/

const ROUTING: ReadonlySet<string> = new Set(
  [
    // Another model, provider or route of a gateway's
    'provider providers provider_options provider_specific_header route router routing routing_strategy order preset tags',
    'gateway config user_config strategy targets override_params custom_llm_provider custom_provider engine deployment',
    'deployments deployment_id deployment_name specific_deployment base_model compound_custom plugins transforms prompt_id',
    'prompt_version prompt_label prompt_variables guardrails disable_global_guardrails region region_name location',
    'allowed_model_region allowed_openai_params drop_params additional_drop_params use_litellm_proxy tiered_pricing pricing',
    // Another adapter of the model's, or another replica
    'adapter adapter_id adapter_source lora_path data_parallel_rank routed_dp_rank bootstrap_host bootstrap_port bootstrap_room',
    // Another address or key
    'api_base api_key api_keys api_type api_version base_url api_url api_host host endpoint endpoint_url target_url url',
    'custom_host deployment_url proxy organization project project_id tenant_id client_id client_secret auth authorization',
    'access_token virtual_key byok headers extra_headers default_headers extra_query default_query kv_transfer_params',
    'callbacks success_callback failure_callback',
    // Whatever the receiver merges into the request that it makes
    'extra_body extra_params extra_fields',
    // More calls than one, or another turn in a queue
    'retry retries num_retries max_retries retry_policy retry_strategy timeout request_timeout stream_timeout force_timeout',
    'priority weight fastest_response cooldown_time rpm tpm max_parallel_requests max_budget budget_duration',
    // Another cap than the one that is reserved: llama-server takes `n_predict` before `max_tokens`
    'n_predict num_predict max_new_tokens max_output_tokens max_tokens_to_sample max_gen_len',
    // More choices than are reserved: llama-server takes `n_cmpl` before `n`
    'n_cmpl best_of',
    // Answers that were made for somebody else
    'cache caching caching_groups cache_key preset_cache_key',
  ].flatMap((line) => line.split(' ').map(toPlainName)),
)

/** Whether a field tells a receiver to choose otherwise; such fields are left out. False for the request's own. */
export function isRouting(name: string): boolean {
  if (REQUEST_FIELDS.has(name)) return false
  const plain = toPlainName(name)
  return ROUTING.has(plain) || ROUTING_FAMILY.test(plain)
}

/**
 * Why a field is refused: `stored`, it names what lies with the provider, where all keys are one account; `later`, its
 * answer would not come in the response; `account`, it chooses whose account is used or what that may do; `dear`, it raises the
 * price; `fee`, what it asks for is charged beside the tokens; `unknown`, nobody here knows what it does.
 */
export type RefusalReason = 'stored' | 'later' | 'account' | 'dear' | 'fee' | 'unknown'

const REFUSED: ReadonlyMap<string, RefusalReason> = new Map(
  Object.entries({
    stored: [
      'previous_response_id conversation prompt container file_id vector_store_ids knowledge_bases cached_content',
      'data_sources mcp_servers thread',
    ],
    later: ['background deferred'],
    account: ['billing_policy access_programs'],
    dear: ['service_tier speed inference_geo performance_config'],
    fee: [
      'web_search web_search_options enable_web_search enterprise_web_search search_parameters search_options',
      'enable_search google_search google_search_retrieval google_maps url_context code_execution enhancements',
    ],
  } satisfies Record<Exclude<RefusalReason, 'unknown'>, string[]>).flatMap(([reason, lines]) =>
    lines.flatMap((line) =>
      line.split(' ').map((name): [string, RefusalReason] => [toPlainName(name), reason as RefusalReason]),
    ),
  ),
)

/**
 * Tools that run at the provider, by how their types begin; those that are not here cost no more than their tokens. A `price` is the
 * one by which a sheet may charge their use.
 */
const TOOLS: readonly { begins: RegExp; name: string; reason: RefusalReason; price?: 'web_search' }[] = [
  { begins: /^(?:openrouter)?websearch/, name: 'web_search', reason: 'fee', price: 'web_search' },
  // Pictures, a shell, other models: https://openrouter.ai/docs/guides/features/server-tools
  { begins: /^openrouter(?!datetime)/, name: 'openrouter', reason: 'fee' },
  { begins: /^xsearch/, name: 'x_search', reason: 'fee' },
  { begins: /^codeexecution/, name: 'code_execution', reason: 'fee' },
  { begins: /^codeinterpreter/, name: 'code_interpreter', reason: 'fee' },
  { begins: /^imagegeneration/, name: 'image_generation', reason: 'fee' },
  { begins: /^shell$/, name: 'shell', reason: 'fee' },
  { begins: /^programmatictoolcalling/, name: 'programmatic_tool_calling', reason: 'fee' },
  { begins: /^advisor/, name: 'advisor', reason: 'fee' },
  { begins: /^filesearch/, name: 'file_search', reason: 'stored' },
  { begins: /^collectionssearch/, name: 'collections_search', reason: 'stored' },
  { begins: /^mcp/, name: 'mcp_servers', reason: 'stored' },
]

/** Why a tool of this type is refused, and what `pass` calls it; null where it is not. */
export function reasonToRefuseTool(type: string): Omit<(typeof TOOLS)[number], 'begins'> | null {
  const plain = toPlainName(type)
  const found = TOOLS.find(({ begins }) => begins.test(plain))
  if (!found) return null
  const { begins: _, ...told } = found
  return told
}

/** Whether names that the schema knows have to be looked at: nearly none. Found out for each at its first use. */
const suspected = new Map<string, boolean>()

function isSuspected(name: string): boolean {
  const known = suspected.get(name)
  if (known !== undefined) return known
  if (!REQUEST_NAMES.has(name)) return true
  const found = REFUSED.has(toPlainName(name))
  suspected.set(name, found)
  return found
}

/** Values that ask for nothing beyond the usual. */
const USUAL: Readonly<Record<string, readonly unknown[]>> = {
  servicetier: ['auto', 'default', 'flex', 'standard_only'],
  speed: ['standard'],
  inferencegeo: ['global'],
}

/** Why a field with this value is refused; null where it is not. */
export function reasonToRefuse(name: string, value: unknown): RefusalReason | null {
  if (!isSuspected(name)) return null
  const plain = toPlainName(name)
  const reason = REFUSED.get(plain)
  if (reason === undefined || value === null || value === false || USUAL[plain]?.includes(value)) return null
  return reason
}

/** Whether an upstream's `pass` has to name a field before the upstream is sent it. */
export const isHeldBack = (name: string): boolean => isRouting(name) || REFUSED.has(toPlainName(name))

/** @param pass names as the catalogue has them; one that ends in `*` stands for all that begin so. */
export function isPassed(pass: readonly string[], name: string): boolean {
  if (pass.length === 0) return false
  const plain = toPlainName(name)
  return pass.some((one) => (one.endsWith('*') ? plain.startsWith(toPlainName(one)) : plain === toPlainName(one)))
}

const { fields, nullable, all } = toRequestNames()

/** Fields of the request itself. */
export const REQUEST_FIELDS: ReadonlySet<string> = new Set(fields)
/** Fields that some message may leave out. */
export const NULLABLE_OF_MESSAGES: ReadonlySet<string> = new Set(nullable)
/** All names that the schema knows, at whatever depth. */
const REQUEST_NAMES: ReadonlySet<string> = new Set(all)
