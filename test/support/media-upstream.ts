/** A provider with every endpoint except chat, in OpenAI's format: a second of silence, a green image, and so on. */
import { toWav } from './audio-forms.ts'

/** A green square, as PNG. */
export const PICTURE =
  'iVBORw0KGgoAAAANSUhEUgAAAGAAAABgCAIAAABt+uBvAAAAjklEQVR42u3QMQ0AAAgDsClBGJoQjQNOriZV0NQ0hygQJEiQIEGC' +
  'BAlCkCBBggQJEiQIQYIECRIkSJAgBAkSJEiQIEGCBCFIkCBBggQJEoQgQYIECRIkSBCCBAkSJEiQIEGCECRIkCBBggQJQpAgQYIE' +
  'CRIkCEGCBAkSJEiQIEEIEiRIkCBBggQhSJCgPwsZKZIdJP+ZKQAAAABJRU5ErkJggg=='

export interface MediaUpstream {
  /** Ends in `/v1`. */
  url: string
  /** Received requests, JSON or form fields, newest last. */
  asked: Record<string, unknown>[]
  /** Fails the next request with this message. */
  fail(message: string): void
  stop(): Promise<void>
}

export function startMediaUpstream(): MediaUpstream {
  const asked: Record<string, unknown>[] = []
  let failure: string | null = null
  const server = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1' },
    async fetch(request) {
      if (request.method === 'GET') return Response.json({ object: 'list', data: [] })
      const path = new URL(request.url).pathname.replace(/^\/v\d/, '')
      const isForm = request.headers.get('content-type')?.startsWith('multipart/')
      const body: Record<string, unknown> = isForm
        ? Object.fromEntries(await request.formData())
        : ((await request.json()) as Record<string, unknown>)
      asked.push(body)
      if (failure !== null) {
        const error = { message: failure, type: 'invalid_request_error', param: null, code: null }
        failure = null
        return Response.json({ error }, { status: 400 })
      }
      const answer = ANSWERS[path]?.(body)
      return answer instanceof Response ? answer : Response.json(answer ?? {}, { status: answer ? 200 : 404 })
    },
  })
  return {
    ...{ url: `http://127.0.0.1:${server.port}/v1`, asked },
    fail(message) {
      failure = message
    },
    stop: () => server.stop(true),
  }
}

const heard = (text: string) => () => ({ text, usage: { type: 'duration', seconds: 1 } })
const listOf = (value: unknown) => (Array.isArray(value) ? value : [value])

const toPictures = ({ n, size, quality }: Record<string, unknown>) => ({
  created: 1_700_000_000,
  data: Array.from({ length: Number(n ?? 1) }, () => ({ b64_json: PICTURE })),
  ...{ size: size ?? '1024x1024', quality: quality ?? 'medium' },
})

const ANSWERS: Readonly<Record<string, (body: Record<string, unknown>) => object>> = {
  '/audio/speech': () => new Response(new Uint8Array(toWav(1_000)), { headers: { 'content-type': 'audio/wav' } }),
  '/audio/transcriptions': heard('The quick brown fox.'),
  '/audio/translations': heard('Good morning.'),
  '/images/generations': toPictures,
  '/images/edits': toPictures,
  '/rerank': ({ documents }) => ({
    results: listOf(documents).map((_, index) => ({ index, relevance_score: 1 / (2 + index) })),
    meta: { billed_units: { search_units: 1 } },
  }),
  '/moderations': ({ model, input }) => ({
    ...{ id: 'modr-1', model },
    results: listOf(input).map(() => ({
      flagged: true,
      categories: { violence: true, hate: false },
      category_scores: { violence: 0.91, hate: 0.02 },
    })),
  }),
  '/embeddings': ({ model, input }) => ({
    ...{ object: 'list', model, usage: { prompt_tokens: 4, total_tokens: 4 } },
    data: listOf(input).map((_, index) => ({ object: 'embedding', index, embedding: [1, index, 0] })),
  }),
}

const TOKENS_FREE = 'prompt: "0", completion: "0"'

/** A model of each kind, with its usual pricing, next to the demo. Its key is in `MEDIA_KEY`. */
export const toMediaCatalog = (url: string): string => `version: 1
upstreams:
  media: { dialect: openai, base_url: "${url}", api_key: \${MEDIA_KEY} }
  demo: { dialect: demo, local: true }
models:
${Object.entries({
  chat: ['text', 'prompt: "0.00000125", completion: "0.00001"'],
  speech: ['speech', `${TOKENS_FREE}, character: "0.000015"`],
  whisper: ['transcription', `${TOKENS_FREE}, audio_second: "0.0001", audio_step_seconds: 1`],
  images: [
    'image',
    `${TOKENS_FREE}, generated_image: "0.19" }, { ${TOKENS_FREE}, size: 1024x1024, quality: low, generated_image: "0.011" }, { ${TOKENS_FREE}, size: 1024x1024, quality: medium, generated_image: "0.042"`,
  ],
  rerank: ['rerank', `${TOKENS_FREE}, search_unit: "0.002"`],
  unpriced: ['rerank', TOKENS_FREE],
  moderation: ['moderation', TOKENS_FREE],
  embeddings: ['embeddings', 'prompt: "0.00000002", completion: "0"'],
  ocr: ['text', `${TOKENS_FREE}, page: "0.001"`],
})
  .map(
    ([name, [made = '', pricing = '']]) =>
      `  acme/${name}: { name: Acme ${name}, context_length: 8192, max_output_length: 4096, supported_features: [], input_modalities: [${made === 'transcription' ? 'audio' : 'text'}],
    output_modalities: [${made}], pricing: [{ ${pricing} }], routes: [{ upstream: media, model: ${name} }] }`,
  )
  .join('\n')}
  tollgate/demo: { name: Demo, context_length: 8192, max_output_length: 4096, supported_features: [], input_modalities: [text], output_modalities: [text], routes: [{ upstream: demo, model: demo }] }
`
