import { expect, test } from 'bun:test'
import type { Message } from '../../../src/domain/request.ts'
import { toConversation } from '../../../src/upstreams/dialects/gemini/conversation.ts'

const picture = { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AA==' } }
const inlineData = { mimeType: 'image/png', data: 'AA==' }
const call = (id: string) => ({ id, type: 'function' as const, function: { name: id, arguments: '{}' } })
const messages: Message[] = [
  { role: 'user', content: 'Look' },
  { role: 'assistant', tool_calls: [call('a'), call('b')] },
  { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'B' }, picture] },
  { role: 'tool', tool_call_id: 'a', content: 'A' },
]

const after = (signs: boolean) => toConversation({ messages }, { ids: false, signs, signer: 'g' }).contents.slice(2)

test('an image from a tool is in its result, or after the results for a model before Gemini 3', () => {
  const [a, b] = ['a', 'b'].map((name) => ({ name, response: { output: name.toUpperCase() } }))
  expect(after(true)).toEqual([
    { role: 'user', parts: [{ functionResponse: a }, { functionResponse: { ...b, parts: [{ inlineData }] } }] },
  ] as never)
  expect(after(false)).toEqual([
    { role: 'user', parts: [{ functionResponse: a }, { functionResponse: b }] },
    { role: 'user', parts: [{ inlineData }] },
  ] as never)
})

test('the input of a custom tool is sent as its argument', () => {
  const custom: Message[] = [
    { role: 'user', content: 'Go' },
    { role: 'assistant', tool_calls: [{ id: 'a', type: 'custom', custom: { name: 'note', input: 'Milk' } }] },
    { role: 'tool', tool_call_id: 'a', content: 'ok' },
  ]
  const { contents } = toConversation({ messages: custom }, { ids: false, signs: false, signer: 'g' })
  expect(contents[1]?.parts).toEqual([{ functionCall: { name: 'note', args: { input: 'Milk' } } }])
})

test('a conversation that begins with the model gets a user turn first, and one that ends with it stays unchanged', () => {
  const said: Message[] = [
    { role: 'system', content: 'Be kind.' },
    { role: 'assistant', content: 'How can I help?' },
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'Hel' },
  ]
  const { contents } = toConversation({ messages: said }, { ids: false, signs: true, signer: 'g' })
  expect(contents).toEqual([
    { role: 'user', parts: [{ text: '.' }] },
    { role: 'model', parts: [{ text: 'How can I help?' }] },
    { role: 'user', parts: [{ text: 'Hi' }] },
    { role: 'model', parts: [{ text: 'Hel' }] },
  ])
})
