/**
 * Fields that a target must not be sent, because they would expose what another key has stored with the provider, or
 * cost an unknown price. Passed-through requests are checked as a whole.
 */

import type { PassthroughEndpoint } from '../domain/dialects.ts'
import { EndpointRequest } from '../domain/endpoint-request.ts'
import { GatewayError } from '../domain/error.ts'
import {
  isHeldBack,
  isPassed,
  type RefusalReason,
  reasonToRefuse,
  reasonToRefuseTool,
  toPlainName,
} from '../domain/fields.ts'
import { asList, asObject, type JsonObject, valuesWithin } from '../domain/json.ts'
import type { AnyRequest, CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import { costsTimeAlone, hasMode } from '../domain/tariff.ts'
import type { Lane, PassthroughRequest } from '../domain/task.ts'
import { toMode } from '../domain/usage.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'

export interface RestrictedField {
  name: string
  param: string
  reason: RefusalReason
  mode: string | null
  /** A feature that makes it acceptable if its price is known. */
  price?: 'web_search'
}

const NONE: readonly RestrictedField[] = []

/** Few requests have any. */
export function findRestricted(body: AnyRequest): readonly RestrictedField[] {
  if (body instanceof EndpointRequest) return addRestricted(body.extras, '', null) ?? NONE
  let found = addRestricted(body, '', null)
  const { tools } = body
  // Some gateways accept a provider's own tools as extra fields of a function.
  if (tools) for (let at = 0; at < tools.length; at++) found = addRestricted(tools[at] ?? {}, `tools[${at}].`, found)
  const param = findStoredFile(body)
  if (param === null) return found ?? NONE
  return [...(found ?? NONE), { name: 'file_id', param, reason: 'stored', mode: null }]
}

/**
 * Appends to `found`, or to a new list.
 * @param at path of the holder, with a trailing dot.
 */
function addRestricted(holder: object, at: string, found: RestrictedField[] | null): RestrictedField[] | null {
  let more = found
  for (const name in holder) {
    const value = (holder as Record<string, unknown>)[name]
    const reason = reasonToRefuse(name, value)
    if (reason === null) continue
    more ??= []
    more.push({
      name,
      param: at + name.slice(0, MAX_NAME_CHARS),
      reason,
      mode: reason === 'dear' ? toMode(value) : null,
    })
  }
  return more
}

const MAX_NAME_CHARS = 64

function findStoredFile({ messages }: CanonicalRequest): string | null {
  for (let index = 0; index < messages.length; index++) {
    const content = messages[index]?.content
    if (typeof content === 'string' || !content) continue
    for (let at = 0; at < content.length; at++) {
      const part = content[at]
      if (part && part.type !== 'text' && hasStoredFile(part)) {
        const file = part.type === 'file' ? '.file.file_id' : ''
        return `messages[${index}].content[${at}]${file}`
      }
    }
  }
  return null
}

function hasStoredFile(part: object): boolean {
  for (const [name, value] of valuesWithin(part)) {
    if (value === null || typeof value === 'object') continue
    if (toPlainName(name) === 'fileid' || (typeof value === 'string' && STORED_ADDRESS.test(value))) return true
  }
  return false
}

/** URLs that a provider reads with its own account: cloud storage, and Google's files. */
const STORED_ADDRESS = /^\s*(?:(?:gs|s3):|https?:\/\/(?:[\w.-]*@)?(?:[\w-]+-)?generativelanguage\.googleapis\.com)/i

/** Only in fields that hold URLs. */
const isStoredAddress = (name: string, value: string): boolean => ADDRESS.test(name) && STORED_ADDRESS.test(value)
const ADDRESS = /ur[il]$/i

export function checkRestricted(
  found: readonly RestrictedField[],
  target: Target,
  lane: Lane = 'translated',
): GatewayError | null {
  const first = found.find((each) => !mayBeSent(each, target, lane))
  if (!first) return null
  const { param, reason } = first
  return new GatewayError(
    'invalid_request',
    `Unsupported parameter: '${param}' is not supported with the model \`${target.model}\`: ${WHY[reason]}`,
    { code: 'unsupported_parameter', param },
  )
}

export function mayBeSent(
  { name, reason, mode, price }: RestrictedField,
  { upstream, pricing, features }: Target,
  lane: Lane,
): boolean {
  if (isPassed(upstream.options.pass, name)) return true
  if (mode !== null && dialectOf(upstream).tellsMode[lane] && hasMode(pricing, mode)) return true
  // The searches of such a model are reserved.
  if (price && features.includes(price) && pricing.every((item) => item[price] !== undefined)) return true
  // Local servers have fields of their own, and one account.
  if (reason === 'unknown') return upstream.local
  // Free or time-priced upstreams charge nothing extra.
  return (reason === 'dear' || reason === 'fee') && upstream.local && costsTimeAlone(pricing)
}

const WHY: Readonly<Record<RefusalReason, string>> = {
  stored: 'it refers to data stored with the provider, which all keys share. Send the content itself.',
  account: 'it selects a provider account or its permissions. Remove it.',
  later: 'responses are returned directly and not stored. Remove it.',
  dear: 'with this value the provider charges more than the known price. Remove it.',
  fee: 'the provider charges per use, and no price is known. Remove it.',
  unknown: "Tollgate doesn't know what it may cost, store, or access. Remove it, or add it to `pass` of the upstream.",
}

/**
 * Restricted fields of a request and its tools, tools with fees, references to stored objects at any depth, and names
 * missing from the format's list.
 */
export function findPassthroughRestricted({ endpoint, json }: PassthroughRequest): readonly RestrictedField[] {
  // The text to complete may contain anything.
  const of = endpoint === 'completions' ? { ...json, prompt: null } : json
  const found = addRestricted(of, '', null) ?? []
  const param = addWithin(json, passedNamesOf(endpoint), found, endpoint === 'gemini' ? ANYBODYS_OF_GEMINI : ANYBODYS)
  // Its searches are counted, and charged like those of other formats.
  if (endpoint === 'gemini')
    for (const each of found) if (toPlainName(each.name) === 'googlesearch') each.price = 'web_search'
  if (param !== null) found.push({ name: 'file_id', param, reason: 'stored', mode: null })
  return found
}

/** Fields that hold names chosen by clients: schemas, labels, and tool inputs. */
const ANYBODYS: ReadonlySet<string> = new Set([
  ...['input_schema', 'output_schema', 'parameters', 'schema', 'input_examples', 'metadata', 'client_metadata'],
  ...['arguments', 'env', 'internal_chat_message_metadata_passthrough'],
])

/** In camel case and in snake case. */
const toBothCases = (names: string): string[] =>
  names
    .split(' ')
    .flatMap((name) => [...new Set([name, name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)])])

