import { expect, test } from 'bun:test'
import type { Message } from '../../../src/domain/request.ts'
import { DEFAULT_OPTIONS } from '../../../src/upstreams/dialects/dialects.ts'
import { signed, toOwnConversation } from '../../../src/upstreams/dialects/openai/conversation.ts'

const router = { upstream: { id: 'router', local: false, options: DEFAULT_OPTIONS }, upstreamModel: 'claude' }
const OWN = { type: 'reasoning.text', text: 'Hm', signature: 's', format: 'anthropic-claude-v1', index: 0 }
const BARE = { type: 'reasoning.summary', summary: 'Hm', index: 0 }

test('signatures go back unchanged to their issuer, and to no other upstream; unsigned reasoning stays', () => {
  const marked = signed(OWN, 'router/claude')
  expect(marked).toEqual({ ...OWN, signer: 'router/claude' })
  expect(signed(BARE, 'router/claude')).toBe(BARE)
  const foreign = { type: 'reasoning.encrypted', data: 'AA', format: 'google-gemini-v1', signer: 'google/gemini' }
  const message = (details: unknown[]): Message => ({
    role: 'assistant',
    content: 'a',
    reasoning: 'Hm',
    reasoning_details: details,
  })
  expect(toOwnConversation([message([marked, foreign, BARE])], router)).toEqual([message([OWN, BARE])])
  expect(toOwnConversation([message([foreign])], router)).toEqual([
    { role: 'assistant', content: 'a', reasoning: 'Hm' },
  ])
  // Another model of the same upstream can't read it either.
  const other = { ...router, upstreamModel: 'gemini' }
  expect(toOwnConversation([message([marked, BARE])], other)).toEqual([message([BARE])])
})

test('an image that another upstream generated is sent without its signature', () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
  const extra_content = { google: { thought_signature: 's', signer: 'google/gemini' } }
  const message = { role: 'assistant', content: 'a', images: [{ ...image, extra_content }] } as Message
  expect(toOwnConversation([message], router)).toEqual([
    { role: 'assistant', content: 'a', images: [image] } as Message,
  ])
})

test('a response without remaining content is dropped', () => {
  const question: Message = { role: 'user', content: 'Draw a cat' }
  const next: Message = { role: 'user', content: 'A red one' }
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
  const drawn = { role: 'assistant', content: null, images: [image] } as Message
  const options = { ...DEFAULT_OPTIONS, drop: ['messages.images'] }
  const sent = toOwnConversation([question, drawn, next], {
    ...router,
    upstream: { id: 'router', local: false, options },
  })
  expect(sent).toEqual([question, next])
  expect(toOwnConversation([question, drawn, next], router)).toEqual([question, drawn, next])
})

test('a conversation without any of this is the same list', () => {
  const messages: Message[] = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b', reasoning: 'Hm', reasoning_details: [BARE] },
    { role: 'assistant', tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: 'call_1', content: 'c' },
  ]
  expect(toOwnConversation(messages, router)).toBe(messages)
  expect(
    toOwnConversation(messages, {
      ...router,
      upstream: { id: 'router', local: false, options: { ...DEFAULT_OPTIONS, tool_ids: 'max_40' } },
    }),
  ).toBe(messages)
})

test('images of tools follow the last result of their turn, in a user message', () => {
  const picture = { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AA==' } }
  const call = (id: string) => ({ id, type: 'function' as const, function: { name: 'f', arguments: '{}' } })
  const messages: Message[] = [
    { role: 'assistant', tool_calls: [call('a'), call('b')] },
    { role: 'tool', tool_call_id: 'a', content: [picture] },
    { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'B' }, picture] },
    { role: 'assistant', content: 'c' },
  ]
  expect(toOwnConversation(messages, router)).toEqual([
    { role: 'assistant', tool_calls: [call('a'), call('b')] },
    { role: 'tool', tool_call_id: 'a', content: 'The picture follows.' },
    { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'B' }] },
    { role: 'user', content: [{ type: 'text', text: 'What the tools have shown:' }, picture, picture] },
    { role: 'assistant', content: 'c' },
  ])
})

test('invalid JSON arguments are made valid for a local server, and sent unchanged to any other', () => {
  const call = (text: string): Message => ({
    role: 'assistant',
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: text } }],
  })
  const sent = (text: string, local: boolean) =>
    toOwnConversation([call(text)], { ...router, upstream: { ...router.upstream, local } })
  expect(sent('{city:', true)).toEqual([call('{"value":"{city:"}')])
  expect(sent('', true)).toEqual([call('{}')])
  expect(sent('[1]', true)).toEqual([call('{"value":[1]}')])
  expect(sent('{ "a": 1 }', true)).toEqual([call('{ "a": 1 }')])
  expect(sent('{city:', false)).toEqual([call('{city:')])
})
