/** The estimate that is reserved before a call, by bytes and without a tokenizer. */
import { expect, test } from 'bun:test'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { estimate, tokensOfBytes } from '../../src/tokens/estimate.ts'

const user = (content: string) => ({ role: 'user' as const, content })
const said = (content: string | null, more: object) => ({ role: 'assistant' as const, content, ...more })
const image = { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${'A'.repeat(100_000)}` } }
const file = (mediaType: string, filename: string | null, data = 'four') => ({
  type: 'file' as const,
  file: { filename, file_data: (mediaType && `data:${mediaType};base64,`) + Buffer.from(data).toString('base64') },
})
const parts = (...content: object[]) => ({ messages: [{ role: 'user', content }] })
/** Parts of unknown types. */
const video = (url: string) => ({ type: 'video_url', video_url: { url } })
/** Bytes of a part with these names and texts. */
const textTokens = (...texts: string[]) => tokensOfBytes(texts.join('').length)
const NAMES = ['type', 'video_url', 'video_url', 'url']
const base64 = (bytes: number) => Buffer.alloc(bytes).toString('base64')
const tool = { type: 'function' as const, function: { name: 'f' } }
const calls = [
  { id: 'c1', type: 'function' as const, function: { name: 'f', arguments: '{}' } },
  { id: 'c2', type: 'custom' as const, custom: { name: 'c', input: 'four' } },
]
const schema = { name: 's', schema: { type: 'object' } }

test.each([
  ['one message', { messages: [user('four')] }, 8 + 1],
  ['an empty one', { messages: [user('')] }, 8],
  ['one byte more', { messages: [user('fours')] }, 8 + 2],
  ['bytes, not characters', { messages: [user('🦊🦊')] }, 8 + 2],
  ['several messages, rounded up once', { messages: [user('a'), user('b')] }, 16 + 1],
  ['a name', { messages: [{ ...user('four'), name: 'anna' }] }, 8 + 2],
  [
    'text parts and an image, whose bytes do not count',
    parts({ type: 'text', text: 'four' }, image),
    8 + 1 + 85 + 6 * 170,
  ],
  ['a text file, by its own bytes', parts(file('text/plain', null)), 8 + 1],
  ['one recognized by its name', parts(file('', 'notes.md')), 8 + 1],
  ['a JSON file', parts(file('application/ld+json', null)), 8 + 1],
  ['any other file', parts(file('application/pdf', 'a.txt')), 8 + 5_000],
  ['a file that the upstream keeps', parts({ type: 'file', file: { file_id: 'f-1' } }), 8 + 5_000],
  ['a part of another type, by its bytes', parts({ type: 'note', note: 'four' }), 8 + textTokens('typenotenotefour')],
  [
    'text in one however deep, and a number as a token',
    parts({ type: 'x', a: [{ b: 'four' }, 7] }),
    8 + textTokens('typexabfour') + 1,
  ],
  [
    'a video at a URL as a file',
    parts(video('https://example.com/a.mp4')),
    8 + textTokens(...NAMES, 'https://example.com/a.mp4') + 5_000,
  ],
  ['a small video as a file', parts(video(`data:video/mp4;base64,${base64(300)}`)), 8 + textTokens(...NAMES) + 5_000],
  [
    'a large one by its own bytes',
    parts(video(`data:video/mp4;base64,${base64(9_000_000)}`)),
    8 + textTokens(...NAMES) + 90_000,
  ],
  [
    'bare data under its usual name',
    parts({ type: 'media', data: base64(900_000) }),
    8 + textTokens('typemediadata') + 9_000,
  ],
  [
    'a text of a data URL as text',
    parts(video(`data:text/plain;base64,${base64(4_000)}`)),
    8 + textTokens(...NAMES, 'x'.repeat(4_000)),
  ],
  [
    'a second of audio',
    parts({ type: 'input_audio', input_audio: { data: 'A'.repeat(10_667), format: 'mp3' } }),
    8 + 10,
  ],
  ['tools', { messages: [user('')], tools: [tool] }, 8 + tokensOfBytes(JSON.stringify([tool]).length)],
  [
    'a schema, but not the format that carries it',
    { messages: [user('')], response_format: { type: 'json_schema', json_schema: schema } },
    8 + tokensOfBytes(JSON.stringify(schema).length),
  ],
  ['a format without a schema', { messages: [user('')], response_format: { type: 'json_object' } }, 8],
  ['tool calls that come back, without their ids', { messages: [said(null, { tool_calls: calls })] }, 8 + 2],
  ['a legacy call', { messages: [said(null, { function_call: { name: 'ff', arguments: '{}' } })] }, 8 + 1],
  ['a refusal', { messages: [said(null, { refusal: 'four' })] }, 8 + 1],
  [
    'reasoning of the turn under way, once',
    { messages: [user(''), said('four', { reasoning: 'four', reasoning_content: 'four' })] },
    16 + 2,
  ],
  [
    'no reasoning of an earlier turn',
    { messages: [said('four', { reasoning_content: 'gone' }), user('four')] },
    16 + 2,
  ],
] as [string, Omit<CanonicalRequest, 'model'>, number][])('the prompt estimate counts %s', (_, body, tokens) => {
  expect(estimate({ model: 'm', ...body }, 1_000).promptTokens).toBe(tokens)
})

test.each([
  ['the model’s maximum', {}, 1_000, 1_000],
  ['4,096 of a larger one', {}, 100_000, 4_096],
  ['the client’s cap', { max_tokens: 7 }, 1_000, 7],
  ['its newer name', { max_completion_tokens: 9 }, 1_000, 9],
  ['null as no cap', { max_tokens: null }, 1_000, 1_000],
  ['each choice', { max_tokens: 7, n: 3 }, 1_000, 21],
] as [string, Partial<CanonicalRequest>, number, number][])('the output counts %s', (_, extra, maximum, tokens) => {
  expect(estimate({ model: 'm', messages: [user('')], ...extra }, maximum).completionTokens).toBe(tokens)
})
