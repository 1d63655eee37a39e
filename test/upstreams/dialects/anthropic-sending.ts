/**
 * The body that Anthropic's API gets for a chat request, checked against the real service's rules and its SDK's types.
 */
import { expect } from 'bun:test'
import type { ContentBlockParam, MessageCreateParamsBase } from '@anthropic-ai/sdk/resources/messages/messages'
import type { UpstreamOptions } from '../../../src/domain/dialects.ts'
import type { RouteSettings } from '../../../src/domain/models.ts'
import type { Target } from '../../../src/domain/snapshot.ts'
import { validate } from '../../../src/formats/chat/request.ts'
import { toBody } from '../../../src/upstreams/dialects/anthropic/request.ts'
import type { Block, WireBody } from '../../../src/upstreams/dialects/anthropic/wire.ts'
import { OWN_FORMAT_OPTIONS } from '../../../src/upstreams/dialects/dialects.ts'
import { ABLE, findRefusal } from '../../support/anthropic-rules.ts'
import { toTarget } from '../../support/snapshot.ts'

export const on = (options: Partial<UpstreamOptions> = {}, route: RouteSettings = {}): Target => ({
  ...toTarget({ dialect: 'anthropic', credential: 'k', options: { ...OWN_FORMAT_OPTIONS, ...options } }),
  upstreamModel: 'claude',
  features: ['tools', 'structured_outputs', 'reasoning'],
  maxOutputLength: 64_000,
  contextLength: 200_000,
  options: route,
})

export type Fields = Record<string, unknown>

/** The body must match the types of Anthropic's SDK. */
type Parts = 'tools' | 'tool_choice' | 'thinking' | 'system' | 'service_tier' | 'metadata' | 'cache_control'
export const asTyped: (sent: Pick<WireBody, Parts>) => Pick<MessageCreateParamsBase, Parts> = (sent) => sent
export const asTypedBlock: (block: Block) => ContentBlockParam = (block) => block

/** The body for a valid chat request. */
export function send(fields: Fields, target = on()): WireBody {
  const body = validate({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...fields })
  if (body instanceof Error) throw body
  const sent: WireBody = JSON.parse(JSON.stringify(toBody(body, target)))
  const { thinking = ABLE.thinking, efforts = ABLE.efforts } = target.options
  expect(findRefusal(sent, { ...ABLE, thinking, efforts }, '2023-06-01')).toBeNull()
  return sent
}

export const text = (words: string, more: object = {}) => ({ type: 'text' as const, text: words, ...more })
export const call = (id: string, name: string, args: string) => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})