const ANYBODYS_OF_GEMINI: ReadonlySet<string> = new Set(
  toBothCases('args response parameters parametersJsonSchema responseSchema responseJsonSchema partMetadata'),
)

/** IDs of stored objects: the longest such names; `MAY_BE_STORED` is a quick test. */
const STORED = /^(?:fileids?|containerid|vectorstoreids?|conversationid|promptid|skillid|comparisonresponseid)$/
const MAY_BE_STORED = /file|cont|vec|conv|prom|skill|comp/i

interface Open {
  held: object
  path: string
  /** Allowed names; null if any, or if its holder is restricted as a whole. */
  names: PassedNames | null
  isSaid: boolean
  isTool: boolean
  /** Whether a parent passed by its value, with everything in it: checking that at each level would take seconds. */
  isHarmless: boolean
}

/** Returns the path of the first reference to a stored object, or null. */
function addWithin(
  json: JsonObject,
  passed: PassedNames | null,
  found: RestrictedField[],
  anybodys: ReadonlySet<string>,
): string | null {
  const reference = asList(json.input).findIndex(isReference)
  let stored = reference === -1 ? null : `input[${reference}]`
  const open: Open[] = [{ held: json, path: '', names: passed, isSaid: false, isTool: false, isHarmless: false }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { held, path, isSaid, isTool } = next
    const isList = Array.isArray(held)
    const isTyped = !isList && 'type' in held && path !== ''
    const names = isList ? next.names : addKind(held as JsonObject, next, found)
    for (const name in held) {
      const value: unknown = (held as JsonObject)[name]
      if (value === null) continue
      const at = () => toPath(path, name, isList)
      let within = names
      let isHarmless = next.isHarmless
      if (!isList) {
        if (MAY_BE_STORED.test(name) && STORED.test(toPlainName(name))) stored ??= at()
        const verdict = names && judge(names, name, value, next)
        if (verdict === 'unknown') found.push({ name, param: at(), reason: verdict, mode: null })
        if (verdict !== 'passes' && verdict !== 'harmless') within = null
        isHarmless ||= verdict === 'harmless'
        if (anybodys.has(name) && (path !== '' || passed === null || passed.fields.has(name))) continue
      }
      if (typeof value === 'string') {
        if (isStoredAddress(name, value)) stored ??= at()
      } else if (typeof value === 'object' && !(isTyped && name === 'input')) {
        const bringsTools = !isList && TOOLS.has(name)
        const isOfConversation = path === '' ? CONVERSATION.has(name) : isSaid && !bringsTools
        open.push({
          held: value,
          path: at(),
          names: within,
          isSaid: isOfConversation,
          isTool: isList ? isTool : bringsTools,
          isHarmless: isHarmless && !bringsTools,
        })
      }
    }
  }
  return stored
}

