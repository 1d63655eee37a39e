/** A request of the Responses API as a task: its items as messages, its tools as functions. Pure. */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { asObject } from '../../domain/json.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import type { RawRequest, Task } from '../../domain/task.ts'
import { toNative } from '../../upstreams/dialects/passthrough.ts'
import { toTask as toChatTask } from '../chat/chat.ts'
import { checkSchemas } from '../chat/schemas.ts'
import { withNative } from '../native.ts'
import { Asked } from './asked.ts'
import { toMessages } from './input.ts'
import { toOwnParam } from './params.ts'
import type { ResponsesRequest } from './schema.ts'
import { ToolNames } from './tool-names.ts'
import { readTools, toToolChoice } from './tools.ts'
import { checkCompaction, checkKept, validate } from './validate.ts'

export function toTask(body: unknown, raw: RawRequest): Decision<Task> {
  const request = validate(body)
  if (request instanceof GatewayError) return request
  const kept = checkKept(request) ?? checkCompaction(request)
  const native = toNative('responses', body, raw)
  const task = translate(request)
  // It may make no sense without what is kept.
  if (task instanceof GatewayError || (kept && !native)) return kept ?? task
  return withNative(kept ? { ...task, untranslatable: kept } : task, native)
}

/** A request that only asks how many tokens it has: it may have instructions or tools alone. */
export function toCountingTask(body: unknown): Decision<Task> {
  const given = asObject(body)
  const request = validate(given && (given.input ?? null) === null ? { ...given, input: [] } : body)
  if (request instanceof GatewayError) return request
  return checkKept(request) ?? translate(request, true)
}

/** @param isCounted whether it is only counted, and may say nothing. */
function translate(request: ResponsesRequest, isCounted = false): Decision<Task> {
  const names = new ToolNames()
  const tools = readTools(request.tools ?? [], names)
  const choice = toToolChoice(request, tools, names)
  if (choice instanceof GatewayError) return choice
  const messages = toMessages(request, names)
  if (messages instanceof GatewayError) return messages
  if (messages.length === 0 && !isCounted)
    return new GatewayError('invalid_request', "Invalid value for 'input': it says nothing that a model could read.", {
      param: 'input',
    })
  const asked = new Asked(request, tools.kept, names)
  const parallel = request.parallel_tool_calls
  const canonical: CanonicalRequest = {
    ...toFields(request, asked),
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
    ...{ endpoint: 'responses', isForAnyModel: true, own: asked },
  }
}

/** The fields that say the same in both APIs, or nearly so. */
function toFields(request: ResponsesRequest, asked: Asked): Omit<CanonicalRequest, 'messages'> {
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
      logprobs: asked.wantsLogprobs ? true : undefined,
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

type Said<T> = { [Name in keyof T]?: NonNullable<T[Name]> }

function withoutNulls<T extends object>(fields: T): Said<T> {
  const kept: Said<T> = {}
  for (const name in fields) if (fields[name] !== null && fields[name] !== undefined) kept[name] = fields[name]
  return kept
}

const withOwnParam = ({ kind, message, code, param }: GatewayError, tools: readonly string[]) =>
  new GatewayError(kind, message, { code, param: toOwnParam(param, tools) })
