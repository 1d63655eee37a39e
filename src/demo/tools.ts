/**
 * Which tools the demo model calls, and with what: function tools, custom tools and the legacy `functions`. Where a
 * call is forced there is one; where the model may choose, it calls those that the last user message names, until their
 * answers are in. Pure.
 */
import type { CanonicalRequest } from '../domain/request.ts'
import { toAsked, toResults } from './messages.ts'
import { toMatching } from './pattern.ts'
import { cannot, toJson } from './value.ts'

export type CallKind = 'function' | 'custom' | 'legacy'

/** A call as it is to be written. `text` is its arguments, or the input of a custom tool. */
export interface Call {
  kind: CallKind
  name: string
  text: string
}

type Tools = NonNullable<CanonicalRequest['tools']>
type CustomTool = Extract<Tools[number], { type: 'custom' }>['custom']

interface Tool {
  kind: CallKind
  name: string
  parameters?: unknown
  format?: CustomTool['format']
}

/** How many characters of a message are searched for the names of tools. */
const MAX_SEARCHED = 100_000

/** Decides what is called; empty where the model talks. Throws an UpstreamError where a call is forced that it cannot make. */
export function toCalls(body: CanonicalRequest): Call[] {
  const { mode, tools } = toDuty(body)
  if (mode === 'none') return []
  const named = mode === 'auto' && toResults(body).length > 0 ? [] : toNamed(tools, toAsked(body))
  const called = named.length === 0 && mode === 'required' ? tools.slice(0, 1) : named
  // A message has room for one legacy call.
  const single = body.parallel_tool_calls === false || called[0]?.kind === 'legacy'
  return (single ? called.slice(0, 1) : called).map(toCall)
}

interface Duty {
  mode: 'none' | 'auto' | 'required'
  /** Those that may be called. */
  tools: Tool[]
}

/** Reads every form of `tool_choice`, and of `function_call`. */
function toDuty(body: CanonicalRequest): Duty {
  const tools = (body.tools ?? []).map<Tool>((tool) =>
    tool.type === 'function' ? { kind: 'function', ...tool.function } : { kind: 'custom', ...tool.custom },
  )
  const legacy = (body.functions ?? []).map<Tool>((tool) => ({ kind: 'legacy', ...tool }))
  if (tools.length === 0 && legacy.length > 0) {
    const choice = body.function_call ?? 'auto'
    return typeof choice === 'string' ? { mode: choice, tools: legacy } : force(legacy, [choice.name])
  }
  const choice = body.tool_choice ?? 'auto'
  if (choice === 'required') return force(tools)
  if (typeof choice === 'string') return { mode: choice, tools }
  if (choice.type === 'function') return force(tools, [choice.function.name])
  if (choice.type === 'custom') return force(tools, [choice.custom.name])
  const allowed = choice.allowed_tools.tools.flatMap((entry) => [nameIn(entry.function), nameIn(entry.custom)])
  if (choice.allowed_tools.mode === 'required') return force(tools, allowed)
  return { mode: 'auto', tools: tools.filter(({ name }) => allowed.includes(name)) }
}

const nameIn = (entry: unknown): unknown =>
  typeof entry === 'object' && entry !== null && 'name' in entry ? entry.name : null

function force(tools: readonly Tool[], names?: readonly unknown[]): Duty {
  const possible = names ? tools.filter(({ name }) => names.includes(name)) : [...tools]
  if (possible.length === 0) throw cannot('The tool that was forced is not among the tools.')
  return { mode: 'required', tools: possible }
}

/** Finds the tools whose names are words of a text, in the order of the text. */
function toNamed(tools: readonly Tool[], text: string): Tool[] {
  if (tools.length === 0) return []
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  const words = new Set(text.slice(0, MAX_SEARCHED).match(/[\w-]+/g))
  return [...words].flatMap((word) => byName.get(word) ?? [])
}

function toCall(tool: Tool): Call {
  const { kind, name } = tool
  return { kind, name, text: kind === 'custom' ? toInput(tool) : toJson(tool.parameters) }
}

/** Writes the input of a custom tool: by its regular expression, else any text. */
function toInput({ name, format }: Tool): string {
  if (format?.type !== 'grammar') return 'demo'
  const { syntax, definition } = format.grammar
  const text = syntax === 'regex' ? toMatching(definition) : null
  if (text === null) throw cannot(`The demo model cannot follow the grammar of the tool ${name}.`)
  return text
}
