/** Snippets for clients, with the real URL and key, ready to run. */
import { type Snippet, toClaudeCode, toCodex, toCurl, toPython, toTypeScript } from '../snippets/snippets.ts'

interface Access {
  /** Ends in `/v1`. */
  baseUrl: string
  secret: string

  model: string
}

export function toSnippets(access: Access): Snippet[] {
  const { baseUrl, secret, model } = access
  const call = { baseUrl, secret, body: { model, messages: [{ role: 'user', content: 'Hello' }], stream: true } }
  return [
    { title: 'curl', text: toCurl(call) },
    { title: 'TypeScript', text: toTypeScript(call) },
    { title: 'Python', text: toPython(call) },
    { title: 'Claude Code', text: toClaudeCode(access) },
    { title: 'Codex', text: toCodex(access) },
    { title: 'Open WebUI', text: toOpenWebUi(access) },
    { title: 'Environment', text: toEnvironment(access) },
  ]
}

const toOpenWebUi = ({ baseUrl, secret }: Access) =>
  [
    '# pip install open-webui',
    '# Read on first start only. Later: Admin Panel, Settings, Connections',
    `OPENAI_API_BASE_URL=${baseUrl} \\`,
    `OPENAI_API_KEY=${secret} \\`,
    'open-webui serve',
  ].join('\n')

const toEnvironment = ({ baseUrl, secret }: Access) =>
  [
    '# Read by the official SDKs and most other clients',
    `export OPENAI_BASE_URL=${baseUrl}`,
    `export OPENAI_API_KEY=${secret}`,
  ].join('\n')
