/**
 * Top-level fields that clients may not set. Unknown fields go to upstreams of the same format, where some gateways and engines read another model, price,
 * address, or key, or someone else's data from them. Names are those of LiteLLM, OpenRouter, Vercel's, Cloudflare's, Portkey's, and Helicone's gateways,
 * Bifrost, TensorZero, Azure, vLLM, and the providers. An upstream's `pass` allows some.
 */
import { toRequestNames } from './request-names.macro.ts' with { type: 'macro' }

/** No name in the lists is longer. */
const MAX_CHARS = 64

/**
 * Letters and digits only: Go's `encoding/json` folds case, including `ſ` and the Kelvin sign, and others treat `apiBase`, `api-base`, and `api_base` alike.
 */
export const toPlainName = (name: string): string =>
  name
    .slice(0, MAX_CHARS)
    .toUpperCase()
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '')

/** Created on first use. */
let plainNames: ReadonlySet<string> | null = null

function isPlainName(plain: string): boolean {
  plainNames ??= new Set([...REQUEST_NAMES].map(toPlainName))
  return plainNames.has(plain)
}

/** A known name in another spelling (`Model`, `maxTokens`): unchecked, and a receiver may prefer it. */
export const isMiswritten = (name: string): boolean =>
  !REQUEST_NAMES.has(name) && !USUAL_NAME.test(name) && isPlainName(toPlainName(name))

/** No receiver confuses two such names. */
const USUAL_NAME = /^[a-z0-9_]*$/

const ROUTING_FAMILY =
  /^(?:model|litellm|portkey|helicone|tensorzero|azure|aws|vertex|bedrock|sagemaker|watsonx|s3|gcs|langfuse|langsmith|arize|posthog|humanloop|wandb|mock)|fallback|costper|credential/

const ROUTING: ReadonlySet<string> = new Set(
  [
    // Another model, provider, or route of a gateway
    'provider providers provider_options provider_specific_header route router routing routing_strategy order preset tags',
    'gateway config user_config strategy targets override_params custom_llm_provider custom_provider engine deployment',
    'deployments deployment_id deployment_name specific_deployment base_model compound_custom plugins transforms prompt_id',
    'prompt_version prompt_label prompt_variables guardrails disable_global_guardrails region region_name location',
    'allowed_model_region allowed_openai_params drop_params additional_drop_params use_litellm_proxy tiered_pricing pricing',
    // Another adapter or replica of the model
    'adapter adapter_id adapter_source lora_path data_parallel_rank routed_dp_rank bootstrap_host bootstrap_port bootstrap_room',
    // Another address or key
    'api_base api_key api_keys api_type api_version base_url api_url api_host host endpoint endpoint_url target_url url',
    'custom_host deployment_url proxy organization project project_id tenant_id client_id client_secret auth authorization',
    'access_token virtual_key byok headers extra_headers default_headers extra_query default_query kv_transfer_params',
    'callbacks success_callback failure_callback',
    // Merged by the receiver into its own request
    'extra_body extra_params extra_fields',
    // More calls, or another place in a queue
    'retry retries num_retries max_retries retry_policy retry_strategy timeout request_timeout stream_timeout force_timeout',
    'priority weight fastest_response cooldown_time rpm tpm max_parallel_requests max_budget budget_duration',
    // An output cap other than the reserved one: llama-server prefers `n_predict` over `max_tokens`
    'n_predict num_predict max_new_tokens max_output_tokens max_tokens_to_sample max_gen_len',
    // More choices than reserved: llama-server prefers `n_cmpl` over `n`
    'n_cmpl best_of',
    // Responses cached for someone else
    'cache caching caching_groups cache_key preset_cache_key',
  ].flatMap((line) => line.split(' ').map(toPlainName)),
)

/** Changes a receiver's routing, so it is removed. */
export function isRouting(name: string): boolean {
  if (REQUEST_FIELDS.has(name)) return false
  const plain = toPlainName(name)
  return ROUTING.has(plain) || ROUTING_FAMILY.test(plain)
}

/**
 * Why a field is rejected.
 * - `stored`: names data stored at the provider, where all keys share one account
 * - `later`: the result would not be in the response
 * - `account`: chooses an account, or its permissions
 * - `dear`: raises the price
 * - `fee`: costs a fee besides the tokens
 * - `unknown`: not in our lists
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

/** Tools that run at the provider; others cost only tokens. `price` may charge their use. */
const TOOLS: readonly { begins: RegExp; name: string; reason: RefusalReason; price?: 'web_search' }[] = [
  { begins: /^(?:openrouter)?websearch/, name: 'web_search', reason: 'fee', price: 'web_search' },
  // Images, a shell, other models: https://openrouter.ai/docs/guides/features/server-tools
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

/** null if allowed. */
export function reasonToRefuseTool(type: string): Omit<(typeof TOOLS)[number], 'begins'> | null {
  const plain = toPlainName(type)
  const found = TOOLS.find(({ begins }) => begins.test(plain))
  if (!found) return null
  const { begins: _, ...told } = found
  return told
}

const suspected = new Map<string, boolean>()

function isSuspected(name: string): boolean {
  const known = suspected.get(name)
  if (known !== undefined) return known
  if (!REQUEST_NAMES.has(name)) return true
  const found = REFUSED.has(toPlainName(name))
  suspected.set(name, found)
  return found
}

const USUAL: Readonly<Record<string, readonly unknown[]>> = {
  servicetier: ['auto', 'default', 'flex', 'standard_only'],
  speed: ['standard'],
  inferencegeo: ['global'],
}

/** null if allowed. */
export function reasonToRefuse(name: string, value: unknown): RefusalReason | null {
  if (!isSuspected(name)) return null
  const plain = toPlainName(name)
  const reason = REFUSED.get(plain)
  if (reason === undefined || value === null || value === false || USUAL[plain]?.includes(value)) return null
  return reason
}

/** Sent only if the upstream's `pass` names it. */
export const isHeldBack = (name: string): boolean => isRouting(name) || REFUSED.has(toPlainName(name))

/** @param pass names in the catalog; a trailing `*` matches any rest. */
export function isPassed(pass: readonly string[], name: string): boolean {
  if (pass.length === 0) return false
  const plain = toPlainName(name)
  return pass.some((one) => (one.endsWith('*') ? plain.startsWith(toPlainName(one)) : plain === toPlainName(one)))
}

const { fields, nullable, all } = toRequestNames()

export const REQUEST_FIELDS: ReadonlySet<string> = new Set(fields)
export const NULLABLE_OF_MESSAGES: ReadonlySet<string> = new Set(nullable)
const REQUEST_NAMES: ReadonlySet<string> = new Set(all)
