/**
 * Costs at providers of the OpenAI format by their published rules, worked out by hand; a cost the provider states
 * wins.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { type Behaviour, errorAnswer, type Stream, toDelta } from '../support/upstream-answers.ts'

let upstream: ScriptedUpstream
let app: TestApp
let key: string
beforeAll(async () => {
  upstream = await startUpstream()
  const facts =
    'context_length: 1000000, max_output_length: 1000, input_modalities: [text], output_modalities: [text], supported_features: []'
  const model = (slug: string, pricing: string, on = 'plain', more = '') =>
    `  ${slug}: { name: x, ${facts}, pricing: ${pricing}, routes: [{ upstream: ${on}, model: "${slug.split('/')[1]}" }${more}] }`
  app = await startApp({
    catalog: `
version: 1
upstreams:
  plain: { dialect: openai, base_url: "${upstream.url}" }
  spare: { dialect: openai, base_url: "${upstream.url}" }
  openrouter: { dialect: openai, base_url: "${upstream.url}", cost: { path: usage.cost, unit: usd } }
  xai: { dialect: openai, base_url: "${upstream.url}", cost: { path: usage.cost_in_usd_ticks, unit: 1e-10usd } }
  perplexity: { dialect: openai, base_url: "${upstream.url}", cost: { path: usage.cost.total_cost, unit: usd } }
  named: { preset: openrouter, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY} }
  sheet: { preset: openrouter, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}, cost: off }
models:
${[
  model(
    'openai/gpt-5.4',
    `[{ prompt: "0.0000025", completion: "0.000015", input_cache_read: "0.00000025" },
      { prompt: "0.000005", completion: "0.0000225", input_cache_read: "0.0000005", min_prompt_tokens: 272000 },
      { prompt: "0.00000125", completion: "0.0000075", input_cache_read: "0.00000013", mode: flex },
      { prompt: "0.000005", completion: "0.00003", input_cache_read: "0.0000005", mode: priority }]`,
  ),
  model('openai/gpt-4.1-mini', '[{ prompt: "0.0000004", completion: "0.0000016", web_search: "0.01" }]'),
  model('openai/no-fee', '[{ prompt: "0.0000004", completion: "0.0000016" }]'),
  model('xai/grok-3-mini', '[{ prompt: "0.0000003", completion: "0.0000005", input_cache_read: "0.000000075" }]'),
  model(
    'qwen/qwen-max',
    '[{ prompt: "0.0000016", completion: "0.0000064", input_cache_read: "0.00000016", input_cache_write: "0.000002" }]',
  ),
  model('deepseek/chat', '[{ prompt: "0.00000028", completion: "0.00000042", input_cache_read: "0.000000028" }]'),
  model('perplexity/sonar', '[{ prompt: "0.000001", completion: "0.000001", request: "0.005" }]'),
  model(
    'router/any',
    '[{ prompt: "0.000001", completion: "0.000002" }]',
    'openrouter',
    ', { upstream: spare, model: any, priority: 1 }',
  ),
  model('named/any', '[{ prompt: "0.000001", completion: "0.000002" }]', 'named'),
  model('sheet/any', '[{ prompt: "0.000001", completion: "0.000002" }]', 'sheet'),
  model('ticks/any', '[{ prompt: "0.000001", completion: "0.000002" }]', 'xai'),
  model('total/any', '[{ prompt: "0.000001", completion: "0.000002" }]', 'perplexity'),
].join('\n')}
`,
  })
  key = app.key()
})
afterAll(async () => {
  await upstream.stop()
  await app.stop()
})

/** As text, so that digits stay as written. */
const whole = (more: string): Behaviour => ({
  kind: 'whole',
  body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],${more}}`,
  headers: { 'content-type': 'application/json' },
})

const streamed = (more: string): Stream => ({
  kind: 'stream',
  steps: [
    toDelta({ role: 'assistant', content: '' }),
    toDelta({ content: 'Hello' }),
    toDelta({}, 'stop'),
    `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],${more}}\n\n`,
  ],
})

const PRIORITY = { choices: [{ index: 0, delta: { content: 'H' } }], service_tier: 'priority' }

async function ask(model: string, behaviour: Behaviour | (() => Behaviour), stream = false) {
  upstream.script(typeof behaviour === 'function' ? behaviour : () => behaviour)
  const rows = await app.count()
  const response = await fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'Hello' }] }),
  })
  const text = await response.text()
  return { text, row: (await app.settled(rows + 1)).at(-1) }
}

const PRICED = { estimated: 0, reported_nano_usd: null, unpriced: 0 }
const CASES: [what: string, model: string, more: string, row: Record<string, unknown>][] = [
  [
    'what was read from a cache once, at its own price',
    'openai/gpt-5.4',
    '"service_tier":"default","usage":{"prompt_tokens":10000,"completion_tokens":500,"total_tokens":10500,"prompt_tokens_details":{"cached_tokens":8000},"completion_tokens_details":{"reasoning_tokens":400}}',
    { ...PRICED, mode: null, cost_nano_usd: 2_000 * 2_500 + 8_000 * 250 + 500 * 15_000 },
  ],
  [
    'the whole of a long prompt at the price of long ones, cached tokens counted and charged so',
    'openai/gpt-5.4',
    '"usage":{"prompt_tokens":272001,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":272000}}',
    { ...PRICED, cost_nano_usd: 5_000 + 272_000 * 500 + 10 * 22_500 },
  ],
  [
    'no more than 272,000 of them at the usual price',
    'openai/gpt-5.4',
    '"usage":{"prompt_tokens":272000,"completion_tokens":10}',
    { ...PRICED, cost_nano_usd: 272_000 * 2_500 + 10 * 15_000 },
  ],
  [
    'flex, where it was served so',
    'openai/gpt-5.4',
    '"service_tier":"flex","usage":{"prompt_tokens":1000,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":100}}',
    { ...PRICED, mode: 'flex', cost_nano_usd: 900 * 1_250 + 100 * 130 + 10 * 7_500 },
  ],
  [
    'priority, where it was served so',
    'openai/gpt-5.4',
    '"service_tier":"priority","usage":{"prompt_tokens":1000,"completion_tokens":10}',
    { ...PRICED, mode: 'priority', cost_nano_usd: 1_000 * 5_000 + 10 * 30_000 },
  ],
  [
    'a tier without a price as the usual one, and marked',
    'openai/gpt-5.4',
    '"service_tier":"scale","usage":{"prompt_tokens":1000,"completion_tokens":10}',
    { ...PRICED, unpriced: 1, mode: 'scale', cost_nano_usd: 1_000 * 2_500 + 10 * 15_000 },
  ],
  [
    'a search of the web',
    'openai/gpt-4.1-mini',
    '"service_tier":"default","usage":{"prompt_tokens":8174,"completion_tokens":30,"server_tool_use_details":{"web_search_requests":1}}',
    { ...PRICED, web_searches: 1, cost_nano_usd: 8_174 * 400 + 30 * 1_600 + 10_000_000 },
  ],
  [
    'a search without a price as nothing, and marked',
    'openai/no-fee',
    '"usage":{"prompt_tokens":8174,"completion_tokens":30,"server_tool_use_details":{"web_search_requests":2}}',
    { ...PRICED, unpriced: 1, web_searches: 2, cost_nano_usd: 8_174 * 400 + 30 * 1_600 },
  ],
  [
    'reasoning that stands beside the completion, as what is written',
    'xai/grok-3-mini',
    '"usage":{"prompt_tokens":12,"completion_tokens":1,"total_tokens":303,"prompt_tokens_details":{"cached_tokens":11},"completion_tokens_details":{"reasoning_tokens":290}}',
    { ...PRICED, completion_tokens: 291, cost_nano_usd: 1 * 300 + 11 * 75 + 291 * 500 },
  ],
  [
    'what was written to a cache once, and not as plain prompt too',
    'qwen/qwen-max',
    '"usage":{"prompt_tokens":3000,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":1000,"cache_creation_input_tokens":0},"cache_creation_input_tokens":1500}',
    { ...PRICED, cache_write_tokens: 1_500, cost_nano_usd: 500 * 1_600 + 1_000 * 160 + 1_500 * 2_000 + 20 * 6_400 },
  ],
  [
    'tokens that were read from a cache and written to it, for both',
    'qwen/qwen-max',
    '"usage":{"prompt_tokens":1000,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":700,"cache_write_tokens":900}}',
    { cost_nano_usd: 100 * 1_600 + 700 * 160 + 900 * 2_000 + 1 * 6_400 },
  ],
  [
    'hits and misses of a cache',
    'deepseek/chat',
    '"usage":{"prompt_tokens":1000,"prompt_cache_hit_tokens":600,"prompt_cache_miss_tokens":400,"completion_tokens":50,"total_tokens":1050,"completion_tokens_details":{"reasoning_tokens":30}}',
    { ...PRICED, reasoning_tokens: 30, cost_nano_usd: 400 * 280 + 600 * 28 + 50 * 420 },
  ],
  [
    'the fee of a request',
    'perplexity/sonar',
    '"usage":{"prompt_tokens":20,"completion_tokens":100}',
    { ...PRICED, cost_nano_usd: 120 * 1_000 + 5_000_000 },
  ],
]

describe('a call is charged', () => {
  test.each(CASES)('%s', async (_, model, more, row) => {
    for (const stream of [false, true])
      expect((await ask(model, stream ? streamed(more) : whole(more), stream)).row).toMatchObject({
        status: 'ok',
        ...row,
      })
  })

  test('in its final mode, if an upstream first reports the requested one', async () => {
    const said = streamed('"service_tier":"default","usage":{"prompt_tokens":10,"completion_tokens":1}')
    const steps = [PRIORITY, ...said.steps]
    const { row } = await ask('openai/gpt-5.4', { kind: 'stream', steps }, true)
    expect(row).toMatchObject({ mode: null, cost_nano_usd: 10 * 2_500 + 1 * 15_000 })
  })

  test('in its mode, though its usage was never read', async () => {
    const steps = [PRIORITY, toDelta({}, 'stop')]
    const { row } = await ask('openai/gpt-5.4', { kind: 'stream', steps }, true)
    const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = row ?? {}
    expect(row).toMatchObject({ estimated: 1, mode: 'priority', cost_nano_usd: prompt * 5_000 + completion * 30_000 })
  })

  test("in its mode, though later chunks don't repeat it", async () => {
    const later = { choices: [{ index: 0, delta: { content: 'i' } }], system_fingerprint: 'fp' }
    const said = streamed('"system_fingerprint":"fp","usage":{"prompt_tokens":10,"completion_tokens":1}')
    const steps = [{ ...PRIORITY, system_fingerprint: 'fp' }, later, ...said.steps]
    const { row } = await ask('openai/gpt-5.4', { kind: 'stream', steps }, true)
    expect(row).toMatchObject({ mode: 'priority', cost_nano_usd: 10 * 5_000 + 1 * 30_000 })
  })

  test('nothing if it failed before its first token, whatever its mode', async () => {
    const { row } = await ask('openai/gpt-5.4', errorAnswer(429))
    expect(row).toMatchObject({ status: 'failed', cost_nano_usd: 0, mode: null, unpriced: 0 })
  })
})

const USAGE = '"prompt_tokens":100,"completion_tokens":10'

describe("an upstream's reported charge", () => {
  const SAID: [what: string, model: string, usage: string, nanoUsd: number][] = [
    ['dollars', 'router/any', '"cost":0.0145476', 14_547_600],
    ['less than by its price', 'router/any', '"cost":1e-9', 1],
    ['nothing', 'router/any', '"cost":0', 0],
    ['digits that no double has', 'router/any', '"cost":0.0000000014999999999999999999999', 1],
    ['in ticks', 'ticks/any', '"cost_in_usd_ticks":1466250', 146_625],
    ['among other figures', 'total/any', '"cost":{"request_cost":0.005,"total_cost":0.006}', 6_000_000],
    ['though it searched', 'router/any', '"cost":0.02,"server_tool_use_details":{"web_search_requests":3}', 20_000_000],
  ]
  test.each(SAID)('is the cost of the call: %s', async (_, model, more, nanoUsd) => {
    const cost = { status: 'ok', cost_nano_usd: nanoUsd, reported_nano_usd: nanoUsd, unpriced: 0, prompt_tokens: 100 }
    for (const stream of [false, true]) {
      const said = `"usage":{${USAGE},${more}}`
      const { text, row } = await ask(model, stream ? streamed(said) : whole(said), stream)
      expect(row).toMatchObject(cost)
      if (!stream) expect(text).toContain(`"cost_nano_usd":${nanoUsd},`)
    }
  })

  test.each([['null'], ['"much"'], ['-1'], ['1e300'], ['{}']])(
    'is ignored if it is %s: then its price counts',
    async (cost) => {
      const { row } = await ask('router/any', whole(`"usage":{${USAGE},"cost":${cost}}`))
      expect(row).toMatchObject({ cost_nano_usd: 100 * 1_000 + 10 * 2_000, reported_nano_usd: null })
    },
  )

  test("doesn't count if it leaves out the charge of a provider’s own key", async () => {
    const { row } = await ask('router/any', whole(`"usage":{${USAGE},"cost":0.0001,"is_byok":true}`))
    expect(row).toMatchObject({ cost_nano_usd: 100 * 1_000 + 10 * 2_000, reported_nano_usd: null })
  })

  test("doesn't count unless the upstream is configured for it", async () => {
    const { row } = await ask('openai/no-fee', whole(`"usage":{${USAGE},"cost":9}`))
    expect(row).toMatchObject({ cost_nano_usd: 100 * 400 + 10 * 1_600, reported_nano_usd: null })
  })

  test('counts if the preset says so, unless the upstream overrides this with prices', async () => {
    const answer = whole(`"usage":{${USAGE},"cost":9}`)
    expect((await ask('named/any', answer)).row).toMatchObject({ cost_nano_usd: 9e9, reported_nano_usd: 9e9 })
    expect((await ask('sheet/any', answer)).row).toMatchObject({ cost_nano_usd: 120_000, reported_nano_usd: null })
  })

  test('is used without tokens, too, which are then counted', async () => {
    const { row } = await ask('router/any', whole('"usage":{"cost":0.001}'))
    expect(row).toMatchObject({ cost_nano_usd: 1_000_000, reported_nano_usd: 1_000_000, estimated: 1 })
  })

  test("doesn't count for an interrupted response, which may be longer", async () => {
    const said = `data: {"choices":[],"usage":{${USAGE},"cost":0.000001}}\n\n`
    const steps = [toDelta({ content: 'Hello' }), said, toDelta({ content: ' there' }), { waitMs: 20 }]
    const { row } = await ask('router/any', { kind: 'stream', steps, end: 'cut' }, true)
    expect(row).toMatchObject({ status: 'cut', reported_nano_usd: null, cost_nano_usd: 100 * 1_000 + 10 * 2_000 })
  })

  test("of several calls is each call's own, next to the priced cost of others", async () => {
    let calls = 0
    const answers = [errorAnswer(503), whole(`"service_tier":"flex","usage":{${USAGE},"cost":0.5}`)]
    const { row } = await ask('router/any', () => answers[calls++] ?? errorAnswer(500))
    // The second upstream's own cost doesn't count.
    expect(row).toMatchObject({ attempts: 2, upstream: 'spare', mode: 'flex', unpriced: 1, reported_nano_usd: null })
    expect(row).toMatchObject({ cost_nano_usd: 100 * 1_000 + 10 * 2_000 })
  })
})
