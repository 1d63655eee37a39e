/** The default catalog, in nano-dollars per token: input 1,000, cached 100, output 2,000. */
import type { ServeConfig } from '../../src/config.ts'
import { startApp, type TestApp } from './app.ts'
import { type Script, type ScriptedUpstream, startUpstream } from './upstream.ts'

/** Cost of a call to `acme/large`. */
export const costOf = (prompt: number, completion: number, cached = 0) =>
  (prompt - cached) * 1_000 + cached * 100 + completion * 2_000

export const usageOf = (prompt: number, completion: number, cached = 0) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: 0 },
  cost_nano_usd: costOf(prompt, completion, cached),
  cost: costOf(prompt, completion, cached) / 1e9,
})

export interface CatalogueOptions {
  url: string
  /** `headers: 50ms` and the like, for the paid upstream. */
  deadlines?: string
}

/** Paid models, one on an upstream with few features, a free local one, one without a credential, and aliases. */
export function toCatalogue({ url, deadlines = '' }: CatalogueOptions): string {
  const facts =
    'context_length: 8192, max_output_length: 1000, input_modalities: [text, image, audio, video], output_modalities: [text]'
  const pricing = 'pricing: [{ prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001" }]'
  return `
version: 1
upstreams:
  paid: { dialect: openai, base_url: "${url}", api_key: \${UPSTREAM_KEY}, deadlines: { ${deadlines} } }
  single: { dialect: openai, base_url: "${url}", api_key: \${UPSTREAM_KEY}, n: false, user: false, max_tokens_field: max_completion_tokens }
  here: { dialect: openai, base_url: "${url}", local: true }
  keyless: { dialect: openai, base_url: "${url}", api_key: \${NOBODY_SET_THIS} }
models:
  acme/large: { name: Large, ${facts}, supported_features: [tools], ${pricing}, routes: [{ upstream: paid, model: large-v1 }] }
  acme/small: { name: Small, ${facts}, supported_features: [], ${pricing}, routes: [{ upstream: paid, model: small-v1 }] }
  local/tiny: { name: Tiny, ${facts}, supported_features: [], routes: [{ upstream: here, model: "tiny:1b" }] }
  local/typed: { name: Local typed, ${facts}, supported_features: [structured_outputs], routes: [{ upstream: here, model: "typed:1b" }] }
  acme/single: { name: Single, ${facts}, supported_features: [tools], ${pricing}, routes: [{ upstream: single, model: single-v1 }] }
  acme/typed: { name: Typed, ${facts}, supported_features: [tools, json_mode, structured_outputs], ${pricing}, routes: [{ upstream: paid, model: typed-v1 }] }
  acme/idle: { name: Idle, ${facts}, supported_features: [], ${pricing}, routes: [{ upstream: keyless, model: idle }] }
aliases: { fast: acme/large, a/b: acme/large }
`
}

export interface Gateway {
  app: TestApp
  upstream: ScriptedUpstream
  key: string
  chat(body?: Record<string, unknown>, options?: ChatOptions): Promise<Response>
  stop(): Promise<void>
}

export interface ChatOptions {
  headers?: Record<string, string>
  signal?: AbortSignal
}

export const HELLO = { model: 'acme/large', messages: [{ role: 'user', content: 'Hello there!' }] }

/** The estimate of `HELLO`: ceil(12 / 4) + 8. */
export const HELLO_TOKENS = 11

/** The count if the upstream reports nothing: three for text, four for the message, three for the response. */
export const HELLO_COUNTED = 10

/** Reserved on a nearly spent budget after counting: eight for the message, and its text with any vocabulary. */
export const HELLO_BOUND = 5 + 8

export async function startGateway({
  script,
  deadlines,
  ...rest
}: {
  script?: Script
  deadlines?: string
  config?: Partial<ServeConfig>
} = {}): Promise<Gateway> {
  const upstream = await startUpstream(script)
  const app = await startApp({
    catalog: toCatalogue({ url: upstream.url, ...(deadlines === undefined ? {} : { deadlines }) }),
    ...rest,
  })
  const key = app.key()
  return {
    app,
    upstream,
    key,
    chat: (body = {}, { headers = {}, signal } = {}) =>
      fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ ...HELLO, ...body }),
        ...(signal ? { signal } : {}),
      }),
    async stop() {
      await upstream.stop()
      await app.stop()
    },
  }
}
