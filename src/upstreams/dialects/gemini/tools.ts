/** Tools, and which of them are to be called, as Gemini takes them: schemas go as they are. Pure. */
import { asObject, asText } from '../../../domain/json.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { FunctionDeclaration, GenerateContent, Tool, ToolConfig } from './wire.ts'

interface Circumstances {
  /** Whether it may search the web, which its provider charges for. */
  isSearching: boolean
  /** Vertex does not know the field without which others refuse a search beside functions. */
  isVertex: boolean
}

export function toTools(
  body: CanonicalRequest,
  { isSearching, isVertex }: Circumstances,
): Pick<GenerateContent, 'tools' | 'toolConfig'> {
  const functionDeclarations = (body.tools ?? []).flatMap((tool) =>
    tool.type === 'function' ? toDeclaration(tool.function) : [],
  )
  functionDeclarations.push(...(body.functions ?? []).map(toDeclaration))
  const tools: Tool[] = []
  if (functionDeclarations.length > 0) tools.push({ functionDeclarations })
  if (isSearching) tools.push({ googleSearch: {} })
  if (functionDeclarations.length === 0) return tools.length > 0 ? { tools } : {}
  const config = toToolConfig(body)
  const toolConfig = isSearching && !isVertex ? { ...config, includeServerSideToolInvocations: true as const } : config
  return { tools, ...(toolConfig ? { toolConfig } : {}) }
}

interface Described {
  name: string
  description?: string | null
  parameters?: Record<string, unknown> | null
}

function toDeclaration({ name, description, parameters }: Described): FunctionDeclaration {
  return {
    name,
    ...(description ? { description } : {}),
    ...(parameters && takesArguments(parameters) ? { parametersJsonSchema: parameters } : {}),
  }
}

/** An object without properties is what clients write for no arguments at all. */
function takesArguments({ properties, ...rest }: Record<string, unknown>): boolean {
  const isEmpty = Object.keys(asObject(properties) ?? {}).length === 0
  return (
    !isEmpty || Object.keys(rest).some((key) => !['type', 'additionalProperties', '$schema', 'required'].includes(key))
  )
}

type Mode = NonNullable<ToolConfig['functionCallingConfig']>['mode']
const toConfig = (mode: Mode, names: string[] = []): ToolConfig => ({
  functionCallingConfig: { mode, ...(names.length > 0 ? { allowedFunctionNames: names } : {}) },
})

/** Undefined where the model may choose, as it does by itself. */
function toToolConfig({ tools, tool_choice: choice, function_call: legacy }: CanonicalRequest): ToolConfig | undefined {
  const wanted = choice ?? legacy
  if (wanted === 'none') return toConfig('NONE')
  if (wanted === 'required') return toConfig('ANY')
  if (!wanted || wanted === 'auto') return tools?.some(isStrict) ? toConfig('VALIDATED') : undefined
  if ('name' in wanted) return toConfig('ANY', [wanted.name])
  if (wanted.type === 'function') return toConfig('ANY', [wanted.function.name])
  if (wanted.type === 'custom') return undefined
  const names = wanted.allowed_tools.tools
    .map((tool) => asText(asObject(tool.function)?.name))
    .filter((name) => name !== '')
  return toConfig(wanted.allowed_tools.mode === 'required' ? 'ANY' : 'VALIDATED', names)
}

/** Arguments are held to the schema in one mode alone. */
const isStrict = (tool: NonNullable<CanonicalRequest['tools']>[number]) =>
  tool.type === 'function' && tool.function.strict === true
