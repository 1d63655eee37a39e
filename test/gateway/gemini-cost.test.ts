/** Conversation costs by Google's published prices, worked out by hand. */
import { expect, test } from 'bun:test'
import { createGemini, type GeminiTurn } from '../support/gemini-upstream.ts'
import { KEY, startGemini } from './gemini-gateway.ts'

const user = (content: string) => ({ messages: [{ role: 'user', content }] })

/** Each turn's cost in the ledger, nano-dollars. */
async function play(pricing: string, usages: Record<string, unknown>[]): Promise<number[]> {
  let turn: GeminiTurn = {}
  const gateway = await startGemini(
    createGemini(() => turn, { key: KEY }),
    { pricing },
  )
  for (const [at, usage] of usages.entries()) {
    turn = { text: 'Hello', usage }
    const before = await gateway.app.count()
    const { usage: told } = await gateway.ask({
      ...user('Go'),
      ...(at % 2 === 0 ? {} : { stream: true, stream_options: { include_usage: true } }),
    })
    const [row] = (await gateway.app.settled(before + 1)).slice(-1)
    expect(told).toMatchObject({ prompt: Number(row?.prompt_tokens), completion: Number(row?.completion_tokens) })
  }
  const costs = gateway.app.rows().map((row) => row.cost_nano_usd)
  await gateway.stop()
  return costs
}

test('Gemini 2.5 Pro: cached tokens, reasoning, tools, and the whole request at a higher price above 200,000 tokens', async () => {
  // USD per million: 1.25 read, 0.125 cached, 10 written; above 200,000 prompt tokens 2.50, 0.25 and 15; flex costs
  // half.
  const pricing = `[
    { prompt: "0.00000125", completion: "0.00001", input_cache_read: "0.000000125" },
    { prompt: "0.0000025", completion: "0.000015", input_cache_read: "0.00000025", min_prompt_tokens: 200000 },
    { prompt: "0.000000625", completion: "0.000005", input_cache_read: "0.0000000625", mode: flex }]`
  const costs = await play(pricing, [
    {
      promptTokenCount: 200_000,
      cachedContentTokenCount: 150_000,
      candidatesTokenCount: 500,
      thoughtsTokenCount: 1_500,
      totalTokenCount: 202_000,
      serviceTier: 'standard',
    },
    {
      promptTokenCount: 250_000,
      cachedContentTokenCount: 200_000,
      toolUsePromptTokenCount: 300,
      candidatesTokenCount: 1_000,
      thoughtsTokenCount: 2_000,
      totalTokenCount: 253_300,
    },
    {
      promptTokenCount: 1_000,
      candidatesTokenCount: 60,
      thoughtsTokenCount: 40,
      totalTokenCount: 1_100,
      serviceTier: 'flex',
    },
  ])
  expect(costs).toEqual([
    // 50,000 at 1,250 nano-dollars, 150,000 at 125, 2,000 at 10,000
    62_500_000 + 18_750_000 + 20_000_000,
    // 50,300 at 2,500, 200,000 at 250, 3,000 at 15,000
    125_750_000 + 50_000_000 + 45_000_000,
    // 1,000 at 625, 100 at 5,000
    625_000 + 500_000,
  ])
})

test('Gemini 2.5 Flash: audio costs more than text, and tokens without details are text', async () => {
  // USD per million: 0.30 text, 1.00 audio, 0.03 cached, 2.50 written.
  const pricing =
    '[{ prompt: "0.0000003", completion: "0.0000025", input_cache_read: "0.00000003", audio: "0.000001" }]'
  const costs = await play(pricing, [
    {
      promptTokenCount: 1_000,
      candidatesTokenCount: 50,
      totalTokenCount: 1_050,
      promptTokensDetails: [{ modality: 'AUDIO', tokenCount: 600 }],
    },
  ])
  // 400 at 300 nano-dollars, 600 at 1,000, 50 at 2,500
  expect(costs).toEqual([120_000 + 600_000 + 125_000])
})
