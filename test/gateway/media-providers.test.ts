/**
 * What programs send for speech, transcriptions, images, and ranks, on providers that reject unknown paths, headers, and fields. Fields
 * are those of each provider's SDK or source.
 */
import { expect, test } from 'bun:test'
import { CREDENTIAL, startApp } from '../support/app.ts'
import { type Field, FORM_TYPE, fromForm, toForm, toWav } from '../support/audio-forms.ts'
import { forAllTests } from '../support/lifetime.ts'
import { type Seen, startUpstream } from '../support/upstream.ts'
import { type Behaviour, errorAnswer } from '../support/upstream-answers.ts'

type Kind = 'speech' | 'transcriptions' | 'images' | 'rerank'

interface Provider {
  kind: Kind
  /** Catalog settings in addition to the address. */
  settings: string
  /** Path after the host. */
  base: string
  model?: string
  price?: string
  path: string
  /** Known fields; those with `!` are required. */
  fields: string
  auth?: 'api-key' | 'none'
  answer: Behaviour
}

const AUDIO = Uint8Array.from([0xff, 0xfb, 1, 2, 3])
const BASE64 = Buffer.from(AUDIO).toString('base64')
const spoken: Behaviour = { kind: 'whole', headers: { 'content-type': 'audio/mpeg' }, body: AUDIO }
const says = (body: unknown): Behaviour => ({ kind: 'whole', body })
const heard = says({ text: 'Hello.' })
const drawn = says({ created: 1, data: [{ b64_json: BASE64 }] })
const scores = [0.2, 0.9].map((relevance_score, index) => ({ index, relevance_score }))
const EVENTS: Behaviour = {
  kind: 'stream',
  steps: [
    { type: 'speech.audio.delta', audio: BASE64 },
    { type: 'speech.audio.done', usage: { input_tokens: 3, output_tokens: 20, total_tokens: 23 } },
  ],
  end: 'eof',
}

const SPEECH = { kind: 'speech', base: '/v1', path: '/v1/audio/speech', answer: spoken } as const
const HEARS = { kind: 'transcriptions', base: '/v1', path: '/v1/audio/transcriptions', answer: heard } as const
const DRAWS = { kind: 'images', base: '/v1', path: '/v1/images/generations', answer: drawn } as const
const RANKS = { kind: 'rerank', base: '/v1', path: '/v1/rerank', answer: says({ results: scores }) } as const
const PER_TOKEN = '{ prompt: "0.000001", completion: "0.000002" }'
const DEPLOYED = '/openai/deployments/mine'

const OPENAI_SPEECH = 'model! input! voice! instructions response_format speed stream_format'
const OPENAI_FORM =
  'file! model! language prompt response_format temperature stream timestamp_granularities[] include[] chunking_strategy'

