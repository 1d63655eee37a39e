/**
 * What the gateway records of recorded responses matches the provider's report of them, in the form of the provider's API. Skipped without
 * the recordings next to the repository.
 */
import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createBench } from '../cli/run.ts'
import { activity, costReport, costs, usage, usageReport } from '../ledger/reconcile/exports.ts'
import { startApp } from '../support/app.ts'
import { hasRecordings, readRecording } from '../support/recordings.ts'
import { startUpstream } from '../support/upstream.ts'

const DAY = Date.UTC(2026, 10, 21)

interface Provider {
  files: string[]
  dialect: 'openai' | 'anthropic'
  settings?: string
  pricing: string
  /** By hand, from the recordings and the published prices. */
  pages: object[]
}

const CLAUDE =
  '[{ prompt: "0.000003", completion: "0.000015", input_cache_read: "0.0000003", input_cache_write: "0.00000375", web_search: "0.01" }]'

const PROVIDERS: Record<string, Provider> = {
  openai: {
    files: ['openai/prompt-cache-write.json', 'openai/prompt-cache-read.json'],
    dialect: 'openai',
    pricing:
      '[{ prompt: "0.000005", completion: "0.00003", input_cache_read: "0.0000005", input_cache_write: "0.00000625" }]',
    pages: [
      usage(
        [
          {
            model: 'model-2026-01-02',
            num_model_requests: 2,
            input_tokens: 8_040,
            input_cached_tokens: 4_012,
            input_cache_write_tokens: 4_012,
            output_tokens: 8,
          },
        ],
        DAY,
      ),
      // 2 x 8 tokens at 5, 4,012 read at 0.5, 4,012 written at 6.25, 8 at 30 dollars per million.
      costs(
        [
          { line_item: 'model-2026-01-02, input', amount: { value: 0.00008, currency: 'usd' } },
          { line_item: 'model-2026-01-02, cached input', amount: { value: 0.002006, currency: 'usd' } },
          { line_item: 'model-2026-01-02, cache write', amount: { value: 0.025075, currency: 'usd' } },
          { line_item: 'model-2026-01-02, output', amount: { value: 0.00024, currency: 'usd' } },
        ],
        DAY,
      ),
    ],
  },
  anthropic: {
    files: ['anthropic/anthropic-json-output-format.1.json', 'anthropic/compaction-cache.json'],
    dialect: 'anthropic',
    pricing: CLAUDE,
    pages: [
      usageReport(
        [
          {
            model: 'model-20260102',
            uncached_input_tokens: 700,
            cache_read_input_tokens: 0,
            cache_creation: { ephemeral_5m_input_tokens: 55_096, ephemeral_1h_input_tokens: 0 },
            output_tokens: 765,
            server_tool_use: { web_search_requests: 0 },
          },
        ],
        DAY,
      ),
      // In cents.
      costReport(
        [
          { model: 'model-20260102', token_type: 'uncached_input_tokens', amount: '0.21' },
          { model: 'model-20260102', token_type: 'cache_creation.ephemeral_5m_input_tokens', amount: '20.661' },
          { model: 'model-20260102', amount: '1.1475' },
        ],
        DAY,
      ),
    ],
  },
  openrouter: {
    files: ['openrouter/web-search-stream.sse'],
    dialect: 'openai',
    settings: ', cost: { path: usage.cost, unit: usd }',
    pricing: '[{ prompt: "0.0000004", completion: "0.0000016", web_search: "0.01" }]',
    pages: [
      activity([
        {
          date: '2026-11-21',
          model: 'model',
          requests: 1,
          usage: 0.0133176,
          ...toTokens('openrouter/web-search-stream.sse'),
        },
      ]),
    ],
  },
}

/** Without the gateway's own parser. */
function toTokens(file: string) {
  const of = (field: string) => Number([...readIf(file).matchAll(new RegExp(`"${field}":\\s*(\\d+)`, 'g'))].at(-1)?.[1])
  return {
    prompt_tokens: of('prompt_tokens'),
    completion_tokens: of('completion_tokens'),
    reasoning_tokens: of('reasoning_tokens'),
  }
}

function readIf(file: string): string {
  return hasRecordings ? readRecording(file) : ''
}

test.if(hasRecordings).each(Object.keys(PROVIDERS))('%s', async (name) => {
  const { files = [], dialect, settings = '', pricing, pages = [] } = PROVIDERS[name] ?? {}
  const upstream = await startUpstream()
  const facts =
    'name: x, context_length: 1000000, max_output_length: 10000, input_modalities: [text], output_modalities: [text], supported_features: []'
  const app = await startApp({
    catalog: `
version: 1
upstreams: { up: { dialect: ${dialect}, base_url: "${upstream.url}"${settings} } }
models: { a/b: { ${facts}, pricing: ${pricing}, routes: [{ upstream: up, model: model }] } }
`,
  })
  const headers = { authorization: `Bearer ${app.key()}`, 'content-type': 'application/json' }
  for (const file of files) {
    const isStream = file.endsWith('.sse')
    upstream.script(() =>
      isStream
        ? { kind: 'stream', steps: [readRecording(file)], end: 'eof' }
        : { kind: 'whole', body: readRecording(file), headers: { 'content-type': 'application/json' } },
    )
    const body = JSON.stringify({ model: 'a/b', stream: isStream, messages: [{ role: 'user', content: 'Hello' }] })
    const response = await fetch(`${app.baseUrl}/chat/completions`, { method: 'POST', headers, body })
    expect(response.status).toBe(200)
    await response.text()
  }
  await app.settled(files.length)
  const bench = createBench(DAY + 86_400_000)
  bench.environment = { TOLLGATE_DATA: app.dataFolder }
  const names = pages.map((page, at) => {
    writeFileSync(join(bench.folder, `${at}.json`), JSON.stringify(page))
    return `${at}.json`
  })
  const ran = await bench.run('reconcile', ...names, '--upstream', 'up')
  expect(ran).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringContaining('matches the ledger: 1 day, 1 line'),
  })
  bench.close()
  await app.stop()
  await upstream.stop()
})
