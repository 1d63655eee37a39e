/** Snippets for clients, with the real URL and key, ready to run. They depend on the model's task. */
import { endpointsOf } from '../../domain/models.ts'
import { EXAMPLES, toEndpointSnippets } from '../snippets/endpoints.ts'
import {
  type Access,
  SCRIPT,
  type Snippet,
  toClaudeCode,
  toCodex,
  toCurl,
  toGeminiCli,
  toGeminiPython,
  toGeminiTypeScript,
  toPython,
  toTypeScript,
} from '../snippets/snippets.ts'

/** @param made the model's output modalities */
export function toSnippets(access: Access, made: readonly string[] = ['text']): Snippet[] {
  const { baseUrl, secret, model } = access
  const [endpoint = 'chat'] = endpointsOf(made)
  if (endpoint === 'realtime')
    return [
      { title: 'TypeScript', text: toRealtime(access) },
      { title: 'Environment', text: toEnvironment(access) },
    ]
  if (endpoint !== 'chat')
    return [
      ...toEndpointSnippets({ endpoint, baseUrl, secret, fields: { model, ...EXAMPLES[endpoint] } }),
      { title: 'Environment', text: toEnvironment(access) },
    ]
  const call = { baseUrl, secret, body: { model, messages: [{ role: 'user', content: 'Hello' }], stream: true } }
  return [
    { title: 'curl', text: toCurl(call) },
    { title: 'TypeScript', text: toTypeScript(call) },
    { title: 'Python', text: toPython(call) },
    { title: 'Claude Code', text: toClaudeCode(access) },
    { title: 'Codex', text: toCodex(access) },
    { title: 'Gemini CLI', text: toGeminiCli(access) },
    { title: '@google/genai', text: toGeminiTypeScript(access) },
    { title: 'google-genai', text: toGeminiPython(access) },
    { title: 'Open WebUI', text: toOpenWebUi(access) },
    { title: 'Environment', text: toEnvironment(access) },
  ]
}

const toRealtime = ({ baseUrl, secret, model }: Access) => `// npm install openai ws
// The library needs HTTPS.
import OpenAI from 'openai'
import { OpenAIRealtimeWS } from 'openai/realtime/ws'

const client = new OpenAI({
  baseURL: ${SCRIPT.text(baseUrl)},
  apiKey: ${SCRIPT.text(secret)},
})
const session = new OpenAIRealtimeWS({ model: ${SCRIPT.text(model)} }, client)
session.on('session.created', () => session.send({ type: 'response.create' }))
session.on('event', (event) => console.log(event.type))
session.on('error', (error) => console.error(error.message))
`

const toOpenWebUi = ({ baseUrl, secret }: Access) =>
  [
    '# pip install open-webui',
    '# Read on first start only. Later: Admin Panel, Settings, Connections',
    `OPENAI_API_BASE_URL=${baseUrl} \\`,
    `OPENAI_API_KEY=${secret} \\`,
    'open-webui serve',
  ].join('\n')

const toEnvironment = ({ baseUrl, secret }: Access) => {
  const root = baseUrl.replace(/\/v1$/, '')
  return [
    '# Read by the official SDKs and most other clients',
    `export OPENAI_BASE_URL=${baseUrl}`,
    `export OPENAI_API_KEY=${secret}`,
    `export ANTHROPIC_BASE_URL=${root}`,
    `export ANTHROPIC_AUTH_TOKEN=${secret}`,
    `export GOOGLE_GEMINI_BASE_URL=${root}`,
    `export GEMINI_API_KEY=${secret}`,
  ].join('\n')
}
