/** How much a Gemini model is to think, by what its route says of it, of an upstream that refuses what the model cannot. */
import { expect, test } from 'bun:test'
import { createGemini, type GeminiOptions } from '../support/gemini-upstream.ts'
import { KEY, startGemini } from './gemini-gateway.ts'

const level = (thinkingLevel: string) => ({ includeThoughts: true, thinkingLevel })
const budget = (thinkingBudget: number) => ({ includeThoughts: true, thinkingBudget })

interface Row {
  name: string
  route: string
  upstream: GeminiOptions
  asked: [body: Record<string, unknown>, sent: object | undefined][]
}

const ROWS: Row[] = [
  {
    name: 'nothing: by level, and never off',
    route: '',
    upstream: { thinks: 'level' },
    asked: [
      [{}, { includeThoughts: true }],
      [{ reasoning_effort: 'none' }, level('low')],
      [{ reasoning_effort: 'max' }, level('high')],
      [{ thinking: { type: 'enabled', budget_tokens: 5_000 } }, level('medium')],
      [{ thinking: { type: 'disabled' } }, level('low')],
      [{ reasoning: { exclude: true } }, {}],
    ],
  },
  {
    name: 'the levels that it knows',
    route: ', efforts: [medium, high]',
    upstream: { thinks: 'level' },
    asked: [
      [{ reasoning_effort: 'minimal' }, level('medium')],
      [{ reasoning_effort: 'low' }, level('medium')],
      [{ reasoning: { max_tokens: 20_000 } }, level('high')],
    ],
  },
  {
    name: 'levels far apart, of which the nearest is taken',
    route: ', efforts: [low, high]',
    upstream: { thinks: 'level' },
    asked: [
      [{ reasoning_effort: 'minimal' }, level('low')],
      [{ reasoning_effort: 'medium' }, level('high')],
      [{ reasoning_effort: 'xhigh' }, level('high')],
    ],
  },
  {
    name: 'a number of tokens, and not whether it can be off',
    route: ', thinking: budget',
    upstream: { thinks: 'budget', signs: false },
    asked: [
      [{}, { includeThoughts: true }],
      [{ reasoning_effort: 'none' }, budget(512)],
      [{ reasoning_effort: 'low' }, budget(1_024)],
      [{ reasoning_effort: 'medium' }, budget(8_192)],
      [{ reasoning_effort: 'xhigh' }, budget(24_576)],
      [{ reasoning: { max_tokens: 2_000 } }, budget(2_000)],
      [{ reasoning: { max_tokens: 1_000_000 } }, budget(24_576)],
      [{ reasoning: { max_tokens: 1 } }, budget(512)],
    ],
  },
  {
    name: 'a number of tokens, and that it can be off',
    route: ', thinking: budget, thinking_off: true',
    upstream: { thinks: 'budget-or-off', signs: false },
    asked: [
      [{ reasoning_effort: 'none' }, { thinkingBudget: 0 }],
      [{ reasoning: { enabled: false } }, { thinkingBudget: 0 }],
      [{ thinking: { type: 'disabled' } }, { thinkingBudget: 0 }],
      [{ reasoning_effort: 'high' }, budget(24_576)],
    ],
  },
  {
    name: 'that it does not think',
    route: ', thinking: none',
    upstream: { thinks: 'no', signs: false },
    asked: [
      [{}, undefined],
      [{ reasoning_effort: 'high' }, undefined],
    ],
  },
]

test.each(ROWS)('where a route says $name, that is what is sent', async ({ route, upstream, asked }) => {
  const gemini = createGemini(() => ({ text: 'Hello' }), { key: KEY, ...upstream })
  await using gateway = Object.assign(await startGemini(gemini, { route }), {
    async [Symbol.asyncDispose]() {
      await gateway.stop()
    },
  })
  for (const [body, sent] of asked) {
    await gateway.ask({ messages: [{ role: 'user', content: 'Hello' }], ...body })
    const config = gateway.upstream.requests.at(-1)?.json?.generationConfig
    expect(config).toEqual(sent && { thinkingConfig: sent })
  }
  // Only models that are told a level want signatures, and the sentinel in the place of one.
  const called = { id: 'call_1', type: 'function', function: { name: 'clock', arguments: '{}' } }
  const messages = [
    { role: 'user', content: 'Go' },
    { role: 'assistant', content: null, tool_calls: [called] },
    { role: 'tool', tool_call_id: 'call_1', content: 'noon' },
  ]
  await gateway.ask({ messages, tools: [{ type: 'function', function: { name: 'clock' } }] })
  const text = gateway.upstream.requests.at(-1)?.body ?? ''
  expect(text.includes('skip_thought_signature_validator')).toBe(upstream.thinks === 'level')
  expect(gemini.refused).toEqual([])
})

test('a model that refuses to be sampled is not', async () => {
  const gemini = createGemini(() => ({ text: 'Hello' }), { key: KEY })
  const gateway = await startGemini(gemini, { route: ', sampling: false' })
  const sampled = { temperature: 0, top_p: 0.5, top_k: 3, seed: 7 }
  await gateway.ask({ messages: [{ role: 'user', content: 'Hello' }], ...sampled })
  expect(gateway.upstream.requests.at(-1)?.json?.generationConfig).toEqual({
    seed: 7,
    thinkingConfig: { includeThoughts: true },
  })
  await gateway.stop()
})
