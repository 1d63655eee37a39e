/** Gemini's own API: Google's SDK with every kind of upstream, both ways to stream, and unsupported requests. */
import { beforeEach, expect, test } from 'bun:test'
import { type Content, type GenerateContentParameters, GoogleGenAI } from '@google/genai'
import { DOORS, type Door, startDoors } from '../support/doors.ts'
import { forAllTests } from '../support/lifetime.ts'
import { ENVELOPE, toDelta, wholeAnswer } from '../support/upstream-answers.ts'

const gateway = forAllTests(() => startDoors({ features: '[tools, reasoning, json_mode, structured_outputs]' }))
const doorOf = (id: string) => DOORS.find((door) => door.id === id) as Door
const [native, chat] = [doorOf('gemini-gemini'), doorOf('gemini-chat')]
beforeEach(() => gateway.calm(chat))

const MODEL = 'gemini-chat/one'
const HELLO = { model: MODEL, contents: 'Hello' }
const clientOf = (apiVersion?: string) =>
  new GoogleGenAI({
    apiKey: gateway.app.key(),
    httpOptions: { baseUrl: gateway.app.origin, ...(apiVersion ? { apiVersion } : {}) },
  })
const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(`${gateway.app.origin}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
const keyed = () => ({ 'x-goog-api-key': gateway.app.key() })
const sent = () => JSON.parse(gateway.near.requests.at(-1)?.body ?? 'null')

test.each([undefined, 'v1beta'])(
  "Google's SDK, API version %p, generates, streams, counts, and lists",
  async (version) => {
    const { models } = clientOf(version)
    expect((await models.generateContent(HELLO)).text).toBe('one two ')
    let text = ''
    for await (const chunk of await models.generateContentStream(HELLO)) text += chunk.text ?? ''
    expect(text).toBe('one two ')
    expect((await models.countTokens(HELLO)).totalTokens).toBeGreaterThan(0)
    expect((await models.get({ model: MODEL })).name).toBe(`models/${MODEL}`)
    const listed = await Array.fromAsync(await models.list())
    expect(listed.map(({ name }) => name)).toContain(`models/${MODEL}`)
    const methodsOf = (id: string) => listed.find(({ name }) => name === `models/${id}`)?.supportedActions
    expect(['speech-speech/one', 'embeddings-embeddings/one', MODEL].map(methodsOf)).toEqual([
      // No method of this API can call it.
      ...[undefined, ['embedContent']],
      ['generateContent', 'countTokens'],
    ])
    const embeddings = doorOf('embeddings-embeddings')
    await gateway.calm(embeddings)
    const embedded = await models.embedContent({ model: `${embeddings.id}/one`, contents: 'Hello' })
    expect(embedded).toMatchObject({ embeddings: [{ values: [0.5, 0.25] }] })
  },
)

test("a conversation with a tool, an instruction, and a schema becomes a chat upstream's, and its call returns", async () => {
  const call = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":"sky"}' } }
  const steps = [
    toDelta({ reasoning_content: 'Hm.' }),
    toDelta({ tool_calls: [{ index: 0, ...call }] }),
    { ...ENVELOPE, choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
  ]
  gateway.near.script({ kind: 'stream', steps, end: 'done' })
  const request: GenerateContentParameters = {
    model: MODEL,
    contents: [{ role: 'user', parts: [{ text: 'Look' }, { inlineData: { mimeType: 'image/png', data: 'AAAA' } }] }],
    config: {
      systemInstruction: 'Be brief.',
      maxOutputTokens: 50,
      stopSequences: ['.'],
      thinkingConfig: { includeThoughts: true },
      tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: { type: 'object', properties: {} } }] }],
    },
  }
  const { models } = clientOf()
  const parts = []
  for await (const { candidates } of await models.generateContentStream({ ...request, contents: 'Look' }))
    parts.push(...(candidates?.[0]?.content?.parts ?? []))
  const [thought, called] = parts
  expect(thought).toMatchObject({ text: 'Hm.', thought: true })
  expect(called).toMatchObject({ functionCall: { id: 'c1', name: 'look', args: { at: 'sky' } } })
  gateway.near.script(wholeAnswer())
  const history: Content[] = [
    { role: 'user', parts: [{ text: 'Look' }] },
    { role: 'model', parts },
    { role: 'user', parts: [{ functionResponse: { name: 'look', response: { output: 'blue' } } }] },
  ]
  await models.generateContent({ ...request, contents: history })
  expect(sent()).toMatchObject({
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Look' },
      { role: 'assistant', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c1', content: 'blue' },
    ],
    tools: [{ type: 'function', function: { name: 'look' } }],
    max_tokens: 50,
    stop: ['.'],
  })
})

test('names in snake case work, too, and both forms of one are rejected', async () => {
  const contents = [{ parts: [{ text: 'Hi' }] }]
  const path = `/v1beta/models/${MODEL}:generateContent`
  const body = { contents, system_instruction: { parts: [{ text: 'Be brief.' }] }, generation_config: { top_p: 0.5 } }
  expect((await post(path, body, keyed())).status).toBe(200)
  expect(sent()).toMatchObject({ messages: [{ role: 'system', content: 'Be brief.' }, {}], top_p: 0.5 })
  const twice = await post(path, { ...body, generationConfig: {} }, keyed())
  expect([twice.status, await twice.json()]).toMatchObject([400, { error: { status: 'INVALID_ARGUMENT' } }])
})

test.each([native, chat])('$name without alt=sse streams one JSON array', async (door) => {
  await gateway.calm(door)
  const path = `/v1beta/models/models%2F${encodeURIComponent(door.id)}%2fone:streamGenerateContent`
  const response = await post(`${path}?key=${gateway.app.key()}`, door.client.body({}))
  expect(response.headers.get('content-type')).toStartWith('application/json')
  const chunks = (await response.json()) as { candidates: { finishReason?: string }[]; modelVersion: string }[]
  expect(chunks.at(-1)).toMatchObject({ candidates: [{ finishReason: 'STOP' }], modelVersion: `${door.id}/one` })
  expect(gateway.near.requests.at(-1)?.path).not.toContain('key=')
})

test('passthrough sends all fields, caps the output, and rejects stored data and fees', async () => {
  await gateway.calm(native)
  const path = '/v1beta/models/gemini-gemini/one:generateContent'
  const contents = [{ role: 'user', parts: [{ text: 'Hi', thoughtSignature: 'QUJD' }] }]
  const ask = (more: object) => post(path, { contents, ...more }, keyed())
  const settings = { safetySettings: [{ category: 'HARM', threshold: 'OFF' }], generationConfig: { topK: 7 } }
  expect((await ask(settings)).status).toBe(200)
  expect(sent()).toEqual({ contents, ...settings })
  for (const more of [
    { cachedContent: 'cachedContents/a' },
    { tools: [{ googleSearch: {} }] },
    { tools: [{ codeExecution: {} }] },
    { contents: [{ parts: [{ fileData: { fileUri: 'https://generativelanguage.googleapis.com/v1beta/files/a' } }] }] },
  ]) {
    const refused = await ask(more)
    expect([more, refused.status]).toEqual([more, 400])
    expect(await refused.json()).toMatchObject({ error: { details: [{ reason: 'UNSUPPORTED_PARAMETER' }] } })
  }
})

test('a blocked prompt, and a response without candidates', async () => {
  await gateway.calm(native)
  const path = '/v1beta/models/gemini-gemini/one:generateContent'
  const contents = [{ parts: [{ text: 'Hi' }] }]
  const promptFeedback = { blockReason: 'SAFETY' }
  gateway.near.script({ kind: 'whole', body: { promptFeedback, usageMetadata: { promptTokenCount: 4 } } })
  const blocked = await post(path, { contents }, keyed())
  expect([blocked.status, await blocked.json()]).toMatchObject([200, { promptFeedback }])
  gateway.near.script({ kind: 'whole', body: { usageMetadata: { promptTokenCount: 4 } } })
  expect((await post(path, { contents }, keyed())).status).toBe(502)
})

test('the error for an unsupported method lists the supported ones', async () => {
  const response = await post(`/v1beta/models/${MODEL}:predict`, {}, keyed())
  const { error } = (await response.json()) as { error: { message: string } }
  expect([response.status, error.message]).toEqual([
    404,
    expect.stringMatching(/^The method `predict` is not supported\. Use generateContent, .*embedContent/),
  ])
})

test.each(['/v1beta', '/v1'])('a method below %s is called by POST', async (version) => {
  const url = `${gateway.app.origin}${version}/models/${MODEL}:generateContent`
  const response = await fetch(url, { headers: keyed() })
  expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
})

test.each([
  ['/v1beta/models/a:foo', '{}', 404],
  ['/v1beta/models/:generateContent', '{}', 404],
  ['/v1beta/models/%ff:generateContent', '{}', 404],
  ['/v1beta/models/..%2F..%2Fetc%2Fpasswd:generateContent', '{"contents":[{"parts":[{"text":"a"}]}]}', 404],
  [`/v1beta/models/${MODEL}:generateContent`, '{"contents":[]}', 400],
  [`/v1beta/models/${MODEL}:generateContent`, `{"contents":${'['.repeat(300)}${']'.repeat(300)}}`, 400],
  [
    `/v1beta/models/${MODEL}:generateContent`,
    '{"contents":[{"parts":[{"functionCall":{"name":"a"}}],"role":"model"}]}',
    400,
  ],
  [`/v1beta/models/${MODEL}:generateContent`, JSON.stringify({ contents: Array(70_000).fill({ parts: [] }) }), 400],
  [`/v1beta/models/${MODEL}:batchEmbedContents`, '{"requests":[]}', 400],
])("%s with %.40s fails in Google's format with %d", async (path, body, status) => {
  const response = await post(path, body, keyed())
  expect([response.status, await response.json()]).toMatchObject([status, { error: { code: status } }])
})
