/**
 * Writes `src/catalog/known-prices.jsonl`: prices of audio, images, reranking, moderation, and batches, which models.dev lacks.
 * They come from LiteLLM's price map (MIT), which is in its package on PyPI, corrected by the providers' own rules.
 *
 *     pip download --no-deps litellm==1.109.1
 *     unzip -p litellm-*.whl litellm/model_prices_and_context_window_backup.json > map.json
 *     bun .ci/known-prices.ts map.json 1.109.1 2026-11-29
 */
import { join } from 'node:path'
import type { PricingItem } from '../src/domain/usage.ts'

type Entry = Readonly<Record<string, unknown>>
type Kind = 'transcription' | 'speech' | 'image' | 'rerank' | 'moderation' | 'ocr'

/** By name in models.dev, and how names in the map begin. */
const PROVIDERS: Readonly<Record<string, { is: string; prefix: string }>> = {
  openai: { is: 'openai', prefix: '' },
  groq: { is: 'groq', prefix: 'groq/' },
  mistral: { is: 'mistral', prefix: 'mistral/' },
  xai: { is: 'xai', prefix: 'xai/' },
  elevenlabs: { is: 'elevenlabs', prefix: 'elevenlabs/' },
  cohere: { is: 'cohere', prefix: '' },
  jina: { is: 'jina_ai', prefix: '' },
  voyage: { is: 'voyage', prefix: 'voyage/' },
  togetherai: { is: 'together_ai', prefix: 'together_ai/' },
  'fireworks-ai': { is: 'fireworks_ai', prefix: 'fireworks_ai/' },
}

const KINDS: Readonly<Record<string, Kind>> = {
  ...{ audio_transcription: 'transcription', audio_speech: 'speech', image_generation: 'image' },
  ...{ rerank: 'rerank', moderation: 'moderation', ocr: 'ocr' },
}
const INPUTS: Readonly<Record<Kind, string[]>> = {
  ...{ transcription: ['audio'], speech: ['text'], image: ['text', 'image'] },
  ...{ rerank: ['text'], moderation: ['text', 'image'], ocr: ['file', 'image'] },
}

/** Where the map has none: as much as a request may have. Rerankers and moderation write nothing. */
const LIMITS: Readonly<Record<Kind, { context: number; output: number }>> = {
  transcription: { context: 128_000, output: 16_384 },
  speech: { context: 128_000, output: 128_000 },
  image: { context: 128_000, output: 128_000 },
  rerank: { context: 32_768, output: 1 },
  moderation: { context: 32_768, output: 1 },
  ocr: { context: 128_000, output: 1 },
}

/** OpenAI charges whole seconds, rounded up (its OpenAPI: `duration` 8.47, `usage.seconds` 9), Groq at least 10 s. */
const AUDIO_TERMS: Readonly<Record<string, Partial<PricingItem>>> = {
  openai: { audio_step_seconds: 1 },
  groq: { audio_min_seconds: 10 },
}

/** Called by WebSocket only. */
const isRealtime = (name: string) => /realtime|-live-/.test(name)

/** Exact: the shortest decimals that give the same number. */
function toExact(usd: unknown): string | undefined {
  if (typeof usd !== 'number') return undefined
  for (let places = 0; places <= 18; places++) if (Number(usd.toFixed(places)) === usd) return usd.toFixed(places)
  throw new Error(`${usd} has more than 18 decimals`)
}

/** Null if the map has no price that the provider could charge by. */
function toItem(provider: string, kind: Kind, of: Entry): PricingItem | null {
  const price = (name: string) => toExact(of[name])
  const [text, audio] = [price('input_cost_per_token'), price('input_cost_per_audio_token')]
  const [image, made] = [price('input_cost_per_image_token'), price('output_cost_per_image_token')]
  // The cache of images is dearer than that of text, and reports don't tell them apart.
  const cached = price('cache_read_input_image_token_cost') ?? price('cache_read_input_token_cost')
  // Of whisper-1, the map has the same price as input and as output; speech is output.
  const second = price('input_cost_per_second') ?? price('output_cost_per_second')
  const item: PricingItem = {
    prompt: text ?? '0',
    // Text in an image model's output has no price in the map: that of images is never too little.
    completion: price('output_cost_per_token') ?? made ?? '0',
    ...(cached && { input_cache_read: cached }),
    ...(audio && { audio }),
    ...(image && { image_token: image }),
    ...(made && { image_token_completion: made }),
    ...(price('output_cost_per_audio_token') && { audio_completion: price('output_cost_per_audio_token') }),
    ...(second && { audio_second: second, ...(kind === 'transcription' && AUDIO_TERMS[provider]) }),
    ...(price('input_cost_per_character') && { character: price('input_cost_per_character') }),
    // The map calls the price of xAI's images an input's.
    ...(kind === 'image' &&
      !made &&
      price('input_cost_per_image') && { generated_image: price('input_cost_per_image') }),
    ...(price('input_cost_per_query') && { search_unit: price('input_cost_per_query') }),
    ...(price('ocr_cost_per_page') && { page: price('ocr_cost_per_page') }),
  }
  const isPaid = Object.values(item).some((value) => /[1-9]/.test(String(value)))
  return isPaid || kind === 'moderation' ? item : null
}

