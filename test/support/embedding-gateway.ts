/** A gateway with embedding models on upstreams of each format. */
import { startApp, type TestApp } from './app.ts'
import { geminiEmbeddings, openAiEmbeddings } from './embedding-answers.ts'
import { type ScriptedUpstream, startUpstream } from './upstream.ts'

export interface EmbeddingGateway {
  app: TestApp
  openai: ScriptedUpstream
  google: ScriptedUpstream
  /** The default key may do anything. */
  post(body: Record<string, unknown>, options?: { key?: string; path?: string }): Promise<Response>
  stop(): Promise<void>
}

const FACTS = 'context_length: 100, input_modalities: [text], output_modalities: [embeddings]'
/** 20 nano-dollars per token. */
export const NANO_USD_PER_TOKEN = 20
const PRICE = 'pricing: [{ prompt: "0.00000002", completion: "0" }]'

/** @param settings more settings of the upstream with OpenAI's format. */
export async function startEmbeddings(settings = ''): Promise<EmbeddingGateway> {
  const [openai, google] = await Promise.all([startUpstream(openAiEmbeddings()), startUpstream(geminiEmbeddings)])
  const at = `http://127.0.0.1:${google.port}`
  const app = await startApp({
    catalog: `
version: 1
upstreams:
  paid: { dialect: openai, base_url: "${openai.url}", api_key: \${UPSTREAM_KEY}${settings} }
  google: { dialect: gemini, base_url: "${at}/v1beta", api_key: \${UPSTREAM_KEY} }
  vertex: { preset: vertex-gemini, base_url: "${at}/v1/projects/p/locations/global/publishers/google", api_key: \${UPSTREAM_KEY} }
  claude: { dialect: anthropic, base_url: "${at}", api_key: \${UPSTREAM_KEY} }
  demo: { dialect: demo, local: true }
models:
  acme/embed: { name: Embed, ${FACTS}, ${PRICE}, routes: [{ upstream: paid, model: embed-v1 }] }
  acme/both: { name: Both, ${FACTS}, ${PRICE}, routes: [{ upstream: google, model: embed-g }, { upstream: paid, model: embed-v1, priority: 1 }] }
  google/embed: { name: Google, ${FACTS}, ${PRICE}, routes: [{ upstream: google, model: embed-g }] }
  vertex/embed: { name: Vertex, ${FACTS}, ${PRICE}, routes: [{ upstream: vertex, model: embed-v }] }
  claude/embed: { name: None, ${FACTS}, ${PRICE}, routes: [{ upstream: claude, model: none }] }
  demo/embed: { name: Demo, ${FACTS}, ${PRICE}, routes: [{ upstream: demo, model: d }] }
  demo/chat: { name: Demo, context_length: 100, max_output_length: 50, input_modalities: [text], output_modalities: [text], supported_features: [], routes: [{ upstream: demo, model: d }] }
`,
  })
  const anybody = app.key()
  return {
    app,
    openai,
    google,
    post: (body, { key = anybody, path = '/embeddings' } = {}) =>
      fetch(`${app.baseUrl}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    async stop() {
      await Promise.all([openai.stop(), google.stop()])
      await app.stop()
    },
  }
}
