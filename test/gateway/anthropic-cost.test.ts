/** Costs of Claude conversations, calculated by hand from Anthropic's published prices. */
import { beforeAll, expect, test } from 'bun:test'
import { startApp } from '../support/app.ts'
import { forAllTests } from '../support/lifetime.ts'
import { startUpstream } from '../support/upstream.ts'

/** USD per token: Opus 4.6, its fast mode, in the United States (10% on everything), and Opus 4.8, the advisor. */
const CATALOGUE = (url: string) => `
version: 1
upstreams: { anthropic: { dialect: anthropic, base_url: "${url}" } }
models:
  anthropic/claude-opus-4-6:
    { name: x, context_length: 1000000, max_output_length: 1000, input_modalities: [text], output_modalities: [text], supported_features: [],
      pricing: [
        { prompt: "0.000005", completion: "0.000025", input_cache_read: "0.0000005", input_cache_write: "0.00000625", input_cache_write_1h: "0.00001", web_search: "0.01" },
        { prompt: "0.00003", completion: "0.00015", input_cache_read: "0.000003", input_cache_write: "0.0000375", input_cache_write_1h: "0.00006", web_search: "0.01", mode: fast },
        { prompt: "0.0000055", completion: "0.0000275", input_cache_read: "0.00000055", input_cache_write: "0.000006875", input_cache_write_1h: "0.000011", web_search: "0.01", mode: us }],
      routes: [{ upstream: anthropic, model: claude-opus-4-6 }] }
  anthropic/claude-opus-4-8:
    { name: x, context_length: 1000000, max_output_length: 1000, input_modalities: [text], output_modalities: [text], supported_features: [],
      pricing: [{ prompt: "0.000007", completion: "0.000035" }], routes: [{ upstream: anthropic, model: claude-opus-4-8 }] }
`

let key: string
const upstream = forAllTests(startUpstream)
const app = forAllTests(() => startApp({ catalog: CATALOGUE(upstream.url) }))
beforeAll(() => {
  key = app.key()
})

/** A stream reports part of its usage at the start, and the total at the end. */
async function charged(usage: Record<string, unknown>, stream: boolean) {
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-opus-4-6' }
  const content = [{ type: 'text', text: 'Hello' }]
  const { service_tier, speed, inference_geo, cache_creation, ...counts } = usage
  const begun = { ...usage, output_tokens: 1, iterations: undefined }
  const events = [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null, usage: begun } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: counts },
    { type: 'message_stop' },
  ]
  const steps = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  const whole = { ...message, content, stop_reason: 'end_turn', usage }
  upstream.script(stream ? { kind: 'stream', steps, end: 'eof' } : { kind: 'whole', body: whole })
  const rows = await app.count()
  const response = await fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'anthropic/claude-opus-4-6',
      stream,
      messages: [
        {
          role: 'system',
          content: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
        },
        { role: 'user', content: 'Hello' },
      ],
    }),
  })
  const text = await response.text()
  expect([response.status, text]).toEqual([200, expect.stringContaining('Hello')])
  return (await app.settled(rows + 1)).at(-1)
}

const USUAL = { service_tier: 'standard', inference_geo: 'global' }
const PRICED = { estimated: 0, unpriced: 0, mode: null }
const kept = (short: number, long: number) => ({
  cache_creation_input_tokens: short + long,
  cache_creation: { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long },
})

