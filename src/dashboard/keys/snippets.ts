/** How clients use a key, ready to be copied: what is here works as it stands. Pure. */

export interface Access {
  /** Ends in `/v1`. */
  baseUrl: string
  secret: string
  /** One that the key may use. */
  model: string
}

export interface Snippet {
  title: string
  text: string
}

export const toSnippets = (access: Access): Snippet[] => [
  { title: 'curl', text: toCurl(access) },
  { title: 'TypeScript', text: toTypeScript(access) },
  { title: 'Python', text: toPython(access) },
  { title: 'Open WebUI', text: toOpenWebUi(access) },
  { title: 'Environment', text: toEnvironment(access) },
]

/** For a shell. */
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

function toCurl({ baseUrl, secret, model }: Access): string {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] })
  return [
    `curl -N ${baseUrl}/chat/completions \\`,
    `  -H ${quote(`Authorization: Bearer ${secret}`)} \\`,
    "  -H 'Content-Type: application/json' \\",
    `  -d ${quote(body)}`,
  ].join('\n')
}

const toTypeScript = ({ baseUrl, secret, model }: Access) => `// npm install openai
import OpenAI from 'openai'

const client = new OpenAI({
  baseURL: '${baseUrl}',
  apiKey: '${secret}',
})
const stream = await client.chat.completions.create({
  model: ${JSON.stringify(model)},
  messages: [{ role: 'user', content: 'Hello' }],
  stream: true,
})
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '')
`

const toPython = ({ baseUrl, secret, model }: Access) => `# pip install openai
from openai import OpenAI

client = OpenAI(
    base_url="${baseUrl}",
    api_key="${secret}",
)
stream = client.chat.completions.create(
    model=${JSON.stringify(model)},
    messages=[{"role": "user", "content": "Hello"}],
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
`

const toOpenWebUi = ({ baseUrl, secret }: Access) =>
  [
    '# pip install open-webui',
    '# Read when it starts for the first time. Later: Admin Panel, Settings, Connections',
    `OPENAI_API_BASE_URL=${baseUrl} \\`,
    `OPENAI_API_KEY=${secret} \\`,
    'open-webui serve',
  ].join('\n')

const toEnvironment = ({ baseUrl, secret }: Access) =>
  [
    '# Read by the official clients, and by most others',
    `export OPENAI_BASE_URL=${baseUrl}`,
    `export OPENAI_API_KEY=${secret}`,
  ].join('\n')
