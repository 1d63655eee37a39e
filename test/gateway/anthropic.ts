/** A gateway in front of a strict Anthropic, with models for each way of thinking. */

import { type Play, type Strictness, strictly } from '../support/anthropic-upstream.ts'
import { CREDENTIAL, startApp, type TestApp } from '../support/app.ts'
import { checkError, checkHeaders, checkStream, checkWhole, type Report } from '../support/contract.ts'
import type { ErrorFields } from '../support/contract-frames.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

const FACTS =
  'context_length: 200000, max_output_length: 64000, input_modalities: [text, image, file], output_modalities: [text]'
/** Published prices of Claude Sonnet, USD per token. */
const PRICING =
  'pricing: [{ prompt: "0.000003", completion: "0.000015", input_cache_read: "0.0000003", input_cache_write: "0.00000375", input_cache_write_1h: "0.000006" }]'
const FEATURES = 'supported_features: [tools, structured_outputs, reasoning]'

export const toCatalogue = (url: string, settings = '') => `
version: 1
upstreams:
  anthropic: { dialect: anthropic, base_url: "${url}", api_key: \${UPSTREAM_KEY}${settings} }
models:
  anthropic/adaptive: { name: A, ${FACTS}, ${PRICING}, ${FEATURES}, routes: [{ upstream: anthropic, model: claude-adaptive }] }
  anthropic/restless: { name: R, ${FACTS}, ${PRICING}, ${FEATURES}, routes: [{ upstream: anthropic, model: claude-restless, thinking: adaptive, thinking_off: false, sampling: false, efforts: [low, high] }] }
  anthropic/budget: { name: B, ${FACTS}, ${PRICING}, ${FEATURES}, routes: [{ upstream: anthropic, model: claude-budget, thinking: budget }] }
  anthropic/plain: { name: P, ${FACTS}, ${PRICING}, supported_features: [tools], routes: [{ upstream: anthropic, model: claude-plain, thinking: none }] }
`

export const ABILITIES: Record<string, Strictness['ability']> = {
  'claude-adaptive': { efforts: ['low', 'medium', 'high', 'max'] },
  'claude-restless': { off: false, sampling: false, efforts: ['low', 'high'] },
  'claude-budget': { thinking: 'budget' },
  'claude-plain': { thinking: 'none' },
}

export interface AnthropicGateway {
  app: TestApp
  upstream: ScriptedUpstream
  play(play: Play): void
  post(body: Record<string, unknown>, signal?: AbortSignal): Promise<Response>
  ask(body?: Record<string, unknown>): Promise<Report>
  refused(body: Record<string, unknown>): Promise<ErrorFields & { status: number }>
  sent(): Record<string, unknown>
  stop(): Promise<void>
}

export const HELLO = { model: 'anthropic/adaptive', messages: [{ role: 'user', content: 'Hello there!' }] }

export async function startAnthropic(settings = ''): Promise<AnthropicGateway> {
  const upstream = await startUpstream()
  const app = await startApp({ catalog: toCatalogue(upstream.url, settings) })
  const key = app.key()
  const post = (body: Record<string, unknown>, signal?: AbortSignal) =>
    fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...HELLO, ...body }),
      ...(signal ? { signal } : {}),
    })
  return {
    app,
    upstream,
    post,
    play: (play) =>
      upstream.script((seen) => {
        const ability = ABILITIES[String(seen.json?.model)] ?? {}
        const script = strictly(play, { key: CREDENTIAL, ability })
        return typeof script === 'function' ? script(seen) : script
      }),
    async ask(body = {}) {
      const response = await post(body)
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${response.status} ${text}`)
      checkHeaders(body.stream ? 'stream' : 'whole', response.headers)
      const asked = { choices: Number(body.n ?? 1), logprobs: false, includeUsage: Reflect.has(body, 'stream_options') }
      const report = body.stream ? checkStream(text, asked) : checkWhole(text, asked)
      if ('error' in report && report.error) throw new Error(JSON.stringify(report.error))
      return report
    },
    async refused(body) {
      const response = await post(body)
      const text = await response.text()
      return { status: response.status, ...checkError(response.status, response.headers, text) }
    },
    sent: () => upstream.requests.at(-1)?.json ?? {},
    async stop() {
      await upstream.stop()
      await app.stop()
    },
  }
}