/** Whose batches Tollgate can use. */
const WITH_BATCHES = ['openai', 'anthropic'] as const
const BATCHED: ReadonlySet<unknown> = new Set(['chat', 'responses', 'embedding'])

/** Empty if the map has none. @param above such as `_above_272k_tokens`. */
function toBatchItems(of: Entry, above = '', tokens = 0): PricingItem[] {
  const price = (name: string) => toExact(of[`${name}${above}_batches`])
  const [prompt, completion] = [price('input_cost_per_token'), price('output_cost_per_token')]
  if (prompt === undefined) return []
  const hour = of[`cache_creation_input_token_cost_above_1hr${above}`]
  const [read, written] = [price('cache_read_input_token_cost'), price('cache_creation_input_token_cost')]
  const item: PricingItem = {
    ...{ mode: 'batch', ...(tokens > 0 && { min_prompt_tokens: tokens }), prompt, completion: completion ?? '0' },
    ...(read && { input_cache_read: read }),
    ...(written && { input_cache_write: written }),
    // Anthropic halves all of its prices.
    ...(written && typeof hour === 'number' && { input_cache_write_1h: toExact(hour / 2) }),
  }
  if (above !== '') return [item]
  const sizes = Object.keys(of).flatMap(
    (key) => /^input_cost_per_token_above_(\d+)k_tokens_batches$/.exec(key)?.[1] ?? [],
  )
  return [item, ...sizes.flatMap((size) => toBatchItems(of, `_above_${size}k_tokens`, Number(size) * 1_000))]
}

const [path = '', version, date = ''] = process.argv.slice(2)
const map: Record<string, Entry> = await Bun.file(path).json()
const lines = [{ from: `LiteLLM ${version}, model_prices_and_context_window_backup.json, read ${date}` }] as object[]
for (const [provider, { is, prefix }] of Object.entries(PROVIDERS)) {
  const models: { model: string }[] = []
  for (const [key, entry] of Object.entries(map)) {
    const kind = KINDS[String(entry.mode)]
    const name = key.slice(prefix.length)
    const isOld = typeof entry.deprecation_date === 'string' && entry.deprecation_date <= date
    if (entry.litellm_provider !== is || !key.startsWith(prefix) || !kind || isOld || isRealtime(name)) continue
    // Images by quality and size, which duplicate prices per token; images of Fireworks, whose prices are no tokens'.
    if (/-x-/.test(name) || (kind === 'image' && provider === 'fireworks-ai')) continue
    const item = toItem(provider, kind, entry)
    if (!item) continue
    const { max_input_tokens: context = LIMITS[kind].context, max_output_tokens: written, source } = entry
    const output = kind === 'transcription' && written ? written : LIMITS[kind].output
    models.push({
      ...{ provider, model: name },
      ...{ input: INPUTS[kind], output: [kind] },
      limit: { context, output },
      pricing: [item],
      ...(source ? { source } : {}),
    })
  }
  lines.push(...models.toSorted((a, b) => (a.model < b.model ? -1 : 1)))
}
for (const provider of WITH_BATCHES) {
  const models = Object.entries(map).flatMap(([model, entry]) => {
    const isOld = typeof entry.deprecation_date === 'string' && entry.deprecation_date <= date
    const isOther = entry.litellm_provider !== provider || !BATCHED.has(entry.mode) || model.startsWith('ft:')
    const batch = isOld || isOther ? [] : toBatchItems(entry)
    return batch.length > 0 ? [{ provider, model, batch }] : []
  })
  lines.push(...models.toSorted((a, b) => (a.model < b.model ? -1 : 1)))
}
const target = join(import.meta.dir, '../src/catalog/known-prices.jsonl')
await Bun.write(target, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
