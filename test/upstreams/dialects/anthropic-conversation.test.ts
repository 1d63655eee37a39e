/** Conversations as Anthropic's API accepts them: turns, blocks, and reasoning. */
import { describe, expect, test } from 'bun:test'
import { toSignature } from '../../support/anthropic-answers.ts'
import { call, type Fields, on, send, text } from './anthropic-sending.ts'

const said = (...messages: object[]) => {
  const { system, messages: turns } = send({ messages })
  return [...(system ? [{ system }] : []), ...turns.map(({ role, content }) => ({ [role]: content }))]
}
describe('a conversation', () => {
  test('begins with its system messages, each a block', () => {
    expect(
      said(
        { role: 'system', content: 'One.' },
        { role: 'developer', content: [text('Two.'), text(' ')] },
        { role: 'user', content: 'Hi' },
      ),
    ).toEqual([{ system: [text('One.'), text('Two.')] }, { user: [text('Hi')] }])
  })

  test('has later system messages as user text, or as separate turns if its upstream accepts them', () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'system', content: 'Be brief.' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'Go on' },
    ]
    expect(said(...messages)).toEqual([
      { user: [text('Hi'), text('<system>\nBe brief.\n</system>')] },
      { assistant: [text('Hello')] },
      { user: [text('Go on')] },
    ])
    const sent = send({ messages }, on({ betas: ['mid-conversation-system-2026-04-07'] }))
    expect(sent.messages.map(({ role }) => role)).toEqual(['user', 'system', 'assistant', 'user'])
  })

  test('has no blank text, and always begins with a user', () => {
    expect(said({ role: 'system', content: 'Only this' })).toEqual([
      { system: [text('Only this')] },
      { user: [text('.')] },
    ])
    expect(said({ role: 'user', content: '' })).toEqual([{ user: [text('.')] }])
    expect(said({ role: 'assistant', content: 'Once ' })).toEqual([
      { user: [text('.')] },
      { assistant: [text('Once')] },
    ])
  })

  test("has all results of a turn first in the next user turn, followed by the user's text", () => {
    expect(
      said(
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: 'So:', tool_calls: [call('a', 'f', '{"x":1}'), call('b', 'g', '')] },
        { role: 'tool', tool_call_id: 'b', content: [text('two')] },
        { role: 'tool', tool_call_id: 'a', content: '' },
        { role: 'user', content: 'Well?' },
      ).slice(1),
    ).toEqual([
      {
        assistant: [
          text('So:'),
          { type: 'tool_use', id: 'a', name: 'f', input: { x: 1 } },
          { type: 'tool_use', id: 'b', name: 'g', input: {} },
        ],
      },
      {
        user: [
          { type: 'tool_result', tool_use_id: 'b', content: [text('two')] },
          { type: 'tool_result', tool_use_id: 'a' },
          text('Well?'),
        ],
      },
    ])
  })

  test("has another vendor's IDs in Anthropic's alphabet, the same in call and result, and unique", () => {
    const ids = ['call:1', 'call.1', 'functions.f:0', 'ok-1_A']
    const [, answer, results] = send({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, tool_calls: ids.map((id) => call(id, 'f', '[1]')) },
        ...ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'x' })),
      ],
    }).messages
    const used = answer?.content.flatMap((block) => (block.type === 'tool_use' ? block.id : [])) ?? []
    expect(new Set(used).size).toBe(4)
    expect(used.at(-1)).toBe('ok-1_A')
    expect(results?.content.flatMap((block) => (block.type === 'tool_result' ? block.tool_use_id : []))).toEqual(used)
    // Arguments that are not an object.
    expect(answer?.content[0]).toMatchObject({ input: { rawInvalidInput: '[1]' } })
  })

  test('has legacy functions as tools, and custom tools as functions of one string', () => {
    const sent = send({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
        { role: 'function', name: 'f', content: 'x' },
      ],
      functions: [{ name: 'f' }],
      function_call: { name: 'f' },
    })
    expect(sent).toMatchObject({
      tools: [{ name: 'f', input_schema: { type: 'object', properties: {} } }],
      tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
      messages: [{}, { content: [{ id: 'function_1' }] }, { content: [{ tool_use_id: 'function_1' }] }],
    })
    const grammar = { definition: 'a+', syntax: 'regex' }
    const custom = { name: 'note', description: 'Notes.', format: { type: 'grammar', grammar } }
    expect(send({ tools: [{ type: 'custom', custom }] }).tools).toEqual([
      {
        name: 'note',
        description: 'Notes.\n\nThe input must match this regex grammar:\na+',
        input_schema: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
      },
    ])
  })

  test('has images and documents', () => {
    const file = (file_data: string, filename?: string) => ({ type: 'file', file: { file_data, filename } })
    const image = (url: string) => ({ type: 'image_url', image_url: { url } })
    const content = [
      image('data:image/jpg;base64,AAAA'),
      image('https://h/x.png'),
      file('data:application/pdf;base64,JVBE', 'a.pdf'),
      file('data:text/plain;charset=utf-8;base64,SGVsbG8=', 'a.txt'),
      file('JVBE'),
    ]
    const [turn] = send({ messages: [{ role: 'user', content }] }).messages
    expect(turn?.content).toEqual([
      { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: 'AAAA' } },
      { type: 'image', source: { type: 'url', url: 'https://h/x.png' } },
      {
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
        title: 'a.pdf',
      },
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Hello' }, title: 'a.txt' },
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' } },
    ])
  })

  const impossible: [string, Fields, string][] = [
    ['audio', { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }, 'messages[0].content[0]'],
    [
      'a picture of another kind',
      { type: 'image_url', image_url: { url: 'data:image/bmp;base64,AA' } },
      'image_url.url',
    ],
    ['a picture of no address', { type: 'image_url', image_url: { url: 'x.png' } }, 'image_url.url'],
    ['a film', { type: 'video_url', video_url: { url: 'https://h' } }, 'messages[0].content[0]'],
    ['a file of nothing', { type: 'file', file: {} }, 'messages[0].content[0].file'],
    ['a spreadsheet', { type: 'file', file: { file_data: 'data:application/x;base64,AA' } }, 'file.file_data'],
  ]
  test.each(impossible)("cannot contain %s: the client's error names the field", (_, part, param) => {
    const ask = () => send({ messages: [{ role: 'user', content: [part] }] })
    expect(ask).toThrow(expect.objectContaining({ status: 400, code: 'unsupported_value' }))
    expect(ask).toThrow(expect.objectContaining({ param: expect.stringContaining(param) }))
  })

  test('has no log probabilities and no audio', () => {
    expect(() => send({ logprobs: true })).toThrow(expect.objectContaining({ param: 'logprobs', status: 400 }))
    const audio = { voice: 'a', format: 'wav' }
    expect(() => send({ modalities: ['text', 'audio'], audio })).toThrow(
      expect.objectContaining({ param: 'modalities' }),
    )
  })
})

