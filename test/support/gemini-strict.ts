/** Refusals of the Gemini API, with its messages, by its published rules and the types of Google's client library. */
import type {
  Blob as BlobPart,
  Content,
  FileData,
  FunctionCall,
  FunctionCallingConfig,
  FunctionDeclaration,
  FunctionResponse,
  GenerateContentConfig,
  GenerationConfig,
  Part,
  ThinkingConfig,
  Tool,
  ToolConfig,
} from '@google/genai'
import { isObject, type Json, type JsonObject } from './contract-parts.ts'

/** Google's documented sentinel for a call without its signature. */
export const SENTINEL = 'skip_thought_signature_validator'

export interface Rules {
  /** True if calls of the current turn need a signature: since Gemini 3. */
  signs: boolean
  /** How the model sets thinking. */
  thinks: 'level' | 'budget' | 'budget-or-off' | 'no'
  /** Vertex has no IDs. */
  ids: boolean
  /** Signatures this upstream issued. */
  issued: ReadonlySet<string>
}

class Refused extends Error {}

function refuseUnless(holds: boolean, why: string): asserts holds {
  if (!holds) throw new Refused(why)
}

/** The refusal; null if none. */
export function findWrong(body: unknown, rules: Rules): string | null {
  try {
    checkRequest(body as Json, rules)
    return null
  } catch (error) {
    if (error instanceof Refused) return error.message
    throw error
  }
}

/** Fields known to Google's library. */
const of = <Known>(...fields: (keyof Known & string)[]): readonly string[] => fields

function closed(value: Json | undefined, at: string, known: readonly string[]): JsonObject {
  refuseUnless(isObject(value), `Invalid value at '${at}': an object was expected.`)
  for (const key of Object.keys(value))
    refuseUnless(
      known.includes(key),
      `Invalid JSON payload received. Unknown name "${key}" at '${at}': Cannot find field.`,
    )
  return value
}

function items(value: Json | undefined, at: string): Json[] {
  refuseUnless(Array.isArray(value), `Invalid value at '${at}': a list was expected.`)
  return value
}

const REQUEST = [
  'contents',
  'generationConfig',
  ...of<GenerateContentConfig>(
    'systemInstruction',
    'tools',
    'toolConfig',
    'safetySettings',
    'cachedContent',
    'serviceTier',
  ),
]

function checkRequest(body: Json, rules: Rules): void {
  const request = closed(body, 'request', REQUEST)
  const contents = items(request.contents, 'contents')
  refuseUnless(contents.length > 0, '* GenerateContentRequest.contents: contents is not specified')
  const turns = contents.map((content, at) => checkContent(content, `contents[${at}]`, rules))
  refuseUnless(turns.at(-1)?.role === 'user', 'Please ensure that multiturn requests end with a user role.')
  refuseUnless(turns[0]?.role === 'user', 'Please ensure that multiturn requests alternate between user and model.')
  checkCalls(turns, rules)
  if (rules.signs) checkSigned(turns)
  if (request.systemInstruction !== undefined) {
    const { parts } = closed(request.systemInstruction, 'system_instruction', of<Content>('parts', 'role'))
    for (const part of items(parts, 'system_instruction.parts'))
      refuseUnless(isObject(part) && typeof part.text === 'string' && part.text !== '', 'only text in instructions')
  }
  const names = checkTools(request.tools)
  checkBeside(request, names, rules)
  if (request.toolConfig !== undefined) checkToolConfig(request.toolConfig, names)
  if (request.generationConfig !== undefined) checkConfig(request.generationConfig, rules)
  refuseUnless(
    request.serviceTier === undefined || ['flex', 'standard', 'priority'].includes(String(request.serviceTier)),
    "Invalid value at 'service_tier'",
  )
}

interface Turn {
  role: string
  parts: JsonObject[]
}

const DATA = of<Part>('text', 'inlineData', 'fileData', 'functionCall', 'functionResponse')

function checkContent(content: Json, at: string, rules: Rules): Turn {
  const { role, parts } = closed(content, at, of<Content>('role', 'parts'))
  refuseUnless(role === 'user' || role === 'model', 'Please use a valid role: user, model.')
  const listed = items(parts, `${at}.parts`).map((part, place) => checkPart(part, `${at}.parts[${place}]`, rules))
  refuseUnless(listed.length > 0, `* ${at}.parts: must not be empty`)
  return { role, parts: listed }
}

