/** A gateway in front of a scripted Gemini upstream; every answer is checked against the contract. */

import { startApp, type TestApp } from '../support/app.ts'
import {
  checkError,
  checkHeaders,
  checkStream,
  checkWhole,
  type Report,
  type StreamReport,
} from '../support/contract.ts'
import type { ErrorFields } from '../support/contract-frames.ts'
import { type Frame, toFrames } from '../support/frames.ts'
import type { Gemini } from '../support/gemini-upstream.ts'
import { type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

export const MODEL = 'google/gemini'
export const KEY = 'the-key-of-google-0123456789'

export interface GeminiGateway {
  app: TestApp
  upstream: ScriptedUpstream
  post(body: Record<string, unknown>): Promise<Response>
  /** Checks the answer against the contract; throws on an error. */
  ask(body: Record<string, unknown>): Promise<Answered>
  fail(body: Record<string, unknown>): Promise<ErrorFields & { status: number; headers: Headers }>
  stop(): Promise<void>
}

export type Answered = (Report | StreamReport) & {
  /** The first choice's message as a client sends it back, unknown fields included. */
  message: Record<string, unknown>
}

export interface GeminiPlace {
  /** Below the upstream's `/v1beta`. */
  base?: string
  features?: string
  pricing?: string
  credential?: string
  route?: string
  upstream?: string
}

const FEATURES = 'tools, json_mode, structured_outputs, logprobs, reasoning'
const PRICING = '[{ prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001" }]'

export async function startGemini(
  gemini: Pick<Gemini, 'script'> | Script,
  place: GeminiPlace = {},
): Promise<GeminiGateway> {
  const upstream = await startUpstream('script' in gemini ? gemini.script : gemini)
  const address = `http://127.0.0.1:${upstream.port}${place.base ?? '/v1beta'}`
  const catalog = `
version: 1
upstreams:
  google: { dialect: gemini, base_url: "${address}", api_key: \${GEMINI_API_KEY}${place.upstream ?? ''} }
models:
  ${MODEL}: { name: Gemini, context_length: 1048576, max_output_length: 65536, input_modalities: [text, image, file, audio, video], output_modalities: [text, image], supported_features: [${place.features ?? FEATURES}], pricing: ${place.pricing ?? PRICING}, routes: [{ upstream: google, model: gemini-of-today${place.route ?? ''} }] }
`
  const app = await startApp({ catalog, environment: { GEMINI_API_KEY: place.credential ?? KEY } })
  const key = app.key()
  const post = (body: Record<string, unknown>) =>
    fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, ...body }),
    })
  return {
    app,
    upstream,
    post,
    async ask(body) {
      const response = await post(body)
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
      checkHeaders(body.stream ? 'stream' : 'whole', response.headers)
      const asked = {
        model: MODEL,
        choices: Number(body.n ?? 1),
        includeUsage: body.stream_options !== undefined,
        logprobs: body.logprobs === true,
      }
      if (!body.stream) return { ...checkWhole(text, asked), message: JSON.parse(text).choices[0].message }
      const report = checkStream(text, asked)
      return { ...report, message: toMessage(report, toFrames(text).frames) }
    },
    async fail(body) {
      const response = await post(body)
      const { status, headers } = response
      return { ...checkError(status, headers, await response.text()), status, headers }
    },
    async stop() {
      await upstream.stop()
      await app.stop()
    },
  }
}

/** The message of a client that keeps every field. */
function toMessage({ choices: [choice] }: Report, frames: readonly Frame[]): Record<string, unknown> {
  const gather = (name: string) =>
    frames.flatMap(({ choices = [] }) =>
      choices.flatMap(({ index, delta }) => (index === 0 ? (delta[name] ?? []) : [])),
    )
  const [details, images] = [gather('reasoning_details'), gather('images')]
  return {
    role: 'assistant',
    content: choice?.content || null,
    ...(choice?.toolCalls.length ? { tool_calls: choice.toolCalls } : {}),
    ...(details.length > 0 ? { reasoning_details: details } : {}),
    ...(images.length > 0 ? { images } : {}),
  }
}