const PROVIDERS: Readonly<Record<string, Provider>> = {
  'OpenAI speech': { ...SPEECH, settings: 'preset: openai', fields: OPENAI_SPEECH },
  'OpenAI speech by token': {
    ...{ ...SPEECH, settings: 'preset: openai', model: 'gpt-4o-mini-tts', price: PER_TOKEN, answer: EVENTS },
    fields: OPENAI_SPEECH.replace('stream_format', 'stream_format!'),
  },
  'Groq speech': {
    ...{ ...SPEECH, settings: 'preset: groq', base: '/openai/v1', path: '/openai/v1/audio/speech' },
    fields: 'model! input! voice! response_format sample_rate speed',
  },
  'Mistral speech': {
    ...{ ...SPEECH, settings: 'preset: mistral', answer: says({ audio_data: BASE64 }) },
    fields: 'model! input! voice_id! ref_audio response_format stream',
  },
  'Together speech': {
    ...{ ...SPEECH, settings: 'preset: together' },
    fields: 'model! input! voice! language response_encoding response_format sample_rate stream',
  },
  'DeepInfra speech': {
    ...{ ...SPEECH, settings: 'dialect: openai', base: '/v1/openai', path: '/v1/openai/audio/speech' },
    fields: 'model! input! voice! response_format speed service_tier extra_body',
  },
  'Azure speech': {
    ...{ ...SPEECH, settings: 'preset: azure-deployments', base: '/openai', model: 'mine', auth: 'api-key' },
    ...{ path: `${DEPLOYED}/audio/speech?api-version=2024-10-21`, fields: OPENAI_SPEECH },
  },
  Kokoro: {
    ...{ ...SPEECH, settings: 'dialect: openai, local: true', auth: 'none' },
    fields:
      'model! input! voice! response_format download_format speed stream return_download_link lang_code volume_multiplier',
  },
  'OpenAI transcriptions': { ...HEARS, settings: 'preset: openai', fields: OPENAI_FORM },
  'Groq transcriptions': {
    ...{ ...HEARS, settings: 'preset: groq', base: '/openai/v1', path: '/openai/v1/audio/transcriptions' },
    fields: 'file! model! language prompt response_format temperature timestamp_granularities[]',
  },
  'Mistral transcriptions': {
    ...{ ...HEARS, settings: 'preset: mistral' },
    fields: 'file! model! language temperature stream diarize context_bias timestamp_granularities',
  },
  'Together transcriptions': {
    ...{ ...HEARS, settings: 'preset: together' },
    fields: 'file! model! language prompt response_format temperature timestamp_granularities diarize',
  },
  'DeepInfra transcriptions': {
    ...{ ...HEARS, settings: 'dialect: openai', base: '/v1/openai', path: '/v1/openai/audio/transcriptions' },
    fields: 'file! model! language prompt response_format temperature timestamp_granularities[]',
  },
  'Azure transcriptions': {
    ...{ ...HEARS, settings: 'preset: azure-deployments', base: '/openai', model: 'mine', auth: 'api-key' },
    ...{ path: `${DEPLOYED}/audio/transcriptions?api-version=2024-10-21`, fields: OPENAI_FORM },
  },
  'vLLM transcriptions': {
    ...{ ...HEARS, settings: 'preset: vllm', auth: 'none' },
    fields: `${OPENAI_FORM} stream_include_usage top_p top_k seed`,
  },
  'OpenAI images': {
    ...{ ...DRAWS, settings: 'preset: openai', model: 'gpt-image-2' },
    fields:
      'model! prompt! n size quality background output_format output_compression moderation stream partial_images',
  },
  'Azure images': {
    ...{ ...DRAWS, settings: 'preset: azure-deployments', base: '/openai', model: 'mine', auth: 'api-key' },
    path: `${DEPLOYED}/images/generations?api-version=2024-10-21`,
    fields: 'model prompt! n size quality response_format style user',
  },
  'Together images': {
    ...{ ...DRAWS, settings: 'preset: together' },
    fields:
      'model! prompt! n width height steps seed negative_prompt response_format image_url output_format guidance_scale',
  },
  'DeepInfra images': {
    ...{ ...DRAWS, settings: 'dialect: openai', base: '/v1/openai', path: '/v1/openai/images/generations' },
    fields: 'model! prompt! n size response_format quality style user',
  },
  Cohere: {
    ...{ ...RANKS, settings: 'preset: cohere-rerank', base: '/v2', path: '/v2/rerank' },
    fields: 'model! query! documents! top_n max_tokens_per_doc priority',
  },
  Jina: { ...RANKS, settings: 'preset: jina', fields: 'model! query! documents! top_n return_documents' },
  Voyage: {
    ...{ ...RANKS, settings: 'preset: voyage', answer: says({ object: 'list', data: scores }) },
    fields: 'model! query! documents! top_k return_documents truncation',
  },
  TEI: {
    ...{ ...RANKS, settings: 'preset: tei', base: '', path: '/rerank', auth: 'none' },
    fields: 'query! texts! raw_scores return_text truncate truncation_direction',
    answer: says(scores.map(({ index, relevance_score: score }) => ({ index, score }))),
  },
  'vLLM rerank': {
    ...{ ...RANKS, settings: 'preset: vllm', auth: 'none' },
    fields: 'model! query! documents! top_n truncate_prompt_tokens priority',
  },
  'llama.cpp': {
    ...{ ...RANKS, settings: 'preset: llama-swap', auth: 'none' },
    fields: 'model! query! documents! top_n',
  },
}

const MAKES: Readonly<Record<Kind, string>> = {
  ...{ speech: 'speech', transcriptions: 'transcription', images: 'image', rerank: 'rerank' },
}
const PER_UNIT =
  '{ prompt: "0", completion: "0", character: "0.00001", audio_second: "0.0001", generated_image: "0.01" }'
const toId = (name: string) => name.toLowerCase().replace(/[^a-z]+/g, '-')

