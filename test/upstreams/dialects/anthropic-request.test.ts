/**
 * All other request fields for Anthropic's API: every client request is accepted by the service, or refused with a
 * reason.
 */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { UpstreamOptions } from '../../../src/domain/dialects.ts'
import type { CanonicalRequest } from '../../../src/domain/request.ts'
import { validate } from '../../../src/formats/chat/request.ts'
import { anthropic } from '../../../src/upstreams/dialects/anthropic/anthropic.ts'
import { toBody } from '../../../src/upstreams/dialects/anthropic/request.ts'
import { anyRequest } from '../../gateway/any-request.ts'
import { type Fields, on, send } from './anthropic-sending.ts'

test('every other field has an equivalent, or none', () => {
  const sent = send({
    stop: ['a', ' '],
    user: 'u',
    service_tier: 'default',
    seed: 1,
    frequency_penalty: 1,
    verbosity: 'low',
    store: false,
    metadata: { a: 'b' },
    stream: true,
  })
  expect(sent).toEqual({
    model: 'claude',
    max_tokens: 64_000,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
    stop_sequences: ['a'],
    metadata: { user_id: 'u' },
    service_tier: 'standard_only',
    stream: true,
  })
})

test('without a cap, the maximum output is the remaining context, by a conservative estimate', () => {
  const room = (content: string, contextLength = 200_000) =>
    send({ messages: [{ role: 'user', content }] }, { ...on(), contextLength }).max_tokens
  expect(room('Hi')).toBe(64_000)
  expect(room('x'.repeat(540_000))).toBeWithin(19_900, 20_001)
  expect(room('x'.repeat(3_000_000))).toBe(4_096)
  expect(room('x'.repeat(540_000), 1_000_000)).toBe(64_000)
})

test('a user name that is too long is dropped', () => {
  expect(send({ user: 'u'.repeat(257) })).not.toHaveProperty('metadata')
  expect(send({ safety_identifier: 'u' })).toMatchObject({ metadata: { user_id: 'u' } })
})

test('a top_k that is not a whole number is dropped', () => {
  for (const top_k of [0, 1.5, 2 ** 53, '5']) expect(send({ top_k })).not.toHaveProperty('top_k')
  expect(send({ top_k: 5 }).top_k).toBe(5)
})

test('a field that chat does not know is sent only if the catalog passes it', () => {
  const body = {
    model: 'm',
    messages: [{ role: 'user', content: 'Hi' }],
    context_management: { edits: [] },
    mystery: 1,
  }
  const sent = toBody(body as CanonicalRequest, on({ pass: ['context_management', 'model'] }))
  expect(sent).toMatchObject({ context_management: { edits: [] }, model: 'claude' })
  expect(sent).not.toHaveProperty('mystery')
})

test('every valid chat request is accepted by the service, or refused with a reason', () => {
  fc.assert(
    fc.property(anyRequest('m'), (request) => {
      try {
        send(request as Fields)
      } catch (error) {
        expect(error).toMatchObject({ status: 400, code: expect.stringMatching(/^unsupported_/) })
      }
    }),
    { numRuns: 500 },
  )
})

test('whatever unvalidated fields contain, the request is written, or refused with a reason', () => {
  const any = fc.jsonValue({ maxDepth: 3 })
  const part = fc.record(
    {
      type: fc.constantFrom('image', 'document', 'search_result', 'text', 'file', 'image_url', 'other'),
      ...{
        text: any,
        source: fc.oneof(any, fc.record({ type: fc.constantFrom('text', 'url', 'content'), data: any, content: any })),
        title: any,
      },
      ...{ content: any, cache_control: any, file: any, image_url: any, citations: any, prompt_cache_breakpoint: any },
    },
    { requiredKeys: ['type'] },
  )
  const detail = fc.record({
    type: fc.constantFrom('reasoning.text', 'reasoning.encrypted', 'x'),
    text: any,
    signature: any,
    data: any,
    format: any,
    index: any,
    signer: any,
  })
  const request = fc.record({
    parts: fc.oneof(fc.constant('Hi'), fc.array(part, { minLength: 1, maxLength: 3 })),
    details: fc.array(fc.oneof(detail, any)),
    ...{ mark: any, reasoning: any, thinking: any, top_k: any },
  })
  let written = 0
  fc.assert(
    fc.property(request, ({ parts, details, mark, reasoning, thinking, top_k }) => {
      const messages = [
        { role: 'user', content: parts, cache_control: mark },
        { role: 'assistant', content: 'So', reasoning_details: details },
        { role: 'user', content: 'And?' },
      ]
      const fields = { reasoning, thinking, top_k, cache_control: mark }
      const body = validate({ model: 'm', messages, ...fields })
      if (body instanceof Error) return
      try {
        JSON.stringify(toBody(body, on()))
        written++
      } catch (error) {
        expect(error).toMatchObject({ status: 400, code: expect.stringMatching(/^unsupported_/) })
      }
    }),
    { numRuns: 2_000 },
  )
  expect(written).toBeGreaterThan(500)
})

test("the upstream's settings apply to the request", () => {
  const { upstream } = on()
  const headers = (options: Partial<UpstreamOptions>) => anthropic.headers(on(options).upstream)
  expect(headers({})).toEqual({ 'anthropic-version': '2023-06-01', 'x-api-key': 'k' })
  expect(headers({ auth: 'bearer', api_version: '2026-10-21', betas: ['a', 'b'] })).toEqual({
    'anthropic-version': '2026-10-21',
    'anthropic-beta': 'a,b',
    authorization: 'Bearer k',
  })
  const at = (baseUrl: string, options = {}) => {
    const target = on(options)
    const body: CanonicalRequest = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
    return anthropic.request(body, { ...target, upstream: { ...target.upstream, baseUrl } }).path
  }
  expect(at('https://api.anthropic.com')).toBe('/v1/messages')
  expect(at('https://api.minimax.io/anthropic/v1')).toBe('/messages')
  expect(at('https://h', { path: '/raw' })).toBe('/raw')
  expect(at('https://h', { path: '/of/{model}' })).toMatch(/^\/of\/[\w%.-]+$/)
  expect(anthropic.probe.path({ ...upstream, baseUrl: 'https://h' })).toBe('/v1/models')
})
