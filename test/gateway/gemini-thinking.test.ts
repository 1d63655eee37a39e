/** Thinking levels and budgets by route, on an upstream that refuses what the model can't do. */
import { expect, test } from 'bun:test'
import { createGemini, type GeminiOptions } from '../support/gemini-upstream.ts'
import { checkMessage, checkMessageStream } from '../support/messages-contract.ts'
import { KEY, MODEL, startGemini } from './gemini-gateway.ts'

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
      [{ reasoning_effort: 'none' }, { thinkingLevel: 'low' }],
      [{ reasoning_effort: 'max' }, level('high')],
      [{ thinking: { type: 'enabled', budget_tokens: 5_000 } }, level('medium')],
      [{ thinking: { type: 'disabled' } }, { thinkingLevel: 'low' }],
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
      [{ reasoning_effort: 'none' }, { thinkingBudget: 512 }],
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

test.each(ROWS)('if a route has $name, that is sent', async ({ route, upstream, asked }) => {
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
  // Only models with thinking levels need signatures, or the sentinel instead.
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

test('a model that rejects sampling gets none', async () => {
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

test.each([{ reasoning_effort: 'none' }, { thinking: { type: 'disabled' } }, { reasoning: { exclude: true } }])(
  'a chat that turned reasoning off with %j gets none, even if there is some: it is paid for, and signatures stay',
  async (refusal) => {
    const turn = { reasoning: 'Let me think.', text: 'Hello' }
    const gateway = await startGemini(createGemini(() => turn, { key: KEY }))
    for (const stream of [false, true]) {
      const asked = { messages: [{ role: 'user', content: 'Hello' }], ...refusal, stream }
      const { message } = await gateway.ask(asked)
      expect(message).toMatchObject({ content: 'Hello', reasoning_details: [{ type: 'reasoning.encrypted' }] })
      expect(JSON.stringify(message)).not.toContain('think')
    }
    const rows = await gateway.app.settled(2)
    expect(rows.map(({ reasoning_tokens: thought }) => thought)).toEqual([5, 5])
    await gateway.stop()
  },
)

test.each([
  ['says nothing of thinking', {}],
  ['has refused it', { thinking: { type: 'disabled' } }],
  ['asks for an effort alone', { output_config: { effort: 'high' } }],
])('a Messages client that %s gets no reasoning, and its tools keep working', async (_, asked) => {
  const gemini = createGemini(
    (step) =>
      step === 0
        ? { reasoning: 'Let me think.', text: 'I look.', calls: [{ name: 'clock' }] }
        : { reasoning: 'Noon it is.', text: 'Noon.' },
    { key: KEY },
  )
  const gateway = await startGemini(gemini)
  const key = gateway.app.key({ name: 'messages' })
  for (const stream of [false, true]) {
    const messages: object[] = [{ role: 'user', content: 'How late is it?' }]
    const ask = async () => {
      const response = await fetch(`${gateway.app.baseUrl}/messages`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, max_tokens: 500, messages, tools: [TOOL], stream, ...asked }),
      })
      const text = await response.text()
      return stream ? checkMessageStream(text).message : checkMessage(text)
    }
    const first = await ask()
    expect(first.content.map(({ type }) => type)).toEqual(['text', 'tool_use', 'redacted_thinking'])
    const result = { type: 'tool_result', tool_use_id: first.content[1]?.id, content: 'noon' }
    messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: [result] })
    const second = await ask()
    expect(second.content).toMatchObject([{ type: 'text', text: 'Noon.' }])
    expect(second.content).toHaveLength(1)
    // The model's own signature came back, not the sentinel.
    const sent = gateway.upstream.requests.at(-1)
    expect([...gemini.issued].some((signature) => sent?.body.includes(signature))).toBe(true)
    expect(sent?.body).not.toContain('skip_thought_signature_validator')
    expect(sent?.body).not.toContain('includeThoughts')
  }
  expect(gemini.refused).toEqual([])
  const rows = await gateway.app.settled(4)
  expect(rows.map(({ reasoning_tokens: thought }) => thought)).toEqual([5, 5, 5, 5])
  await gateway.stop()
})

const TOOL = { name: 'clock', description: 'Tells the time.', input_schema: { type: 'object' } }