function checkPart(value: Json, at: string, rules: Rules): JsonObject {
  const part = closed(value, at, [...DATA, ...of<Part>('thought', 'thoughtSignature')])
  const held = DATA.filter((name) => part[name] !== undefined)
  refuseUnless(held.length === 1, `* ${at}.data: required oneof field 'data' must have one initialized field`)
  const { thoughtSignature: signature } = part
  if (part.text !== undefined)
    refuseUnless(typeof part.text === 'string' && (part.text !== '' || signature !== undefined), `* ${at}: empty text`)
  if (part.inlineData !== undefined) checkBlob(part.inlineData, at)
  if (part.fileData !== undefined) {
    const { mimeType, fileUri } = closed(
      part.fileData,
      `${at}.file_data`,
      of<FileData>('mimeType', 'fileUri', 'displayName'),
    )
    refuseUnless(Boolean(mimeType) && Boolean(fileUri), `* ${at}.file_data: mime_type and file_uri are required`)
  }
  const ids = rules.ids ? of<FunctionCall & FunctionResponse>('id') : []
  if (part.functionCall !== undefined) {
    const { name, args } = closed(part.functionCall, `${at}.function_call`, [
      ...ids,
      ...of<FunctionCall>('name', 'args'),
    ])
    refuseUnless(isName(name), `* ${at}.function_call.name: Name cannot be empty.`)
    refuseUnless(args === undefined || isObject(args), `Invalid value at '${at}.function_call.args'`)
  }
  if (part.functionResponse !== undefined) {
    const { name, response } = closed(part.functionResponse, `${at}.function_response`, [
      ...ids,
      ...of<FunctionResponse>('name', 'response', 'parts'),
    ])
    refuseUnless(isName(name), `* ${at}.function_response.name: Name cannot be empty.`)
    refuseUnless(isObject(response), `Invalid value at '${at}.function_response.response'`)
  }
  refuseUnless(signature === undefined || isKnown(signature, rules), 'Corrupted thought signature.')
  return part
}

function checkBlob(value: Json, at: string): void {
  const { mimeType, data } = closed(value, `${at}.inline_data`, of<BlobPart>('mimeType', 'data', 'displayName'))
  refuseUnless(typeof mimeType === 'string' && /^\w+\/[\w.+-]+$/.test(mimeType), `Unsupported MIME type: ${mimeType}`)
  refuseUnless(typeof data === 'string' && /^[\w+/-]+={0,2}$/.test(data), `Base64 decoding failed at '${at}'`)
}

const isKnown = (signature: Json, { issued }: Rules) => signature === SENTINEL || issued.has(String(signature))

const isName = (name: Json | undefined): name is string =>
  typeof name === 'string' && /^[A-Za-z_][\w.:-]{0,127}$/.test(name)

const held = ({ parts }: Turn, name: 'functionCall' | 'functionResponse'): JsonObject[] =>
  parts.map((part) => part[name]).filter(isObject)
const callsOf = (turn: Turn) => held(turn, 'functionCall')
const responsesOf = (turn: Turn) => held(turn, 'functionResponse')

/** One result per call, in order, right after the calls. */
function checkCalls(turns: readonly Turn[], { ids }: Rules): void {
  for (const [at, turn] of turns.entries()) {
    const before = turns[at - 1]
    const calls = before ? callsOf(before) : []
    const responses = responsesOf(turn)
    refuseUnless(
      calls.length === responses.length,
      'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.',
    )
    for (const [place, { name, id }] of responses.entries()) {
      refuseUnless(calls[place]?.name === name, `function response ${name} is not of the call in its place`)
      refuseUnless(!ids || calls[place]?.id === id, `function response ${id} is not of the call in its place`)
    }
    if (callsOf(turn).length > 0)
      refuseUnless(
        turn.role === 'model' && before?.role === 'user',
        'Please ensure that function call turn comes immediately after a user turn or after a function response turn.',
      )
  }
}

/** The current turn begins with the last user message. */
function checkSigned(turns: readonly Turn[]): void {
  const start = turns.findLastIndex((turn) => turn.role === 'user' && responsesOf(turn).length < turn.parts.length)
  for (const { parts } of turns.slice(start + 1)) {
    const first = parts.find((part) => part.functionCall !== undefined)
    refuseUnless(
      first === undefined || first.thoughtSignature !== undefined,
      'Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly.',
    )
  }
}

function checkTools(value: Json | undefined): string[] {
  if (value === undefined) return []
  return items(value, 'tools').flatMap((tool, at) => {
    const { functionDeclarations } = closed(tool, `tools[${at}]`, of<Tool>('functionDeclarations', 'googleSearch'))
    if (functionDeclarations === undefined) return []
    return items(functionDeclarations, `tools[${at}]`).map((declaration) => {
      const { name, parametersJsonSchema: schema } = closed(
        declaration,
        `tools[${at}].function_declarations`,
        of<FunctionDeclaration>('name', 'description', 'parametersJsonSchema', 'behavior'),
      )
      refuseUnless(isName(name), `Invalid function name: ${name}`)
      refuseUnless(schema === undefined || (isObject(schema) && schema.type === 'object'), 'parameters are an object')
      return name
    })
  })
}

