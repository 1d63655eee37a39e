/** For an upstream that leaves it to its model which tools it calls, and refuses to be told: it has those that it may call. Pure. */
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { CanonicalRequest, ToolChoice } from '../../../domain/request.ts'

/** @param sent a copy of the request's fields, which is changed: without the choice, and a tool that must be called is asked for in words. */
export function leaveChoice(sent: JsonObject, { tools, tool_choice: choice }: CanonicalRequest): void {
  sent.tool_choice = undefined
  if (!choice || choice === 'auto') return
  const names = choice === 'required' ? null : namesIn(choice)
  const allowed = tools?.filter((tool) => names === null || names.has(nameOf(tool))) ?? []
  sent.tools = allowed.length > 0 ? allowed : undefined
  if (allowed.length === 0 || !isForced(choice)) return
  const words =
    allowed.length === 1 ? `You must call the tool ${nameOf(allowed[0])}.` : 'You must call one of the tools.'
  sent.messages = [{ role: 'system', content: words }, ...(sent.messages as unknown[])]
}

const isForced = (choice: ToolChoice) =>
  typeof choice === 'string'
    ? choice === 'required'
    : choice.type !== 'allowed_tools' || choice.allowed_tools.mode === 'required'

function namesIn(choice: ToolChoice): ReadonlySet<string> {
  if (typeof choice === 'string') return new Set()
  return new Set((choice.type === 'allowed_tools' ? choice.allowed_tools.tools : [choice]).map(nameOf))
}

/** Of a tool, or of what stands for it in a choice. */
function nameOf(value: unknown): string {
  const tool = asObject(value)
  return asText((asObject(tool?.function) ?? asObject(tool?.custom) ?? tool)?.name)
}
