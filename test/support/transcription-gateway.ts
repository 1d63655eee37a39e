/** A gateway with transcription models on upstreams of each kind, at two scripted servers. */
import { startApp, type TestApp } from './app.ts'
import { type ScriptedUpstream, startUpstream } from './upstream.ts'

const FACTS =
  'context_length: 16000, max_output_length: 2000, input_modalities: [audio], output_modalities: [transcription]'

export interface TranscriptionGateway {
  app: TestApp
  near: ScriptedUpstream
  far: ScriptedUpstream
  stop(): Promise<void>
}

export async function startTranscriptions(): Promise<TranscriptionGateway> {
  const [near, far] = await Promise.all([startUpstream(), startUpstream()])
  const app = await startApp({
    catalog: `
version: 1
upstreams:
  near: { dialect: openai, base_url: "${near.url}", api_key: \${UPSTREAM_KEY} }
  far: { dialect: openai, base_url: "${far.url}", api_key: \${UPSTREAM_KEY} }
  mistral: { preset: mistral, base_url: "${near.url}", api_key: \${UPSTREAM_KEY} }
  azure: { preset: azure-deployments, base_url: "http://127.0.0.1:${near.port}/openai", api_key: \${UPSTREAM_KEY} }
  whisper-cpp: { dialect: openai, local: true, base_url: "http://127.0.0.1:${near.port}", path: /inference }
  openrouter: { preset: openrouter, base_url: "${near.url}", api_key: \${UPSTREAM_KEY} }
models:
  acme/whisper: { name: Whisper, ${FACTS}, pricing: [{ prompt: "0", completion: "0", audio_second: "0.0001", audio_step_seconds: 1 }], routes: [{ upstream: near, model: whisper-up }] }
  acme/both: { name: Both, ${FACTS}, pricing: [{ prompt: "0", completion: "0", audio_second: "0.0001" }], routes: [{ upstream: near, model: one }, { upstream: far, model: two, priority: 1 }] }
  acme/tokens: { name: Tokens, ${FACTS}, pricing: [{ prompt: "0.0000025", audio: "0.000006", completion: "0.00001", audio_second: "0.0001" }], routes: [{ upstream: near, model: gpt-4o-transcribe }] }
  acme/tokens-only: { name: Tokens, ${FACTS}, pricing: [{ prompt: "0.0000025", audio: "0.000006", completion: "0.00001" }], routes: [{ upstream: near, model: gpt-4o-transcribe }] }
  acme/groq: { name: Groq, ${FACTS}, pricing: [{ prompt: "0", completion: "0", audio_second: "0.00001111", audio_min_seconds: 10 }], routes: [{ upstream: near, model: whisper-large-v3-turbo }] }
  mistral/voxtral: { name: Voxtral, ${FACTS}, pricing: [{ prompt: "0", completion: "0", audio_second: "0.00005" }], routes: [{ upstream: mistral, model: voxtral-mini }] }
  azure/whisper: { name: Azure, ${FACTS}, pricing: [{ prompt: "0", completion: "0", audio_second: "0.0001" }], routes: [{ upstream: azure, model: my-whisper }] }
  local/whisper: { name: Local, ${FACTS}, routes: [{ upstream: whisper-cpp, model: base }] }
  openrouter/whisper: { name: Routed, ${FACTS}, pricing: [{ prompt: "0", completion: "0", audio_second: "0.0001" }], routes: [{ upstream: openrouter, model: openai/whisper-1 }] }
aliases: { whisper-1: acme/whisper }
`,
  })
  return {
    ...{ app, near, far },
    async stop() {
      await Promise.all([near.stop(), far.stop()])
      await app.stop()
    },
  }
}
