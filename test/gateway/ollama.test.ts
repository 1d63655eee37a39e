/** Ollama by its own API: requests, answers, and no silently truncated history. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { createOllama, type OllamaTurn, ollamaError } from '../support/ollama-upstream.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { type Behaviour, wholeAnswer } from '../support/upstream-answers.ts'

let app: TestApp
let ollama: ScriptedUpstream
let large: ScriptedUpstream
let key: string
beforeAll(async () => {
  ollama = await startUpstream()
  large = await startUpstream(wholeAnswer({ tokens: ['Hi'] }))
  const facts =
    'name: M, max_output_length: 100, input_modalities: [text, image], output_modalities: [text], supported_features: [tools, reasoning]'
  app = await startApp({
    catalog: `
version: 1
upstreams:
  ollama: { dialect: ollama, base_url: "http://127.0.0.1:${ollama.port}", local: true }
  large: { dialect: openai, base_url: "${large.url}", local: true }
models:
  local/tiny: { ${facts}, context_length: 512, routes: [{ upstream: ollama, model: "tiny:1b" }] }
  local/roomy: { ${facts}, context_length: 4096, routes: [{ upstream: ollama, model: "tiny:1b" }] }
  local/embed: { name: E, context_length: 512, max_output_length: 512, input_modalities: [text], output_modalities: [embeddings], supported_features: [], routes: [{ upstream: ollama, model: embed }] }
  local/both: { ${facts}, context_length: 32768, routes: [{ upstream: ollama, model: "tiny:1b", context_length: 512 }, { upstream: large, model: big, priority: 1 }] }
`,
  })
  key = app.key()
})
afterAll(async () => {
  await Promise.all([ollama.stop(), large.stop()])
  await app.stop()
})

function play(turn: OllamaTurn | Behaviour) {
  const played = createOllama(() => turn)
  ollama.script(played.script)
  return played
}

const ask = (body: object) =>
  fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'local/tiny', messages: [{ role: 'user', content: 'Hi' }], ...body }),
  })

async function read(body: object) {
  const response = await ask(body)
  const answer = (await response.json()) as {
    choices: { message: Record<string, unknown>; finish_reason: string }[]
    usage: object
    error?: { code: string; param: string; message: string }
  }
  return { status: response.status, answer, sent: ollama.requests.at(-1)?.json ?? {} }
}

const CALL = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":"it"}' } }

test("a conversation with tools and images is sent in Ollama's format, with its route's context", async () => {
  const { refused } = play({ reasoning: 'Hm.', text: 'A cat.' })
  const parameters = { type: 'object', properties: { at: { type: 'string' } } }
  const { status, answer, sent } = await read({
    model: 'local/roomy',
    messages: [
      { role: 'developer', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is it?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [CALL] },
      { role: 'tool', tool_call_id: 'call_1', content: 'fur' },
    ],
    tools: [{ type: 'function', function: { name: 'look', parameters } }],
    ...{ max_tokens: 50, temperature: 0, stop: 'END', seed: 7, reasoning_effort: 'high' },
  })
  expect({ status, refused }).toEqual({ status: 200, refused: [] })
  expect(sent).toEqual({
    model: 'tiny:1b',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'What is it?', images: ['AAAA'] },
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ id: 'call_1', function: { name: 'look', arguments: { at: 'it' } } }],
      },
      { role: 'tool', content: 'fur', tool_name: 'look', tool_call_id: 'call_1' },
    ],
    ...{ stream: false, truncate: false, shift: false, think: true },
    tools: [{ type: 'function', function: { name: 'look', description: '', parameters } }],
    options: { num_ctx: 4096, num_predict: 50, temperature: 0, seed: 7, stop: ['END'] },
  })
  expect(answer.choices[0]).toMatchObject({
    message: { content: 'A cat.', reasoning: 'Hm.' },
    finish_reason: 'stop',
  })
  expect(answer.usage).toMatchObject({ prompt_tokens: 40, completion_tokens: 12 })
})

test('a schema is sent as the format, and JSON mode as a word', async () => {
  play({ text: '{"a":1}' })
  const schema = { type: 'object', properties: { a: { type: 'integer' } } }
  const asked = await read({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } })
  expect(asked.sent).toMatchObject({ format: schema, messages: [{ content: 'Hi' }] })
  expect((await read({ response_format: { type: 'json_object' } })).sent).toMatchObject({ format: 'json' })
})

test('a stream of lines has text, calls, and usage', async () => {
  play({ reasoning: 'Let me look at it.', text: 'One moment, please.', calls: [{ name: 'look', input: { at: '🐈' } }] })
  const tools = [{ type: 'function', function: { name: 'look' } }]
  const response = await ask({ stream: true, stream_options: { include_usage: true }, tools })
  const frames = (await response.text()).split('\n\n').filter((frame) => frame.startsWith('data: {'))
  const chunks = frames.map((frame) => JSON.parse(frame.slice(6)))
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }: { delta: Record<string, unknown> }) => delta))
  expect(deltas.map(({ content }) => content ?? '').join('')).toBe('One moment, please.')
  expect(deltas.map(({ reasoning }) => reasoning ?? '').join('')).toBe('Let me look at it.')
  const called = deltas.flatMap(({ tool_calls }) => tool_calls ?? []) as { function: { arguments?: string } }[]
  expect(called.map((call) => call.function.arguments ?? '').join('')).toBe('{"at":"🐈"}')
  expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('tool_calls')
  expect(chunks.at(-1)?.usage).toMatchObject({ prompt_tokens: 40, completion_tokens: 12 })
})

test('a history that would be truncated is rejected, or goes to a larger route', async () => {
  play({ text: 'I have read all of it.' })
  // Fewer tokens than fit by Tollgate's count, so that Ollama itself has to refuse.
  const messages = Array.from({ length: 41 }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: 'aaaa aaaa '.repeat(5),
  }))
  const { status, answer } = await read({ messages })
  expect(status).toBe(400)
  expect(answer.error).toMatchObject({ code: 'context_length_exceeded', param: 'messages' })
  expect(answer.error?.message).toContain('maximum context length is 512 tokens')
  const other = await ask({ model: 'local/both', messages })
  expect([other.status, other.headers.get('x-tollgate-upstream')]).toEqual([200, 'large'])
})

test.each<[string, Behaviour, number]>([
  [
    'a full line is no failure of its own',
    ollamaError(503, 'server busy, please try again.  maximum pending requests exceeded'),
    503,
  ],
  ['a model that is not there is the catalogue’s fault', ollamaError(404, "model 'tiny:1b' not found"), 502],
  [
    'a failure within a stream is one',
    {
      kind: 'stream',
      headers: { 'content-type': 'application/x-ndjson' },
      steps: ['{"error":"an error was encountered while running the model"}\n'],
      end: 'eof',
    },
    502,
  ],
  [
    'a stream that ends without its end has failed',
    {
      kind: 'stream',
      headers: { 'content-type': 'application/x-ndjson' },
      steps: ['{"message":{"role":"assistant","content":""},"done":false}\n'],
      end: 'eof',
    },
    502,
  ],
])('%s', async (_, answer, status) => {
  play(answer)
  const response = await ask({ stream: answer.kind === 'stream' })
  expect(response.status).toBe(status)
  await response.text()
})

test('an unsupported field is rejected with its path, without a call', async () => {
  play({ text: 'Hi' })
  const before = ollama.requests.length
  const picture = { type: 'image_url', image_url: { url: 'https://example.com/cat.png' } }
  const { status, answer } = await read({ model: 'local/roomy', messages: [{ role: 'user', content: [picture] }] })
  expect([status, answer.error?.param]).toEqual([400, 'messages[0].content[0].image_url.url'])
  expect(ollama.requests.length).toBe(before)
})

test('embeddings accept only texts, and truncate none', async () => {
  ollama.script({
    kind: 'whole',
    body: {
      model: 'embed',
      embeddings: [
        [0.5, -1],
        [2, 3],
      ],
      prompt_eval_count: 7,
    },
  })
  const response = await fetch(`${app.baseUrl}/embeddings`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'local/embed', input: ['a', 'b'] }),
  })
  expect(await response.json()).toMatchObject({
    data: [{ embedding: [0.5, -1] }, { embedding: [2, 3] }],
    usage: { prompt_tokens: 7 },
  })
  const { path, json } = ollama.requests.at(-1) ?? {}
  expect({ path, json }).toEqual({ path: '/api/embed', json: { model: 'embed', input: ['a', 'b'], truncate: false } })
})
