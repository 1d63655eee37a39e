/** Validates a Responses API request and translates it to a task: items to messages, tools to functions. */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { asList, asObject, type JsonObject, toLine } from '../../domain/json.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import type { ChatTask, RawRequest } from '../../domain/task.ts'
import { toPassthroughRequest } from '../../upstreams/dialects/passthrough.ts'
import { toTask as toChatTask } from '../chat/chat.ts'
import { checkSchemas } from '../chat/request.ts'
import { checkModel, createBodyCheck, notAnObject, toSchemaRefusal, withoutNulls } from '../checked-body.ts'
import { responsesChecker } from '../checker.macro.ts' with { type: 'macro' }
import { withPassthrough } from '../passthrough.ts'
import { toOwnParam, unsupported } from './errors.ts'
import { toMessages } from './input.ts'
import type { ResponsesRequest } from './schema.ts'
import { readTools, ToolNames, toToolChoice } from './tools.ts'

const checkBody = createBodyCheck<ResponsesRequest>(responsesChecker(), (body) => {
  const given = asObject(body) ?? {}
  // Loaded only here, because creating the schema takes a tenth of startup.
  const { ResponsesSchema } = require('./schema.ts') as typeof import('./schema.ts')
  const refused = checkKept(given) ?? checkModel(given)
  return refused ?? toSchemaRefusal(ResponsesSchema, given, 'Invalid Responses API request.')
})

function validate(body: unknown): Decision<ResponsesRequest> {
  const given = asObject(body)
  return given === null ? notAnObject('{"model": …, "input": …}') : checkBody(withTypes(given))
}

/** Messages may omit their type. */
function withTypes(body: JsonObject): JsonObject {
  const { input } = body
  if (!Array.isArray(input)) return body
  const isEasy = (item: unknown) => asObject(item)?.role !== undefined && asObject(item)?.type == null
  if (!input.some(isEasy)) return body
  return { ...body, input: input.map((item) => (isEasy(item) ? { ...item, type: 'message' } : item)) }
}

export const STORES_NOTHING = 'Tollgate does not store responses.'

const WHOLE_INPUT = `${STORES_NOTHING} Send the whole input instead.`

const KEPT: Readonly<Record<string, string>> = {
  previous_response_id: WHOLE_INPUT,
  conversation: WHOLE_INPUT,
  background: 'Tollgate does not store responses, so none can be fetched later. Remove it.',
  prompt: 'Tollgate does not store prompts. Send the text as instructions and input.',
}

/** Refuses the first field that needs storage, unless an upstream's `pass` allows it; or null. */
function checkKept(body: JsonObject): GatewayError | null {
  for (const param in KEPT) {
    const value = body[param]
    if (value === undefined || value === null || value === false) continue
    // A wrong type is reported as such.
    if (param === 'background' && value !== true) continue
    return unsupported(param, KEPT[param] ?? '')
  }
  return null
}

/** Refuses requests for a summary, since a normal response would be taken for it. */
function checkCompaction({ input }: JsonObject): GatewayError | null {
  const at = asList(input).findIndex((item) => asObject(item)?.type === 'compaction_trigger')
  return at === -1 ? null : unsupported(`input[${at}]`, 'Request a summary in a normal request.')
}

export class ResponseOptions {
  /** The request's fields as JSON, which every response object repeats. */
  readonly echoJson: string
  readonly names: ToolNames
  readonly wantsSummary: boolean
  readonly wantsState: boolean
  readonly wantsLogprobs: boolean

  constructor(request: ResponsesRequest, tools: readonly object[], names: ToolNames) {
    const { include, reasoning, top_logprobs: top } = request
    this.names = names
    this.wantsSummary = (reasoning?.summary ?? 'none') !== 'none' && reasoning?.effort !== 'none'
    this.wantsState = include?.includes('reasoning.encrypted_content') === true
    this.wantsLogprobs = include?.includes('message.output_text.logprobs') === true || (top ?? 0) > 0
    this.echoJson = toLine(toEcho(request, tools)).slice(1, -1)
  }
}

/** Typed clients require all fields; missing ones have the API's default. */
const toEcho = (request: ResponsesRequest, tools: readonly object[]) => ({
  access_programs: null,
  background: false,
  frequency_penalty: request.frequency_penalty ?? 0,
  instructions: request.instructions ?? null,
  max_output_tokens: request.max_output_tokens ?? null,
  max_tool_calls: request.max_tool_calls ?? null,
  metadata: request.metadata ?? {},
  parallel_tool_calls: request.parallel_tool_calls ?? true,
  presence_penalty: request.presence_penalty ?? 0,
  previous_response_id: null,
  prompt_cache_key: request.prompt_cache_key ?? null,
  reasoning: { effort: request.reasoning?.effort ?? null, summary: request.reasoning?.summary ?? null },
  safety_identifier: request.safety_identifier ?? null,
  store: false,
  temperature: request.temperature ?? 1,
  text: {
    format: toFormat(request.text?.format),
    ...(request.text?.verbosity ? { verbosity: request.text.verbosity } : {}),
  },
  tool_choice: request.tool_choice ?? 'auto',
  tools,
  top_logprobs: request.top_logprobs ?? 0,
  top_p: request.top_p ?? 1,
  // Overlong input is always refused.
  truncation: 'disabled',
  user: request.user ?? null,
})

