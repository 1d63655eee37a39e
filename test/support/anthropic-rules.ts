/** Requests that the real service refuses although their shape is valid, with its messages. */
import { toSignature } from './anthropic-answers.ts'
import { MessagesBody } from './anthropic-shape.ts'

export interface Ability {
  thinking: 'adaptive' | 'budget' | 'none'
  off: boolean
  sampling: boolean
  efforts: readonly string[]
  maxTokens: number
}

export const ABLE: Ability = {
  thinking: 'adaptive',
  off: true,
  sampling: true,
  efforts: ['low', 'medium', 'high', 'max'],
  maxTokens: 64_000,
}

/** The refusal; null if accepted. */
export function findRefusal(json: unknown, ability: Ability, version: string): string | null {
  const read = MessagesBody.safeParse(json)
  if (!read.success) {
    const [problem] = read.error.issues
    return `${problem?.path.join('.')}: ${problem?.code === 'unrecognized_keys' ? 'Extra inputs are not permitted' : problem?.message}`
  }
  const body = read.data
  for (const rule of [checkTurns, checkTools, checkThoughts, checkCache]) {
    const refusal = rule(body)
    if (refusal) return refusal
  }
  return checkAbility(body, ability, version) ?? checkSchemas(body)
}

type Block = Exclude<MessagesBody['messages'][number]['content'], string>[number]
const blocksOf = ({ content }: MessagesBody['messages'][number]): readonly Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content

function checkTurns({ messages }: MessagesBody): string | null {
  if (messages[0]?.role !== 'user') return 'messages: first message must use the "user" role'
  let open: string[] = []
  for (const [index, message] of messages.entries()) {
    const blocks = blocksOf(message)
    const results = blocks.flatMap((block) => (block.type === 'tool_result' ? block.tool_use_id : []))
    const missing = open.filter((id) => !results.includes(id))
    if (missing.length > 0)
      return `messages.${index - 1}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${missing.join(', ')}.`
    const strange = results.find((id) => !open.includes(id))
    if (strange) return `messages.${index}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${strange}.`
    if (new Set(results).size < results.length) return `messages.${index}: each tool_use must have a single result.`
    if (blocks.slice(0, results.length).some(({ type }) => type !== 'tool_result'))
      return `messages.${index}: tool_result blocks must come first.`
    open = blocks.flatMap((block) => (block.type === 'tool_use' ? block.id : []))
    if (new Set(open).size < open.length) return 'messages: `tool_use` ids must be unique'
    const firstUse = blocks.findIndex(({ type }) => type === 'tool_use')
    if (firstUse !== -1 && blocks.slice(firstUse).some(({ type }) => type !== 'tool_use'))
      return `messages.${index}: nothing may follow a tool_use.`
  }
  if (open.length > 0)
    return `messages: \`tool_use\` ids were found without \`tool_result\` blocks: ${open.join(', ')}.`
  const last = messages.at(-1)
  const end = last?.role === 'assistant' ? blocksOf(last).at(-1) : undefined
  if (end?.type === 'text' && end.text !== end.text.trimEnd())
    return 'messages: final assistant content cannot end with trailing whitespace'
  return null
}

function checkTools({ tools = [], tool_choice: choice, messages }: MessagesBody): string | null {
  const names = tools.map(({ name }) => name)
  if (new Set(names).size < names.length) return 'tools: Tool names must be unique.'
  if (choice && names.length === 0) return 'tool_choice: tool_choice may only be specified while providing tools.'
  if (choice?.type === 'tool' && !names.includes(choice.name))
    return `Tool '${choice.name}' not found in provided tools.`
  const used = messages.flatMap(blocksOf).some(({ type }) => type === 'tool_use' || type === 'tool_result')
  // Some hosts refuse it; the service itself accepts it.
  return used && names.length === 0 && choice ? 'tools: Requests which include tool blocks must define tools' : null
}

