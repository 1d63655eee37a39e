/** The estimate that is reserved before a call: bytes, never a tokenizer. */
import { expect, test } from 'bun:test'
import { estimate, tokensOfBytes } from '../../src/limits/estimate.ts'
import type { ChatRequest } from '../../src/wire/request.ts'

const user = (content: string) => ({ role: 'user' as const, content })
const image = { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${'A'.repeat(100_000)}` } }
const tool = { type: 'function' as const, function: { name: 'f' } }
const call = { id: 'c1', type: 'function' as const, function: { name: 'f', arguments: '{}' } }

test.each([
  ['one message', { messages: [user('four')] }, 8 + 1],
  ['an empty one', { messages: [user('')] }, 8],
  ['one byte more', { messages: [user('fours')] }, 8 + 2],
  ['bytes, not characters', { messages: [user('🦊🦊')] }, 8 + 2],
  ['several messages, rounded up once', { messages: [user('a'), user('b')] }, 16 + 1],
  [
    'text parts and an image, whose bytes do not count',
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'four' }, image] }] },
    8 + 1 + 1_500,
  ],
  ['tools', { messages: [user('')], tools: [tool] }, 8 + tokensOfBytes(JSON.stringify([tool]).length)],
  [
    'tool calls that come back',
    { messages: [{ role: 'assistant', content: null, tool_calls: [call] }] },
    8 + tokensOfBytes(JSON.stringify([call]).length),
  ],
] as [string, Omit<ChatRequest, 'model'>, number][])('the prompt of %s', (_, body, tokens) => {
  expect(estimate({ model: 'm', ...body }, 1_000).promptTokens).toBe(tokens)
})

test.each([
  ['the model’s maximum', {}, 1_000, 1_000],
  ['4,096 of a larger one', {}, 100_000, 4_096],
  ['the client’s cap', { max_tokens: 7 }, 1_000, 7],
  ['its newer name', { max_completion_tokens: 9 }, 1_000, 9],
  ['null as no cap', { max_tokens: null }, 1_000, 1_000],
  ['each choice', { max_tokens: 7, n: 3 }, 1_000, 21],
] as [string, Partial<ChatRequest>, number, number][])('the answer counts %s', (_, extra, maximum, tokens) => {
  expect(estimate({ model: 'm', messages: [user('')], ...extra }, maximum).completionTokens).toBe(tokens)
})
