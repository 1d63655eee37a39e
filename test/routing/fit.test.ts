/** Requests that a model can't take by its public facts, and the client's error. */
import { describe, expect, test } from 'bun:test'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { contextOverflow } from '../../src/gateway/eligibility.ts'
import { type Capabilities, checkFit, checkParts } from '../../src/routing/route.ts'

const plain: Capabilities = {
  id: 'acme/plain',
  input_modalities: ['text'],
  supported_features: ['json_mode'],
  max_output_length: 100,
}
const able: Capabilities = { ...plain, supported_features: ['tools'] }
const body = (more: Partial<CanonicalRequest>): CanonicalRequest => ({
  model: 'x',
  messages: [{ role: 'user', content: 'Hi' }],
  ...more,
})

const functionTool = { type: 'function' as const, function: { name: 'f' } }
const call = { id: 'c', type: 'function' as const, function: { name: 'f', arguments: '{}' } }
const replayed: CanonicalRequest['messages'] = [
  { role: 'user', content: 'Hi' },
  { role: 'assistant', content: null, tool_calls: [call] },
  { role: 'tool', tool_call_id: 'c', content: '7' },
]

describe('a model without tools', () => {
  test.each<[string, Partial<CanonicalRequest>, string]>([
    ['tools', { tools: [functionTool] }, 'tools'],
    ['custom tools', { tools: [{ type: 'custom', custom: { name: 'c' } }] }, 'tools'],
    ['tools that it shall not call', { tools: [functionTool], tool_choice: 'none' }, 'tools'],
    ['legacy functions', { functions: [{ name: 'f' }] }, 'functions'],
  ])("isn't called for %s", (_, more, param) => {
    expect(checkFit(body(more), able)).toBeNull()
    expect(checkFit(body(more), plain)).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      code: 'unsupported_parameter',
      param,
      message: `Unsupported parameter: '${param}' is not supported with the model \`acme/plain\`.`,
    })
  })

  test.each<[string, Partial<CanonicalRequest>]>([
    ['tool calls of earlier turns', { messages: replayed }],
    ['an empty list of tools', { tools: [] }],
    ['nothing of the kind', { tools: null, functions: null }],
  ])('accepts %s', (_, more) => {
    expect(checkFit(body(more), plain)).toBeNull()
  })
})

describe('a part of a message', () => {
  const said = (...content: object[]) =>
    body({
      messages: [
        { role: 'system', content: 'Look.' },
        { role: 'user', content } as CanonicalRequest['messages'][number],
      ],
    })
  const words = { type: 'text', text: 'What is it?' }
  const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
  const sound = { type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' } }

  test("that the model doesn't support is rejected with its path", () => {
    expect(checkParts(said(words, picture), plain)).toMatchObject({
      ...{ status: 400, code: 'unsupported_value', param: 'messages[1].content[1]' },
      message:
        "Unsupported value: 'messages[1].content[1]' is not supported with the model `acme/plain`: it doesn't accept images.",
    })
    const seeing: Capabilities = { ...plain, input_modalities: ['text', 'image'] }
    expect(checkParts(said(words, picture), seeing)).toBeNull()
    expect(checkParts(said(sound), seeing)).toMatchObject({ param: 'messages[1].content[0]' })
    expect(checkParts(said({ type: 'video_url', video_url: { url: 'x' } }), seeing)).toMatchObject({ status: 400 })
  })

  test('that is a file, or of unknown type, is left to the upstream', () => {
    expect(checkParts(said({ type: 'file', file: { file_data: 'AA==' } }, { type: 'x' }), plain)).toBeNull()
  })
})

describe('a cap', () => {
  test.each(['max_tokens', 'max_completion_tokens'] as const)(
    "in %s is rejected above the model's maximum",
    (param) => {
      expect(checkFit(body({ [param]: 100 }), plain)).toBeNull()
      expect(checkFit(body({ [param]: 101 }), plain)).toMatchObject({
        status: 400,
        type: 'invalid_request_error',
        code: null,
        param,
        message:
          'max_tokens is too large: 101. This model supports at most 100 completion tokens, whereas you provided 101.',
      })
    },
  )
})

test('a prompt that is too long gets the error text that clients match', () => {
  expect(contextOverflow(8_192, 9_000)).toMatchObject({
    status: 400,
    type: 'invalid_request_error',
    code: 'context_length_exceeded',
    param: 'messages',
    message:
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.",
  })
})