const TOOLS: ReadonlySet<string> = new Set(['tools', 'tool', 'definition'])

const MAX_PATH = 256

const toPath = (path: string, name: string, isList: boolean) =>
  (isList ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`).slice(0, MAX_PATH)

/** Returns the names allowed in it. */
function addKind(held: JsonObject, { path, names, isTool }: Open, found: RestrictedField[]): PassedNames | null {
  if (isTool) addRestricted(held, `${path}.`, found)
  const { type } = held
  if (typeof type !== 'string' || path === '') return names
  const refused = isTool || (names && !names.types.has(type)) ? reasonToRefuseTool(type) : null
  const param = `${path}.type`
  if (refused) found.push({ ...refused, param, mode: null })
  else if (names && !names.types.has(type))
    found.push({ name: type.slice(0, MAX_PATH), param, reason: 'unknown', mode: null })
  else return names
  return null
}

/** Whether a field passes, by name or (`harmless`) by value; `elsewhere` if `fields.ts` decides on it. */
function judge(
  { fields, within }: PassedNames,
  name: string,
  value: unknown,
  { path, isSaid, isTool, isHarmless: isWithinHarmless }: Open,
): 'passes' | 'harmless' | 'elsewhere' | 'unknown' {
  const isTop = path === ''
  if (isWithinHarmless || (isTop ? fields : within).has(name)) return 'passes'
  if (isTop ? isHeldBack(name) : isTool && reasonToRefuse(name, value) !== null) return 'elsewhere'
  return isHarmless(value, isSaid) ? 'harmless' : 'unknown'
}

/**
 * An item that refers to a stored one by ID. So may an image, to be edited
 * (https://platform.openai.com/docs/guides/image-generation).
 */
function isReference(value: unknown): boolean {
  const { id, type = null, role = null, result } = asObject(value) ?? {}
  if (typeof id !== 'string') return false
  return type === 'item_reference' || (type === 'image_generation_call' && !result) || (type === null && role === null)
}

/*
 * What may be passed through, by the names in Anthropic's and OpenAI's types: an allow-list per format, because any new
 * field of either API may store a conversation, raise the price, or reach another account. `test/sdk-fields.ts` lists
 * what these tables lack.
 *
 * Other names pass if their value can do none of that: a number, boolean, or null; within messages and items, to which
 * agents and providers add fields, also a lower-case word such as `final_answer`, and compounds of these. Otherwise,
 * and for an unknown `type`, the request is translated without it, unless `pass` names it or the upstream is local.
 */

interface PassedLists {
  fields: string
  within: string
  /** Allowed tool types: run by the client, or charged only by tokens. */
  tools: string
  /** Types elsewhere: in messages, blocks, items, parts, and settings. */
  types: string
}

/** Legacy completions are for local engines, whose extensions pass. */
export const PASSED_LISTS: Readonly<Record<Exclude<PassthroughEndpoint, 'completions' | 'gemini'>, PassedLists>> = {
  messages: {
    fields:
      'cache_control context_management max_tokens messages metadata model output_config output_format stop_sequences stream system temperature thinking tool_choice tools top_k top_p',
    within:
      'active allowed_callers allowed_domains block_binding blocked_domains budget_tokens cache_control caching caller citations cited_text city clear_at clear_at_least clear_tool_inputs client_tool_results close_tab configs content context country cursor_position data default_config defer_loading definition description disable_parallel_tool_use display display_height_px display_number display_width_px document_index document_title double_click download_id eager_input_streaming edits effort enable_zoom enabled encrypted_content encrypted_index encrypted_stdout end_block_index end_char_index end_page_number error error_code error_message exclude_tools file_type file_upload find form_input format from get_page_text hold_key hover id input input_examples input_schema instructions is_error is_file_update javascript_exec keep key left_click left_click_drag left_mouse_down left_mouse_up lines list_tabs max_characters max_content_tokens max_tokens max_uses mcp_server_name media_type middle_click mode model mouse_move name navigate new_lines new_start new_tab num_lines old_lines old_start output_config oversized_image page_age path pause_after_compaction prefix_mismatch_behavior properties read_console read_network read_page region remaining required response_inclusion retrieved_at return_code right_click role schema scope screenshot scroll scroll_to search_result_index server_name server_tool_results signature size_bytes source start_block_index start_char_index start_line start_page_number state_changes stderr stdout stop_reason strict switch_tab tab_id tabs task_budget text thinking timezone title to tool tool_changes tool_id tool_name tool_references tool_use_id tools toolset_name total total_lines transformations trigger triple_click ttl type url url_sources use_cache user_id user_input user_location value wait zoom',
    tools:
      'bash_20241022 bash_20250124 browser_toolset_20260801 computer_20241022 computer_20250124 computer_20251124 computer_toolset_20260801 custom memory_20250818 text_editor_20241022 text_editor_20250124 text_editor_20250429 text_editor_20250728 tool_search_tool_bm25 tool_search_tool_bm25_20251119 tool_search_tool_regex tool_search_tool_regex_20251119 web_fetch_20250910 web_fetch_20260209 web_fetch_20260309 web_fetch_20260318',
    types:
      'adaptive advisor_redacted_result advisor_result advisor_tool_result advisor_tool_result_error all any approximate auto base64 bash_code_execution_output bash_code_execution_result bash_code_execution_tool_result bash_code_execution_tool_result_error between_tools browser_state char_location clear_thinking_20251015 clear_tool_uses_20250919 code_execution_output code_execution_result code_execution_tool_result code_execution_tool_result_error compact_20260112 compaction content content_block_location direct disabled document download_completed download_failed download_started enabled encrypted_code_execution_result ephemeral except fallback file image input_tokens json_schema mcp_tool_listing mcp_tool_reference mcp_tool_result mcp_tool_use mcp_toolset_reference none object only page_location redacted_thinking search_result search_result_location server_tool_use tab_opened text text_editor_code_execution_create_result text_editor_code_execution_str_replace_result text_editor_code_execution_tool_result text_editor_code_execution_tool_result_error text_editor_code_execution_view_result thinking thinking_turns tokens tool tool_addition tool_definition tool_reference tool_removal tool_result tool_search_tool_result tool_search_tool_result_error tool_search_tool_search_result tool_use tool_uses url web_fetch_result web_fetch_tool_result web_fetch_tool_result_error web_search_result web_search_result_location web_search_tool_result web_search_tool_result_error',
  },
  responses: {
    // `client_metadata` is Codex's; `store` is not the client's choice.
    fields:
      'client_metadata context_management image include input instructions max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user',
    within:
      'acknowledged_safety_checks action actions allowed_callers allowed_domains annotations approval_request_id approve arguments async background button bytes call_id caller caller_id categories city code command commands compact_threshold complexity content context context_compression country data defer_loading definition description detail diff display_height display_width effort encrypted_content end_index env environment error execution exit_code external_web_access file_data file_url filename filters fingerprint format generate_summary id image_url include_obfuscation index input input_schema input_tokens internal_chat_message_metadata_passthrough key keys logprob logprobs logs max_output_length media_type message mode model moderation_details moderation_stage name namespace operation outcome output output_format output_schema output_tokens outputs param parameters path pattern pending_safety_checks phase policy prewarm prompt_cache_breakpoint quality queries query reason reasoning reasoning_tokens refusal region result results revised_prompt role schema scroll_x scroll_y search_content_types search_context_size server_label size source sources start_index status stderr stdout strict summary svg_usage syntax text timeout_ms timezone title token tools top_logprobs total_tokens ttl type url user user_location value verbosity working_directory x y',
    tools: 'apply_patch computer computer_use_preview custom function local_shell namespace tool_search',
    types:
      'additional_tools allowed_tools and apply_patch_call apply_patch_call_output approximate auto click code_interpreter_call compaction compaction_trigger computer_call computer_call_output computer_screenshot computer_use configuration_update container_file_citation create_file custom_tool_call custom_tool_call_output delete_file direct double_click drag eq exec exit file_citation file_path file_search_call find_in_page function_call function_call_output grammar gt gte http_error image image_generation_call in input_file input_image input_text item_reference json_object json_schema keypress local local_shell_call local_shell_call_output logs lt lte mcp_approval_request mcp_approval_response mcp_call mcp_list_tools mcp_protocol_error mcp_tool_execution_error message move ne nin open_page or output_text program program_output reasoning reasoning_text refusal screenshot scroll search shell_call shell_call_output summary_text text timeout tool_search_call tool_search_output type update_file url url_citation wait web_search_call',
  },
}

/** Fields of Gemini's own API, whose objects have no types. */
const GEMINI_FIELDS = 'contents systemInstruction tools toolConfig generationConfig safetySettings'
const GEMINI_WITHIN =
  'allowedFunctionNames args aspectRatio audioTimestamp behavior candidateCount category code codeExecutionResult computerUse data description displayName enableEnhancedCivicAnswers endOffset environment excludedPredefinedFunctions executableCode fileData fileUri fps frequencyPenalty functionCall functionCallingConfig functionDeclarations functionResponse id imageConfig imageSize includeServerSideToolInvocations includeThoughts inlineData language languageCode latLng latitude level logprobs longitude maxOutputTokens mediaResolution method mimeType mode multiSpeakerVoiceConfig name outcome output parameters parametersJsonSchema partMetadata parts prebuiltVoiceConfig presencePenalty response responseJsonSchema responseLogprobs responseMimeType responseModalities responseSchema retrievalConfig role scheduling seed speaker speakerVoiceConfigs speechConfig startOffset stopSequences temperature text thinkingBudget thinkingConfig thinkingLevel thought thoughtSignature threshold toolCall toolResponse toolType topK topP videoMetadata voiceConfig voiceName willContinue'

interface PassedNames {
  fields: ReadonlySet<string>
  within: ReadonlySet<string>
  types: ReadonlySet<string>
}

const made = new Map<string, PassedNames>()

/** Null for a format without a list. */
function passedNamesOf(endpoint: PassthroughEndpoint): PassedNames | null {
  if (endpoint === 'completions') return null
  return made.getOrInsertComputed(endpoint, () => {
    if (endpoint === 'gemini') {
      const toSetOfBoth = (names: string) => new Set(toBothCases(names))
      return { fields: toSetOfBoth(GEMINI_FIELDS), within: toSetOfBoth(GEMINI_WITHIN), types: NO_NAMES }
    }
    const { fields, within, tools, types } = PASSED_LISTS[endpoint]
    return { fields: toSet(fields), within: toSet(within), types: toSet(`${tools} ${types}`) }
  })
}

const NO_NAMES: ReadonlySet<string> = new Set()
const toSet = (names: string) => new Set(names.split(' '))

const CONVERSATION: ReadonlySet<string> = new Set(['messages', 'system', 'input'])

const WORD = /^[a-z][a-z_]{0,31}$/

/**
 * Whether a field with an unknown name passes.
 * @param isSaid whether the field is part of the conversation.
 */
function isHarmless(value: unknown, isSaid: boolean): boolean {
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return true
  if (!isSaid) return false
  if (typeof value === 'string') return WORD.test(value)
  return Object.values(value as object).every((held) => isHarmless(held, true))
}
