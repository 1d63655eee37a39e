/** A gateway in front of an Anthropic with passthrough, one that is translated, and an OpenAI. */
import { startApp, type TestApp } from '../support/app.ts'
import { type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

const FACTS =
  'context_length: 200000, max_output_length: 64000, input_modalities: [text, image, file], output_modalities: [text], supported_features: [tools, structured_outputs, reasoning]'
const PRICING =
  'pricing: [{ prompt: "0.000003", completion: "0.000015", input_cache_read: "0.0000003", input_cache_write: "0.00000375", input_cache_write_1h: "0.000006" }]'

export interface NativeGateway {
  app: TestApp
  upstream: ScriptedUpstream
  other: ScriptedUpstream
  post(body: string, headers?: Record<string, string>, key?: string): Promise<Response>
  stop(): Promise<void>
}

/** @param settings of the upstream, after a comma. */
export async function startNative(settings = ''): Promise<NativeGateway> {
  const [upstream, other] = await Promise.all([startUpstream(), startUpstream()])
  const app = await startApp({
    catalog: `
version: 1
upstreams:
  anthropic: { dialect: anthropic, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}${settings} }
  open: { dialect: anthropic, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}, local: true }
  anew: { dialect: anthropic, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}, passthrough: false }
  openai: { dialect: openai, base_url: "${other.url}", api_key: \${UPSTREAM_KEY} }
models:
  anthropic/claude: { name: C, ${FACTS}, ${PRICING}, routes: [{ upstream: anthropic, model: claude-up }] }
  anthropic/open: { name: O, ${FACTS}, ${PRICING}, routes: [{ upstream: open, model: claude-up }] }
  anthropic/anew: { name: A, ${FACTS}, ${PRICING}, routes: [{ upstream: anew, model: claude-up }] }
  anthropic/backed: { name: B, ${FACTS}, ${PRICING}, routes: [{ upstream: anthropic, model: claude-up }, { upstream: openai, model: gpt, priority: 1 }] }
  anthropic/searching: { name: S, ${FACTS.replace('reasoning]', 'reasoning, web_search]')}, pricing: [{ prompt: "0.000003", completion: "0.000015", web_search: "0.01" }], routes: [{ upstream: anthropic, model: claude-up }] }
`,
  })
  const key = app.key()
  return {
    app,
    upstream,
    other,
    post: (body, headers = {}, bearer = key) =>
      fetch(`${app.baseUrl}/messages?beta=true`, {
        method: 'POST',
        headers: { 'x-api-key': bearer, 'content-type': 'application/json', ...headers },
        body,
      }),
    async stop() {
      await Promise.all([upstream.stop(), other.stop()])
      await app.stop()
    },
  }
}

export const idOf = (response: Response) => String(response.headers.get('x-request-id')).slice(4)

export const toFrames = (datas: readonly string[]) =>
  datas.map((data) => `event: ${JSON.parse(data).type}\ndata: ${data}\n\n`)

export const toStream = (datas: readonly string[]): Script => ({ kind: 'stream', steps: toFrames(datas), end: 'eof' })

export const START =
  '{"type":"message_start","message":{"model":"claude-up","id":"msg_up","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":1}}       }'

export const toAnswer = (...texts: string[]): string[] => [
  START,
  '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
  '{"type": "ping"}',
  ...texts.map(
    (text) =>
      `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":${JSON.stringify(text)}}   }`,
  ),
  '{"type":"content_block_stop","index":0 }',
  '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}',
  '{"type":"message_stop"     }',
]