function toFormat(format: NonNullable<ResponsesRequest['text']>['format']): object {
  if (format?.type !== 'json_schema') return format ?? { type: 'text' }
  return { ...format, description: format.description ?? null, strict: format.strict ?? false }
}

export function optionsOf({ own }: ChatTask): ResponseOptions {
  if (own instanceof ResponseOptions) return own
  throw new TypeError('the task was made by another format')
}

export function toTask(body: unknown, raw: RawRequest): Decision<ChatTask> {
  const request = validate(body)
  if (request instanceof GatewayError) return request
  const kept = checkKept(request) ?? checkCompaction(request)
  const passthrough = toPassthroughRequest('responses', body, raw)
  const task = translate(request)
  // Without the stored objects, the request may be invalid for other upstreams.
  if (task instanceof GatewayError || (kept && !passthrough)) return kept ?? task
  return withPassthrough(kept ? { ...task, untranslatable: kept } : task, passthrough)
}

export function toCountingTask(body: unknown): Decision<ChatTask> {
  const given = asObject(body)
  const request = validate(given && (given.input ?? null) === null ? { ...given, input: [] } : body)
  if (request instanceof GatewayError) return request
  return checkKept(request) ?? translate(request, true)
}

/** @param isCounted true for token counting, which allows empty input. */
function translate(request: ResponsesRequest, isCounted = false): Decision<ChatTask> {
  const names = new ToolNames()
  const tools = readTools(request.tools ?? [], names)
  const choice = toToolChoice(request, tools, names)
  if (choice instanceof GatewayError) return choice
  const messages = toMessages(request, names)
  if (messages instanceof GatewayError) return messages
  if (messages.length === 0 && !isCounted)
    return new GatewayError('invalid_request', "Invalid value for 'input': it has no content that a model can read.", {
      param: 'input',
    })
  const options = new ResponseOptions(request, tools.kept, names)
  const parallel = request.parallel_tool_calls
  const canonical: CanonicalRequest = {
    ...toFields(request, options),
    messages,
    ...(tools.functions.length > 0 ? { tools: tools.functions } : {}),
    ...(tools.search ? { web_search_options: tools.search } : {}),
    ...(choice ? { tool_choice: choice } : {}),
    ...(tools.functions.length > 0 && typeof parallel === 'boolean' ? { parallel_tool_calls: parallel } : {}),
  }
  const broken = checkSchemas(canonical)
  if (broken) return withOwnParam(broken, tools.paths)
  const task = toChatTask(canonical)
  return {
    ...task,
    ...(task.beyondStrict ? { beyondStrict: withOwnParam(task.beyondStrict, tools.paths) } : {}),
    ...{ endpoint: 'responses', isForAnyModel: true, own: options },
  }
}

function toFields(request: ResponsesRequest, options: ResponseOptions): Omit<CanonicalRequest, 'messages'> {
  const { text, reasoning, top_logprobs: top } = request
  const format = text?.format
  return {
    model: request.model,
    ...withoutNulls({
      stream: request.stream,
      max_tokens: request.max_output_tokens,
      temperature: request.temperature,
      top_p: request.top_p,
      presence_penalty: request.presence_penalty,
      frequency_penalty: request.frequency_penalty,
      logprobs: options.wantsLogprobs ? true : undefined,
      top_logprobs: top ? top : undefined,
      response_format: format && format.type !== 'text' ? toResponseFormat(format) : undefined,
      verbosity: text?.verbosity,
      reasoning_effort: reasoning?.effort,
      service_tier: request.service_tier,
      user: request.user,
      safety_identifier: request.safety_identifier,
      prompt_cache_key: request.prompt_cache_key,
      prompt_cache_retention: request.prompt_cache_retention,
    }),
  }
}

type TextFormat = NonNullable<NonNullable<ResponsesRequest['text']>['format']>

function toResponseFormat(format: TextFormat): CanonicalRequest['response_format'] {
  if (format.type !== 'json_schema') return format
  const { type, name, schema, description, strict } = format
  return { type, json_schema: { name, schema, ...withoutNulls({ description, strict }) } }
}

const withOwnParam = ({ kind, message, code, param }: GatewayError, tools: readonly string[]) =>
  new GatewayError(kind, message, { code, param: toOwnParam(param, tools) })