describe('reasoning', () => {
  const thought = 'Both.'
  const own = {
    type: 'reasoning.text',
    text: thought,
    signature: toSignature(thought),
    format: 'anthropic-claude-v1',
    index: 0,
  }
  const replay = (reasoning_details: unknown[]) =>
    send({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: 'So', reasoning_details },
        { role: 'user', content: 'And?' },
      ],
    }).messages[1]?.content
  const thinking = { type: 'thinking' as const, thinking: thought, signature: toSignature(thought) }

  test('is sent back unchanged, from a whole response or from the pieces of a stream', () => {
    expect(replay([own])).toEqual([thinking, text('So')])
    expect(replay([{ ...own, signer: 'paid/claude' }])).toEqual([thinking, text('So')])
    expect(
      replay([
        { ...own, text: 'Bo', signature: undefined },
        { type: 'reasoning.text', text: 'th.', index: 0 },
        { type: 'reasoning.text', signature: own.signature, index: 0 },
        { type: 'reasoning.encrypted', data: 'AAAA', format: 'anthropic-claude-v1', index: 1 },
      ]),
    ).toEqual([thinking, { type: 'redacted_thinking', data: 'AAAA' }, text('So')])
  })

  test('by another vendor or upstream, or without its signature, is dropped', () => {
    expect(
      replay([
        { ...own, format: 'google-gemini-v1' },
        { ...own, format: null },
        { ...own, signer: 'another/claude' },
        { ...own, signer: 'paid/another-claude' },
        { ...own, signature: '' },
        { type: 'reasoning.encrypted', data: 'AAAA', format: 'openai-responses-v1' },
        'nothing',
        null,
      ]),
    ).toEqual([text('So')])
  })
})
