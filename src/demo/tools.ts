/**
 * Which tools the demo model calls, and with what: function tools, custom tools and the legacy `functions`. Pure.
 *
 * Where the model may choose (`auto`), it calls those that the last user message names, in the order of the message, until
 * tools have answered. Where a call is forced (`required`, one tool, allowed tools), it calls a tool at most once between two
 * user messages: those that are named, else the first that is left; once all that are allowed have been called, it answers
 * with text. So an agent's loop ends, after as many rounds as there are tools at most, even where each round forces a call.
 */
import type { ToolKind } from '../domain/events.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import { toAsked, toCalled, toResults } from './conversation.ts'
import { toMatching } from './pattern.ts'
import type { CallPart } from './reply.ts'
import { toTokens } from './tokens.ts'
import { cannot, toJson } from './value.ts'

type Tools = NonNullable<CanonicalRequest['tools']>

interface Tool {
  kind: ToolKind
  name: string
  parameters?: unknown
  format?: Extract<Tools[number], { type: 'custom' }>['custom']['format']
}

/** How many characters of a message are searched for the names of tools. */
const MAX_SEARCHED = 100_000

/** Decides what is called; empty where the model talks. Throws an UpstreamError for a call that it cannot make. */
export function toCalls(body: CanonicalRequest): CallPart[] {
  const { mode, tools } = toChoice(body)
  if (mode === 'none' || tools.length === 0) return []
  if (mode === 'auto' && toResults(body).length > 0) return []
  const called = mode === 'required' ? toCalled(body) : new Set()
  const left = tools.filter(({ name }) => !called.has(name))
  const named = toNamed(left, toAsked(body))
  const chosen = named.length === 0 && mode === 'required' ? left.slice(0, 1) : named
  // A message has room for one legacy call.
  const isSingle = body.parallel_tool_calls === false || chosen[0]?.kind === 'function_call'
  return (isSingle ? chosen.slice(0, 1) : chosen).map((tool) => ({
    kind: tool.kind,
    name: tool.name,
    tokens: toTokens(tool.kind === 'custom' ? toInput(tool) : toJson(tool.parameters)),
  }))
}

/** Reads every form of `tool_choice`, and of `function_call`. `tools` are those that may be called. */
function toChoice(body: CanonicalRequest): { mode: 'none' | 'auto' | 'required'; tools: Tool[] } {
  const tools = (body.tools ?? []).map<Tool>((tool) =>
    tool.type === 'function' ? { kind: 'function', ...tool.function } : { kind: 'custom', ...tool.custom },
  )
  const functions = (body.functions ?? []).map<Tool>((tool) => ({ kind: 'function_call', ...tool }))
  if (tools.length === 0 && functions.length > 0) {
    const choice = body.function_call ?? 'auto'
    return typeof choice === 'string' ? { mode: choice, tools: functions } : force(functions, [choice.name])
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

function force(tools: readonly Tool[], names?: readonly unknown[]): { mode: 'required'; tools: Tool[] } {
  const allowed = tools.filter(({ name }) => names?.includes(name) ?? true)
  if (allowed.length === 0) throw cannot('The tool that was forced is not among the tools.')
  return { mode: 'required', tools: allowed }
}

/** Finds the tools whose names are words of a text, in the order of the text. */
function toNamed(tools: readonly Tool[], text: string): Tool[] {
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  const words = new Set(text.slice(0, MAX_SEARCHED).match(/[\w-]+/g))
  return [...words].flatMap((word) => byName.get(word) ?? [])
}

/** Writes the input of a custom tool: by its regular expression, else any text. */
function toInput({ name, format }: Tool): string {
  if (format?.type !== 'grammar') return 'demo'
  const { syntax, definition } = format.grammar
  const text = syntax === 'regex' ? toMatching(definition) : null
  if (text === null) throw cannot(`The demo model cannot follow the grammar of the tool ${name}.`)
  return text
}
