/** A scripted Anthropic that refuses what the real service refuses. */
import { errorMessage, type Message, streamMessage, wholeMessage } from './anthropic-answers.ts'
import { ABLE, type Ability, findRefusal } from './anthropic-rules.ts'
import type { Script, Seen } from './upstream.ts'
import type { Behaviour } from './upstream-answers.ts'

export type Play = Message | ((seen: Seen) => Message | Behaviour)

export interface Strictness {
  key?: string
  ability?: Partial<Ability>
}

export const strictly =
  (play: Play, { key, ability }: Strictness = {}): Script =>
  (seen) => {
    const refusal = findHeadRefusal(seen, key) ?? findBodyRefusal(seen, { ...ABLE, ...ability })
    if (refusal) return refusal
    const said = typeof play === 'function' ? play(seen) : play
    if ('kind' in said) return said
    return seen.json?.stream === true ? streamMessage(said, seen.json.model) : wholeMessage(said, seen.json?.model)
  }

/** Plays the next message after each tool result. */
export const inTurn =
  (...turns: Message[]): Play =>
  ({ json }) => {
    const messages: unknown[] = Array.isArray(json?.messages) ? json.messages : []
    const done = messages.filter((message) => JSON.stringify(message).includes('"tool_use"')).length
    return turns[done] ?? { blocks: [{ text: 'No more.' }] }
  }

function findHeadRefusal({ headers, method, path }: Seen, key: string | undefined): Behaviour | null {
  if (method !== 'POST' || path !== '/v1/messages') return errorMessage(404, 'not_found_error', `Not found: ${path}`)
  if (headers['content-type'] !== 'application/json') return refused('content-type: must be application/json')
  if (!/^(2023-06-01|2026-10-21)$/.test(headers['anthropic-version'] ?? ''))
    return refused('anthropic-version: header is required')
  const given = headers['x-api-key'] ?? headers.authorization?.replace('Bearer ', '')
  if (key !== undefined && given !== key) return errorMessage(401, 'authentication_error', 'invalid x-api-key')
  return null
}

function findBodyRefusal({ json, headers }: Seen, ability: Ability): Behaviour | null {
  if (json?.context_management && !headers['anthropic-beta']?.includes('context-management-'))
    return refused('context_management: Extra inputs are not permitted')
  const refusal = findRefusal(json, ability, headers['anthropic-version'] ?? '')
  return refusal === null ? null : refused(refusal)
}

const refused = (message: string) => errorMessage(400, 'invalid_request_error', message)
