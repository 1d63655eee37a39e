/**
 * How much a model is to think, in the words of its provider and by what its route says that it can. An upstream whose words nobody
 * has said is sent the client's own, whichever they are: it may know them. Pure.
 */

import type { UpstreamSettings } from '../../../domain/dialects.ts'
import { asObject, type JsonObject } from '../../../domain/json.ts'
import type { Effort, RouteSettings } from '../../../domain/models.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import { toThinkingWish } from '../../../domain/thinking.ts'
import { toNearestEffort } from '../nearest-effort.ts'

type Words = NonNullable<UpstreamSettings['effort_fields']>

/** @param sent a copy of the request's fields, which is changed. */
export function sayThinking(
  sent: JsonObject,
  body: CanonicalRequest,
  route: RouteSettings,
  words: Words | undefined,
): void {
  const { reasoning_effort: effort, reasoning, thinking } = sent
  if (effort === undefined && reasoning === undefined && thinking === undefined) return
  if (words) translate(sent, body, route, words)
  else if (body.reasoning_effort) sent.reasoning_effort = toKnown(body.reasoning_effort, route)
}

function translate(sent: JsonObject, body: CanonicalRequest, route: RouteSettings, words: Words): void {
  const { isOn, effort } = toThinkingWish(body)
  const { reasoning_effort: said, reasoning, thinking } = sent
  sent.reasoning_effort = undefined
  sent.reasoning = undefined
  sent.thinking = undefined
  const isTheirs = isSwitch(thinking) && Object.values(words).some((fields) => 'thinking' in fields)
  if (isTheirs && route.thinking !== 'none') sent.thinking = thinking
  if (isOn === null || (isTheirs && !said && !reasoning)) return
  // Yes alone means that much at OpenRouter, too.
  const known = toKnown(isOn ? (effort ?? 'medium') : 'none', route)
  if (known === undefined) return
  const fields = words[known] ?? { reasoning_effort: known }
  // What a client says by the provider's own fields goes before ours.
  for (const name in fields) sent[name] ??= fields[name]
}

/** Some providers have the field themselves, with these two. */
function isSwitch(thinking: unknown): boolean {
  const type = asObject(thinking)?.type
  return type === 'enabled' || type === 'disabled'
}

/** The effort that is as near as the model can; undefined where it is left to think as it does. */
function toKnown(
  effort: Effort | 'none',
  { thinking, efforts, thinking_off: off }: RouteSettings,
): Effort | 'none' | undefined {
  if (thinking === 'none') return undefined
  if (effort === 'none' && off !== false) return effort
  if (efforts) return toNearestEffort(effort, efforts)
  return effort === 'none' ? undefined : effort
}
