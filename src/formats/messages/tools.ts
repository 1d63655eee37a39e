/**
 * The tools of a request. Those that a client runs are functions; those that Anthropic's servers run, or that only its models know,
 * are left out: no other model could call them. A search of the web is asked for as chat has it. Pure.
 */

import type { Decision } from '../../domain/error.ts'
import { asText } from '../../domain/json.ts'
import type { CanonicalRequest, ToolChoice } from '../../domain/request.ts'
import { checkStrict } from '../../validation/strict-schema.ts'
import { toMark } from './content.ts'
import type { MessagesBody } from './schema.ts'
import { invalid } from './validate.ts'

type Tool = NonNullable<MessagesBody['tools']>[number]

/** The fields of a chat request that say the same. */
export function toTools(body: Pick<MessagesBody, 'tools' | 'tool_choice'>): Decision<Partial<CanonicalRequest>> {
  const tools: ReturnType<typeof toFunction>[] = []
  for (const [index, tool] of (body.tools ?? []).entries()) {
    if (tool.type && tool.type !== 'custom') continue
    if (!tool.name) return invalid(`tools.${index}.name`, 'Field required')
    tools.push(toFunction(tool, tool.name))
  }
  const search = body.tools?.find(({ type }) => type?.startsWith('web_search_'))
  return {
    ...(tools.length > 0 ? { tools, ...toChoice(body, tools) } : {}),
    ...(search ? { web_search_options: toSearch(search) } : {}),
  }
}

/** The schema is as it came. `strict` is more at OpenAI than at Anthropic: it is said where the schema holds to that. */
function toFunction(tool: Tool, name: string) {
  const { description, input_schema: parameters, strict } = tool
  const isStrict = strict === true && parameters && checkStrict(parameters, createBudget()) === null
  return {
    type: 'function' as const,
    function: {
      name,
      ...(description ? { description } : {}),
      ...(parameters ? { parameters } : {}),
      ...(isStrict ? { strict: true } : {}),
    },
    ...toMark(tool),
  }
}

const MAX_SUBSCHEMAS = 10_000

function createBudget() {
  let left = MAX_SUBSCHEMAS
  return () => (left-- > 0 ? null : 'it is too long.')
}

/** A choice of a tool that was left out leaves it to the model. */
function toChoice(
  { tool_choice: choice }: Pick<MessagesBody, 'tool_choice'>,
  tools: readonly { function: { name: string } }[],
): Partial<CanonicalRequest> {
  const chosen = toChosen(choice?.type, choice?.name, tools)
  return {
    ...(chosen ? { tool_choice: chosen } : {}),
    ...(choice?.disable_parallel_tool_use === true ? { parallel_tool_calls: false } : {}),
  }
}

function toChosen(
  type: string | undefined,
  name: string | null | undefined,
  tools: readonly { function: { name: string } }[],
): ToolChoice | null {
  if (type === 'auto' || type === 'none') return type
  if (type === 'any') return 'required'
  if (type !== 'tool' || !name || !tools.some((tool) => tool.function.name === name)) return null
  return { type: 'function', function: { name } }
}

function toSearch({ user_location: at }: Tool): NonNullable<CanonicalRequest['web_search_options']> {
  if (!at) return {}
  const approximate: Record<string, string> = {}
  for (const name of ['country', 'region', 'city', 'timezone']) {
    const value = asText(at[name])
    if (value !== '') approximate[name] = value
  }
  return { user_location: { type: 'approximate', approximate } }
}