function checkThoughts({ thinking, tool_choice: choice, messages, max_tokens, temperature, top_k }: MessagesBody) {
  for (const block of messages.flatMap(blocksOf))
    if (block.type === 'thinking' && block.signature !== toSignature(block.thinking))
      return 'messages: Invalid `signature` in `thinking` block'
  if (!thinking || thinking.type === 'disabled') return null
  if (choice?.type === 'any' || choice?.type === 'tool')
    return 'Thinking may not be enabled when tool_choice forces tool use.'
  if ((temperature !== undefined && temperature !== 1) || top_k !== undefined)
    return '`temperature` may only be set to 1 when thinking is enabled.'
  if (thinking.type !== 'enabled') return null
  if (thinking.budget_tokens >= max_tokens) return '`max_tokens` must be greater than `thinking.budget_tokens`.'
  const last = messages.findLast(({ role }) => role === 'assistant')
  const isOpen =
    messages.at(-1) === last || blocksOf(messages.at(-1) as never).some(({ type }) => type === 'tool_result')
  const [first] = last && isOpen ? blocksOf(last) : []
  if (first && first.type !== 'thinking' && first.type !== 'redacted_thinking')
    return `messages: Expected \`thinking\` or \`redacted_thinking\`, but found \`${first.type}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block.`
  return null
}

function checkCache({ tools = [], system, messages, cache_control: own }: MessagesBody): string | null {
  const holders = [
    ...tools,
    ...(typeof system === 'object' ? system : []),
    ...messages.flatMap(blocksOf).flatMap(within),
  ]
  const marks = holders.flatMap((holder: { cache_control?: { ttl?: string } }) => holder.cache_control ?? [])
  const count = marks.length + (own ? 1 : 0)
  if (count > 4) return `A maximum of 4 blocks with cache_control may be provided. Found ${count}.`
  const ttls = [...marks, ...(own ? [own] : [])].map(({ ttl }) => ttl ?? '5m')
  return ttls.lastIndexOf('1h') > ttls.indexOf('5m') && ttls.includes('5m')
    ? "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
    : null
}

/** The contents of a result or document count before it. */
const within = (block: Block): object[] => {
  const inner: object = block.type === 'document' ? block.source : block
  const content: unknown = Reflect.get(inner, 'content')
  return [...(Array.isArray(content) ? content.flatMap(within) : []), block]
}

function checkAbility(body: MessagesBody, can: Ability, version: string): string | null {
  const { thinking, temperature, top_p, top_k, max_tokens, output_config } = body
  if (max_tokens > can.maxTokens) return `max_tokens: ${max_tokens} > ${can.maxTokens}, which is the maximum allowed.`
  const sampled = [temperature, top_p, top_k].some((each) => each !== undefined)
  if (sampled && (version !== '2023-06-01' || !can.sampling)) return 'temperature: Extra inputs are not permitted'
  if (temperature !== undefined && top_p !== undefined)
    return '`temperature` and `top_p` cannot both be specified for this model. Please use only one.'
  const kind = thinking?.type
  if (kind && kind !== 'disabled' && kind !== (can.thinking === 'budget' ? 'enabled' : can.thinking))
    return `thinking.type: \`${kind}\` is not supported by this model.`
  if (kind === 'disabled' && !can.off) return 'thinking.type: `disabled` is not supported by this model.'
  const effort = output_config?.effort
  if (effort && (can.thinking !== 'adaptive' || !can.efforts.includes(effort)))
    return `This model does not support effort level '${effort}'. Supported levels: ${can.efforts.join(', ')}.`
  return null
}

const REFUSED =
  /"(minimum|maximum|exclusiveM\w+|multipleOf|m\w+Length|pattern|m\w+Items|uniqueItems|m\w+Properties|not|oneOf)":/

function checkSchemas({ output_config: config, tools = [] }: MessagesBody): string | null {
  const strict = tools.flatMap((tool) => ('strict' in tool && tool.strict ? [tool.input_schema] : []))
  for (const schema of [...(config?.format ? [config.format.schema] : []), ...strict]) {
    const [, word] = REFUSED.exec(JSON.stringify(schema, withoutWords)) ?? []
    if (word) return `output_config.format.schema: For 'object' type, property '${word}' is not supported`
    if (!isClosed(schema))
      return "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
  }
  return null
}

const withoutWords = (key: string, value: unknown) => (key === 'description' ? undefined : value)

function isClosed(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return true
  const isOpen = Reflect.get(schema, 'type') === 'object' && Reflect.get(schema, 'additionalProperties') !== false
  return !isOpen && Object.values(schema).every(isClosed)
}