function checkBeside(
  { tools, toolConfig, generationConfig }: JsonObject,
  names: string[],
  { signs, ids }: Rules,
): void {
  const isJson = isObject(generationConfig) && generationConfig.responseMimeType === 'application/json'
  refuseUnless(
    signs || !isJson || tools === undefined,
    "Tool use with a response mime type: 'application/json' is unsupported",
  )
  const searches = Array.isArray(tools) && tools.some((tool) => isObject(tool) && tool.googleSearch !== undefined)
  if (!searches || names.length === 0) return
  refuseUnless(signs, 'Tool use with function calling is unsupported')
  const isEnabled = isObject(toolConfig) && toolConfig.includeServerSideToolInvocations === true
  refuseUnless(
    isEnabled === ids,
    'Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling.',
  )
}

function checkToolConfig(value: Json, names: readonly string[]): void {
  const { functionCallingConfig: config } = closed(
    value,
    'tool_config',
    of<ToolConfig>('functionCallingConfig', 'includeServerSideToolInvocations'),
  )
  if (config === undefined) return
  const { mode, allowedFunctionNames: allowed } = closed(
    config,
    'tool_config',
    of<FunctionCallingConfig>('mode', 'allowedFunctionNames'),
  )
  refuseUnless(['AUTO', 'ANY', 'NONE', 'VALIDATED'].includes(String(mode)), `Invalid value at 'mode': ${mode}`)
  refuseUnless(names.length > 0, 'Function calling config is set without function_declarations.')
  if (allowed === undefined) return
  refuseUnless(
    mode === 'ANY' || mode === 'VALIDATED',
    'allowed_function_names should only be set when mode is ANY or VALIDATED.',
  )
  for (const name of items(allowed, 'allowed')) refuseUnless(names.includes(String(name)), `${name} is not declared`)
}

const CONFIG = of<GenerationConfig>(
  ...(['maxOutputTokens', 'temperature', 'topP', 'topK', 'stopSequences', 'seed', 'candidateCount'] as const),
  ...(['presencePenalty', 'frequencyPenalty', 'responseLogprobs', 'logprobs', 'responseMimeType'] as const),
  ...(['responseJsonSchema', 'responseModalities', 'thinkingConfig'] as const),
)

function checkConfig(value: Json, { thinks }: Rules): void {
  const config = closed(value, 'generation_config', CONFIG)
  for (const [name, held] of Object.entries(config)) refuseUnless(held !== null, `${name} is null`)
  const { seed, stopSequences: stops, responseLogprobs, logprobs, responseMimeType: type, thinkingConfig } = config
  refuseUnless(
    seed === undefined || seed === Number(seed) >> 0,
    "Invalid value at 'generation_config.seed' (TYPE_INT32)",
  )
  refuseUnless(stops === undefined || items(stops, 'stop_sequences').length <= 5, 'at most 5 stop sequences')
  refuseUnless(logprobs === undefined || responseLogprobs === true, 'logprobs need response_logprobs')
  refuseUnless(
    config.responseJsonSchema === undefined || type === 'application/json',
    'response_json_schema needs the response_mime_type application/json',
  )
  refuseUnless(
    (config.candidateCount ?? 1) === 1 || thinks === 'no',
    'Multiple candidates is not enabled for this model',
  )
  if (thinkingConfig === undefined) return
  refuseUnless(thinks !== 'no', 'Thinking is not enabled for this model')
  const { thinkingLevel: level, thinkingBudget: budget } = closed(
    thinkingConfig,
    'thinking_config',
    of<ThinkingConfig>('includeThoughts', 'thinkingLevel', 'thinkingBudget'),
  )
  refuseUnless(
    level === undefined || budget === undefined,
    'You can only set only one of thinking budget and thinking level.',
  )
  refuseUnless(level === undefined || thinks === 'level', 'Thinking level is not supported for this model.')
  refuseUnless(
    level === undefined || ['low', 'medium', 'high'].includes(String(level)),
    `Thinking level ${level} is not supported for this model.`,
  )
  const isOff = budget === 0 && thinks === 'budget-or-off'
  const isWithin = budget === undefined || isOff || (Number(budget) >= 128 && Number(budget) <= 24_576)
  refuseUnless(isWithin, `The thinking budget ${budget} is invalid. Please choose a value between 128 and 24576.`)
}