const CASES: [what: string, usage: Record<string, unknown>, row: Record<string, unknown>][] = [
  [
    'what was read from the cache and written to it once each, beside the rest',
    { ...USUAL, input_tokens: 100, cache_read_input_tokens: 2_000, ...kept(3_000, 0), output_tokens: 50 },
    { ...PRICED, prompt_tokens: 5_100, cost_nano_usd: 100 * 5_000 + 2_000 * 500 + 3_000 * 6_250 + 50 * 25_000 },
  ],
  [
    'what is kept for an hour at its own price',
    { ...USUAL, input_tokens: 100, cache_read_input_tokens: 0, ...kept(1_000, 3_000), output_tokens: 50 },
    { ...PRICED, cost_nano_usd: 100 * 5_000 + 1_000 * 6_250 + 3_000 * 10_000 + 50 * 25_000 },
  ],
  [
    'thoughts once, which are in the output already',
    { ...USUAL, input_tokens: 100, output_tokens: 500, output_tokens_details: { thinking_tokens: 400 } },
    { ...PRICED, reasoning_tokens: 400, cost_nano_usd: 100 * 5_000 + 500 * 25_000 },
  ],
  [
    'each search of the web',
    {
      ...USUAL,
      input_tokens: 1_000,
      output_tokens: 10,
      server_tool_use: { web_search_requests: 3, web_fetch_requests: 2 },
    },
    { ...PRICED, web_searches: 3, cost_nano_usd: 1_000 * 5_000 + 10 * 25_000 + 3 * 10_000_000 },
  ],
  [
    'the fast mode, cache included',
    { ...USUAL, speed: 'fast', input_tokens: 100, cache_read_input_tokens: 1_000, ...kept(500, 0), output_tokens: 10 },
    { ...PRICED, mode: 'fast', cost_nano_usd: 100 * 30_000 + 1_000 * 3_000 + 500 * 37_500 + 10 * 150_000 },
  ],
  [
    'a tenth more in the United States, on everything',
    { ...USUAL, inference_geo: 'us', input_tokens: 100, cache_read_input_tokens: 1_000, output_tokens: 10 },
    { ...PRICED, mode: 'us', cost_nano_usd: 100 * 5_500 + 1_000 * 550 + 10 * 27_500 },
  ],
  [
    'what is served in two such ways by the dearest price of either where the sheet has none for both, and marked',
    { ...USUAL, speed: 'fast', inference_geo: 'us', input_tokens: 100, output_tokens: 10 },
    { unpriced: 1, mode: 'fast+us', cost_nano_usd: 100 * 30_000 + 10 * 150_000 },
  ],
  [
    'a compaction like the message, and an advisor at the price of its own model',
    {
      ...USUAL,
      input_tokens: 100,
      output_tokens: 10,
      iterations: [
        { type: 'compaction', input_tokens: 5_000, cache_read_input_tokens: 55_000, output_tokens: 300 },
        { type: 'advisor_message', model: 'claude-opus-4-8', input_tokens: 900, output_tokens: 70 },
        { type: 'message', input_tokens: 100, output_tokens: 10 },
      ],
    },
    {
      ...PRICED,
      attempts: 2,
      prompt_tokens: 61_000,
      completion_tokens: 380,
      cost_nano_usd: 5_100 * 5_000 + 55_000 * 500 + 310 * 25_000 + (900 * 7_000 + 70 * 35_000),
    },
  ],
  [
    'an advisor without a price here as the model that was asked, and marked',
    {
      ...USUAL,
      input_tokens: 100,
      output_tokens: 10,
      iterations: [
        { type: 'advisor_message', model: 'claude-next', input_tokens: 900, output_tokens: 70 },
        { type: 'message', input_tokens: 100, output_tokens: 10 },
      ],
    },
    { unpriced: 1, cost_nano_usd: 1_000 * 5_000 + 80 * 25_000 },
  ],
  [
    'what another model answers that took over at the price of that one, and nothing for the one that declined before its first word',
    {
      ...USUAL,
      input_tokens: 100,
      cache_read_input_tokens: 2_000,
      output_tokens: 50,
      iterations: [
        { type: 'message', model: 'claude-opus-4-6', input_tokens: 2_100, output_tokens: 0 },
        {
          type: 'fallback_message',
          model: 'claude-opus-4-8',
          input_tokens: 100,
          cache_read_input_tokens: 2_000,
          output_tokens: 50,
        },
      ],
    },
    { ...PRICED, attempts: 2, prompt_tokens: 2_100, completion_tokens: 50, cost_nano_usd: 2_100 * 7_000 + 50 * 35_000 },
  ],
  [
    'what a model had written before it declined at its own price, with what was compacted before, beside the one that took over',
    {
      ...USUAL,
      input_tokens: 300,
      output_tokens: 50,
      iterations: [
        { type: 'compaction', input_tokens: 5_000, output_tokens: 300 },
        { type: 'message', model: 'claude-opus-4-6', input_tokens: 200, output_tokens: 20 },
        { type: 'fallback_message', model: 'claude-opus-4-8', input_tokens: 300, output_tokens: 50 },
      ],
    },
    {
      ...PRICED,
      attempts: 2,
      completion_tokens: 370,
      cost_nano_usd: 5_200 * 5_000 + 320 * 25_000 + (300 * 7_000 + 50 * 35_000),
    },
  ],
]

test.each(CASES)('Claude is charged %s', async (_, usage, row) => {
  for (const stream of [false, true]) expect(await charged(usage, stream)).toMatchObject({ status: 'ok', ...row })
})
