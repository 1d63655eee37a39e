/**
 * Client tools as functions: namespaced ones with longer names, custom tools with one string, the local shell with a command. Tools that
 * only the provider can run are dropped.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { asObject, asText } from '../../domain/json.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import type { CustomTool, FunctionTool, ResponsesRequest, Tool, ToolChoice } from './schema.ts'

type Function = Extract<NonNullable<CanonicalRequest['tools']>[number], { type: 'function' }>

interface GivenTools {
  functions: Function[]
  paths: string[]
  /** Tools that weren't dropped, for the response. */
  kept: object[]
  names: ReadonlySet<string>
  /** Web search options; null for no search. */
  search: CanonicalRequest['web_search_options'] | null
}

export function readTools(tools: readonly Tool[], names: ToolNames): GivenTools {
  const given: GivenTools & { names: Set<string> } = {
    functions: [],
    paths: [],
    kept: [],
    names: new Set(),
    search: null,
  }
  tools.forEach((tool, index) => {
    const called = toCalled(tool, `tools[${index}]`)
    if (called === null) given.search ??= toSearch(tool)
    else
      given.kept.push(tool.type === 'function' ? { description: null, parameters: null, strict: null, ...tool } : tool)
    for (const { client, at, made } of called ?? []) {
      const name = names.nameOf(client)
      if (given.names.has(name)) continue
      given.names.add(name)
      given.functions.push({ type: 'function', function: { name, ...made } })
      given.paths.push(at)
    }
  })
  return given
}

/** Total limit for namespace descriptions, which are repeated for each tool. */
const MAX_ABOUT_CHARS = 65_536

interface Called {
  client: ClientTool
  at: string
  made: Omit<Function['function'], 'name'>
}

/** Null if only the provider can run the tool. */
function toCalled(tool: Tool, at: string): Called[] | null {
  switch (tool.type) {
    case 'function':
    case 'custom':
      return [toOne(tool, null, '', at)]
    case 'namespace': {
      const { name, description, tools } = tool
      const about = (description ?? '').slice(0, Math.ceil(MAX_ABOUT_CHARS / tools.length))
      return tools.flatMap((each, index) =>
        each.type === 'function' || each.type === 'custom' ? toOne(each, name, about, `${at}.tools[${index}]`) : [],
      )
    }
    case 'local_shell':
      return [{ client: { type: 'local_shell' }, at, made: LOCAL_SHELL }]
    default:
      return null
  }
}

const toOne = (tool: FunctionTool | CustomTool, namespace: string | null, about: string, at: string): Called => ({
  client: { type: tool.type, name: tool.name, namespace },
  at,
  made: tool.type === 'function' ? toFunction(tool, about) : toFunctionOfText(tool, about),
})

function toFunction(
  { description, parameters, strict }: FunctionTool,
  about: string,
): Omit<Function['function'], 'name'> {
  const said = join(about, description)
  return {
    ...(said === '' ? {} : { description: said }),
    ...(parameters ? { parameters: withProperties(parameters) } : {}),
    ...(typeof strict === 'boolean' ? { strict } : {}),
  }
}

/** Tools without parameters often have just `type: object`, which many servers refuse. */
const withProperties = (schema: Record<string, unknown>) =>
  schema.type === 'object' && schema.properties === undefined ? { ...schema, properties: {} } : schema

function toFunctionOfText({ description, format }: CustomTool, about: string): Omit<Function['function'], 'name'> {
  const grammar = format?.type === 'grammar' ? asText(format.definition) : ''
  const rule = `The input must match this ${asText(format?.syntax)} grammar:\n${grammar}`
  const said = join(about, description, grammar === '' ? '' : rule)
  return {
    ...(said === '' ? {} : { description: said }),
    parameters: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
  }
}

const join = (...texts: (string | null | undefined)[]) => texts.filter(Boolean).join('\n\n')

const LOCAL_SHELL: Omit<Function['function'], 'name'> = {
  description: "Runs a command on the user's machine.",
  parameters: {
    type: 'object',
    properties: {
      command: { type: 'array', items: { type: 'string' }, description: 'The program and its arguments.' },
      working_directory: { type: 'string' },
      timeout_ms: { type: 'integer' },
    },
    required: ['command'],
  },
}

