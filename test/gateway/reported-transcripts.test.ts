/**
 * Recorded provider charges equal Tollgate's costs to the nano-dollar. Skipped without the recordings next to the
 * repository.
 */
import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startApp } from '../support/app.ts'
import { startUpstream } from '../support/upstream.ts'
import type { Behaviour } from '../support/upstream-answers.ts'

const FOLDER = join(import.meta.dir, '../../../shared/data/transcripts')
const isThere = existsSync(FOLDER)
const read = (file: string) => readFileSync(join(FOLDER, file), 'utf8')

interface Recorded {
  file: string
  cost: string
  /** Published price, USD per token. */
  pricing: string
  nanoUsd: number
  /** The cost by the prices, if they don't cover everything. */
  byPrices?: number
}

const OPENROUTER = '{ path: usage.cost, unit: usd }'
const XAI = '{ path: usage.cost_in_usd_ticks, unit: 1e-10usd }'
const GROK = '[{ prompt: "0.0000003", completion: "0.0000005", input_cache_read: "0.000000075" }]'

const RECORDED: Recorded[] = [
  {
    file: 'openrouter/web-search-stream.sse',
    cost: OPENROUTER,
    pricing: '[{ prompt: "0.0000004", completion: "0.0000016", web_search: "0.01" }]',
    nanoUsd: 13_317_600,
  },
  // The call used another model, of which only the charge is known.
  {
    file: 'openrouter/advisor-stream.sse',
    cost: OPENROUTER,
    pricing: '[{ prompt: "0.00000015", completion: "0.0000006" }]',
    nanoUsd: 14_547_600,
    byPrices: 177_600,
  },
  { file: 'xai/xai-text.chunks.jsonl', cost: XAI, pricing: GROK, nanoUsd: 146_625 },
  { file: 'xai/xai-text.json', cost: XAI, pricing: GROK, nanoUsd: toTicks('xai/xai-text.json') / 10 },
]

function toTicks(file: string): number {
  return isThere ? Number(/"cost_in_usd_ticks":\s*(\d+)/.exec(read(file))?.[1]) : 0
}

function toAnswer(file: string): Behaviour {
  const text = read(file)
  if (file.endsWith('.json')) return { kind: 'whole', body: text, headers: { 'content-type': 'application/json' } }
  if (file.endsWith('.sse')) return { kind: 'stream', steps: [text], end: 'eof' }
  return {
    kind: 'stream',
    steps: text
      .split('\n')
      .filter(Boolean)
      .map((line) => `data: ${line}\n\n`),
  }
}

describe.if(isThere)('a recorded response', () => {
  test.each(RECORDED)('$file costs what its provider charged', async ({ file, cost, pricing, nanoUsd, byPrices }) => {
    const upstream = await startUpstream(toAnswer(file))
    const facts =
      'name: x, context_length: 1000000, max_output_length: 10000, input_modalities: [text], output_modalities: [text], supported_features: []'
    const app = await startApp({
      catalog: `
version: 1
upstreams:
  word: { dialect: openai, base_url: "${upstream.url}", cost: ${cost} }
  sheet: { dialect: openai, base_url: "${upstream.url}" }
models:
  by/word: { ${facts}, pricing: ${pricing}, routes: [{ upstream: word, model: m }] }
  by/sheet: { ${facts}, pricing: ${pricing}, routes: [{ upstream: sheet, model: m }] }
`,
    })
    const key = app.key()
    for (const model of ['by/word', 'by/sheet']) {
      const response = await fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model,
          stream: !file.endsWith('.json'),
          messages: [{ role: 'user', content: 'Hello' }],
        }),
      })
      expect(response.status).toBe(200)
      await response.text()
    }
    const [word, sheet] = await app.settled(2)
    const fine = { status: 'ok', estimated: 0, unpriced: 0 }
    expect(word).toMatchObject({ ...fine, cost_nano_usd: nanoUsd, reported_nano_usd: nanoUsd })
    expect(sheet).toMatchObject({ ...fine, cost_nano_usd: byPrices ?? nanoUsd, reported_nano_usd: null })
    await upstream.stop()
    await app.stop()
  })
})