const gateway = forAllTests(async () => {
  const upstream = await startUpstream()
  const all = Object.entries(PROVIDERS).map(([name, one]) => ({ id: toId(name), ...one }))
  const upstreams = all.map(({ id, settings, base, auth }) => {
    const key = auth === 'none' ? '' : `, api_key: \${KEY}`
    return `  ${id}: { ${settings}, base_url: "http://127.0.0.1:${upstream.port}${base}"${key} }`
  })
  const models = all.map(({ id, kind, model = 'm', price = PER_UNIT }) => {
    const facts = `name: M, context_length: 32000, max_output_length: 16000, input_modalities: [text], output_modalities: [${MAKES[kind]}]`
    return `  p/${id}: { ${facts}, supported_features: [], pricing: [${price}], routes: [{ upstream: ${id}, model: ${model} }] }`
  })
  const app = await startApp({
    catalog: `version: 1\nupstreams:\n${upstreams.join('\n')}\nmodels:\n${models.join('\n')}\n`,
    environment: { KEY: CREDENTIAL },
  })
  return { upstream, app, key: app.key(), stop: async () => void (await Promise.all([upstream.stop(), app.stop()])) }
})

function strictly(
  { path, auth, fields, answer, model = 'm' }: Provider,
  { headers, bytes, json, ...seen }: Seen,
): Behaviour {
  if (seen.path !== path) return errorAnswer(404, `no ${seen.path}`)
  const sent = auth === 'api-key' ? headers['api-key'] : headers.authorization?.replace(/^Bearer /, '')
  if (sent !== (auth === 'none' ? undefined : CREDENTIAL)) return errorAnswer(401, 'wrong credential')
  const type = headers['content-type'] ?? ''
  const given: Record<string, unknown> = json ?? fromForm(bytes, type)
  const known = fields.split(' ').map((name) => name.replace('!', ''))
  const needed = fields.split(' ').flatMap((name) => (name.endsWith('!') ? [name.slice(0, -1)] : []))
  const unknown = Object.keys(given).find((name) => !known.includes(name))
  if (unknown !== undefined) return errorAnswer(400, `unknown field ${unknown}`)
  const missing = needed.find((name) => given[name] === undefined || given[name] === null)
  if (missing !== undefined) return errorAnswer(422, `no ${missing}`)
  if (known.includes('model') && given.model !== undefined && String(given.model) !== model)
    return errorAnswer(404, `no model ${given.model}`)
  return answer
}

/** By program; without the model. */
const PROGRAMS: Readonly<Record<Kind, Readonly<Record<string, Record<string, unknown>>>>> = {
  speech: {
    'Open WebUI': { input: 'Hello.', voice: 'alloy' },
    LibreChat: { input: 'Hello.', voice: 'alloy', backend: undefined },
    Dify: { input: 'Hello.', voice: 'alloy', response_format: 'mp3' },
  },
  transcriptions: { 'Open WebUI': { language: 'en' }, LibreChat: { language: 'de' } },
  images: { 'Open WebUI': { prompt: 'a cat', n: 1, response_format: 'b64_json' }, LibreChat: { prompt: 'a cat' } },
  rerank: {
    'Open WebUI': { query: 'q', documents: ['a', 'b'], top_n: 2 },
    Dify: { query: 'q', documents: ['a', 'b'], top_n: 2, return_documents: true },
  },
}
const PATHS: Readonly<Record<Kind, string>> = {
  speech: '/audio/speech',
  transcriptions: '/audio/transcriptions',
  images: '/images/generations',
  rerank: '/rerank',
}

const CASES = Object.entries(PROVIDERS).flatMap(([name, provider]) =>
  Object.entries(PROGRAMS[provider.kind]).map(([program, body]) => ({ name, provider, program, body })),
)

test.each(CASES)('$name serves $program', async ({ name, provider, body }) => {
  const { upstream, app, key } = gateway
  upstream.script((seen) => strictly(provider, seen))
  const asked = { model: `p/${toId(name)}`, ...body }
  const isForm = provider.kind === 'transcriptions'
  const fields = Object.entries(asked).map(([field, value]): Field => [field, String(value)])
  const response = await fetch(`${app.baseUrl}${PATHS[provider.kind]}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': isForm ? FORM_TYPE : 'application/json' },
    body: isForm ? toForm([...fields, ['file', toWav(1_000)]]) : JSON.stringify(asked),
  })
  if (provider.kind === 'speech') {
    const bytes = await response.bytes()
    expect([response.status, response.headers.get('content-type'), bytes]).toEqual([200, 'audio/mpeg', AUDIO])
    return
  }
  const WANTED: Readonly<Record<Exclude<Kind, 'speech'>, object>> = {
    transcriptions: { text: 'Hello.' },
    images: { data: [{ b64_json: BASE64 }] },
    rerank: { results: [{ index: 1 }, { index: 0 }] },
  }
  expect([response.status, await response.json()]).toMatchObject([200, WANTED[provider.kind]])
})
