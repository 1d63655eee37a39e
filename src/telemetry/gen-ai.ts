/**
 * Names of OpenTelemetry's conventions for generative AI, which may still change
 * (https://github.com/open-telemetry/semantic-conventions-genai, read in November 2026), and those of HTTP.
 */
import type { DialectName } from '../domain/dialects.ts'
import type { RecordedEndpoint } from '../domain/task.ts'

export const NAMES = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  requestModel: 'gen_ai.request.model',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  errorType: 'error.type',
  serverAddress: 'server.address',
  serverPort: 'server.port',
  method: 'http.request.method',
  route: 'http.route',
  status: 'http.response.status_code',
} as const

export const OPERATIONS: Readonly<Record<RecordedEndpoint, string>> = {
  ...{ chat: 'chat', messages: 'chat', responses: 'chat', gemini: 'generate_content' },
  ...{ completions: 'text_completion', embeddings: 'embeddings' },
  ...{ transcriptions: 'transcription', translations: 'translation', speech: 'speech' },
  ...{ rerank: 'rerank', moderations: 'moderation', realtime: 'chat' },
  images: 'image_generation',
  image_edits: 'image_generation',
}

/** By API format, as the conventions require; `server.address` identifies the provider. */
export const PROVIDERS: Readonly<Record<DialectName, string>> = {
  ...{ openai: 'openai', anthropic: 'anthropic', gemini: 'gcp.gemini', ollama: 'ollama', demo: 'tollgate' },
}