/** Searches limited to the provider's own index are not web searches. */
function toSearch(tool: object): GivenTools['search'] {
  const {
    type,
    external_web_access: external,
    search_context_size: size,
    user_location,
  } = { ...tool } as Record<string, unknown>
  if (!/^web_search(_|$)/.test(asText(type)) || external === false) return null
  const { type: _, ...place } = asObject(user_location) ?? {}
  const said = Object.entries(place).filter((field): field is [string, string] => typeof field[1] === 'string')
  return {
    ...(size === 'low' || size === 'medium' || size === 'high' ? { search_context_size: size } : {}),
    ...(said.length > 0 ? { user_location: { type: 'approximate', approximate: Object.fromEntries(said) } } : {}),
  }
}

export function toToolChoice(
  { tool_choice: choice }: Pick<ResponsesRequest, 'tool_choice'>,
  tools: GivenTools,
  names: ToolNames,
): Decision<CanonicalRequest['tool_choice']> {
  const hasNone = tools.functions.length === 0
  if (choice === 'required' && hasNone) return leftOut('tool_choice', 'no tool is available')
  if (choice === undefined || choice === null || typeof choice === 'string')
    return hasNone ? undefined : (choice ?? undefined)
  if (choice.type === 'allowed_tools') return toAllowed(choice, tools, names)
  const name = toName(choice, names)
  if (name === null || !tools.names.has(name))
    return leftOut('tool_choice', `${choice.name ?? choice.type} is not available`)
  return { type: 'function', function: { name } }
}

function toAllowed(
  { mode, tools: allowed }: Exclude<ToolChoice, string>,
  tools: GivenTools,
  names: ToolNames,
): Decision<CanonicalRequest['tool_choice']> {
  const left = (allowed ?? []).flatMap((each) => {
    const name = toName(each, names)
    return name !== null && tools.names.has(name) ? [{ type: 'function', function: { name } }] : []
  })
  if (left.length > 0) return { type: 'allowed_tools', allowed_tools: { mode: mode ?? 'auto', tools: left } }
  return mode === 'required'
    ? leftOut('tool_choice.tools', 'none of these tools is available')
    : tools.names.size > 0
      ? 'none'
      : undefined
}

function toName(
  { type, name, namespace }: { type: string; name?: string | null; namespace?: string | null },
  names: ToolNames,
) {
  if (type === 'local_shell') return names.nameOf({ type })
  if ((type !== 'function' && type !== 'custom') || !name) return null
  return names.nameOf({ type, name, namespace: namespace ?? null })
}

const leftOut = (param: string, problem: string) =>
  new GatewayError(
    'invalid_request',
    `Invalid value for 'tool_choice': ${problem}. Only functions, custom tools, namespaces of them, and local_shell are supported.`,
    { code: 'invalid_value', param },
  )

export type ClientTool =
  | { type: 'function' | 'custom'; name: string; namespace?: string | null }
  | { type: 'local_shell' }

const MAX_CHARS = 64
/** An underscore and 32 bits in hexadecimal. */
const MARK_CHARS = 9

/** Maps a request's client tools to unique function names of at most 64 characters, and back. */
export class ToolNames {
  readonly #names = new Map<string, string>()
  readonly #tools = new Map<string, ClientTool>()

  nameOf(tool: ClientTool): string {
    const key = JSON.stringify(tool.type === 'local_shell' ? [tool.type] : [tool.type, tool.namespace ?? '', tool.name])
    const known = this.#names.get(key)
    if (known !== undefined) return known
    const plain = toPlain(tool)
    const name = plain.length <= MAX_CHARS && !this.#tools.has(plain) ? plain : marked(plain, key)
    this.#names.set(key, name)
    this.#tools.set(name, tool)
    return name
  }

  /** A model may also call functions that don't exist. */
  toolOf(name: string): ClientTool {
    return this.#tools.get(name) ?? { type: 'function', name }
  }
}

function toPlain(tool: ClientTool): string {
  if (tool.type === 'local_shell') return tool.type
  const full = tool.namespace ? `${tool.namespace}__${tool.name}` : tool.name
  return full.replace(/[^a-zA-Z0-9_-]/g, '_')
}

const marked = (plain: string, key: string) =>
  `${plain.slice(0, MAX_CHARS - MARK_CHARS)}_${Bun.hash
    .xxHash32(key)
    .toString(16)
    .padStart(MARK_CHARS - 1, '0')}`
