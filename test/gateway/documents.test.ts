/** Documents and images by URL or file ID: each dialect sends them, or refuses them by name. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { errorAnswer } from '../support/upstream-answers.ts'

const DIALECTS = ['openai', 'anthropic', 'gemini', 'ollama'] as const
type Dialect = (typeof DIALECTS)[number]

let upstream: ScriptedUpstream
let app: TestApp
let key: string
beforeAll(async () => {
  upstream = await startUpstream(errorAnswer(400))
  const model = (dialect: Dialect) =>
    `acme/${dialect}: { name: M, context_length: 8192, max_output_length: 1000, input_modalities: [text, image, file], output_modalities: [text], supported_features: [tools], pricing: [{ prompt: "0.000001", completion: "0.000001" }], routes: [{ upstream: ${dialect}, model: m } ] }`
  app = await startApp({
    catalog: `
version: 1
upstreams:
${DIALECTS.map((dialect) => `  ${dialect}: { dialect: ${dialect}, base_url: "${upstream.url}" }`).join('\n')}
models:
${DIALECTS.map((dialect) => `  ${model(dialect)}`).join('\n')}
`,
  })
  key = app.key()
})
afterAll(async () => {
  await upstream.stop()
  await app.stop()
})

const PDF = 'https://example.com/a.pdf'
const PNG = 'https://example.com/a.png'
const GEMINI_PDF = { fileData: { mimeType: 'application/pdf', fileUri: PDF } }
const CLAUDE_PDF = { type: 'document', source: { type: 'url', url: PDF } }
const STORED = { type: 'file', file_id: 'file-1' }

const document = (source: object) => ({ type: 'document', source })
const inMessages = (part: object) => ['messages', { max_tokens: 9, messages: [{ role: 'user', content: [part] }] }]
const inResult = (part: object) => {
  const call = { type: 'tool_use', id: 't1', name: 'f', input: {} }
  const result = { type: 'tool_result', tool_use_id: 't1', content: [part] }
  const messages = [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: [call] },
    { role: 'user', content: [result] },
  ]
  return ['messages', { max_tokens: 9, messages }]
}
const inChat = (part: object) => ['chat/completions', { messages: [{ role: 'user', content: [part] }] }]
const inResponses = (part: object) => ['responses', { input: [{ role: 'user', content: [part] }] }]

/** The body each upstream receives; a text: the path in the client's 400. */
type Outcome = object | string
const toImage = { gemini: { fileData: { mimeType: 'image/png', fileUri: PNG } }, ollama: 'messages[0].content[0]' }

test.each<[string, unknown[], Partial<Record<Dialect, Outcome>>]>([
  [
    'a document of the Messages API',
    inMessages(document({ type: 'url', url: PDF })),
    {
      gemini: GEMINI_PDF,
      ollama: 'messages[0].content[0]',
      openai: { file: { filename: 'document.pdf', file_url: PDF } },
    },
  ],
  [
    'one that a tool answered with',
    inResult(document({ type: 'url', url: PDF })),
    { gemini: GEMINI_PDF, ollama: 'messages[3].content[0]' },
  ],
  ['an image of the Messages API', inMessages({ type: 'image', source: { type: 'url', url: PNG } }), toImage],
  [
    'one that is stored',
    inMessages(document(STORED)),
    { openai: 'file_id', anthropic: 'file_id', gemini: 'file_id', ollama: 'file_id' },
  ],
  [
    'a file of the chat API, by file_url',
    inChat({ type: 'file', file: { file_url: PDF } }),
    { gemini: GEMINI_PDF, anthropic: CLAUDE_PDF, ollama: 'messages[0].content[0]' },
  ],
  [
    'by file_data',
    inChat({ type: 'file', file: { file_data: PDF } }),
    { gemini: GEMINI_PDF, anthropic: CLAUDE_PDF, openai: { file: { file_data: PDF } } },
  ],
  [
    'in storage that only its owner reads',
    inChat({ type: 'file', file: { file_url: 'gs://bucket/a.pdf' } }),
    { gemini: 'messages[0].content[0]', anthropic: 'messages[0].content[0]' },
  ],
  ['an image of the chat API', inChat({ type: 'image_url', image_url: { url: PNG } }), toImage],
  [
    'a file of the Responses API',
    inResponses({ type: 'input_file', file_url: PDF }),
    { gemini: GEMINI_PDF, anthropic: CLAUDE_PDF, ollama: 'input' },
  ],
])('%s is sent by its URL, or rejected by name', async (_, [path, body], outcomes) => {
  for (const dialect of DIALECTS) {
    const outcome = outcomes[dialect]
    if (outcome === undefined) continue
    const before = upstream.requests.length
    const response = await fetch(`${app.baseUrl}/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: `acme/${dialect}`, ...(body as object) }),
    })
    const text = await response.text()
    const sent = upstream.requests.slice(before).map((each) => each.body)
    if (typeof outcome === 'string') {
      expect([dialect, response.status, sent]).toEqual([dialect, 400, []])
      expect(text).toContain(outcome)
    } else expect(sent.join()).toContain(JSON.stringify(outcome).slice(1, -1))
  }
})
