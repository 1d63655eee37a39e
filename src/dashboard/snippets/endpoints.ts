/** Code that sends a request other than a chat. Every snippet was tested unchanged. */
import type { JsonObject } from '../../domain/json.ts'
import type { OtherEndpoint } from '../../domain/task.ts'
import { JSON_TEXT, PYTHON, quote, SCRIPT, type Snippet, toLiteral } from './snippets.ts'

interface EndpointCall {
  endpoint: OtherEndpoint
  /** Ends in `/v1`. */
  baseUrl: string
  secret: string
  /** Fields, including `model`. */
  fields: Readonly<JsonObject>
  /** Name of the file, for endpoints that take one; default: an example. */
  file?: string | undefined
}

interface Spoken {
  /** Below `/v1`. */
  path: string
  /** The libraries' method; null if they have none. */
  method: string | null
  /** Code that uses `result`. */
  python: readonly string[]
  /** True if it also works with the JSON of a plain `fetch`. */
  script: readonly string[]
  /** True for a multipart form. */
  file?: { field: string; example: string; isTyped?: true }
  /** The response is a file of this name. */
  saved?: (fields: Readonly<JsonObject>) => string
}

const HEARD: Pick<Spoken, 'python' | 'script' | 'file'> = {
  ...{
    file: { field: 'file', example: 'speech.mp3' },
    python: ['print(result.text)'],
    script: ['console.log(result.text)'],
  },
}

const PICTURES: Pick<Spoken, 'python' | 'script'> = {
  python: [
    'for at, image in enumerate(result.data, 1):',
    '    if image.b64_json:',
    '        open(f"image-{at}.png", "wb").write(base64.b64decode(image.b64_json))',
    '    else:',
    '        print(image.url)',
  ],
  script: [
    'for (const [at, image] of result.data.entries()) {',
    "  if (image.b64_json) await writeFile('image-' + (at + 1) + '.png', Buffer.from(image.b64_json, 'base64'))",
    '  else console.log(image.url)',
    '}',
  ],
}

const CALLS: Readonly<Record<OtherEndpoint, Spoken>> = {
  speech: {
    path: '/audio/speech',
    method: 'audio.speech.create',
    saved: ({ response_format: format }) => `speech.${typeof format === 'string' ? format : 'mp3'}`,
    python: [],
    script: [],
  },
  transcriptions: { path: '/audio/transcriptions', ...HEARD, method: 'audio.transcriptions.create' },
  translations: { path: '/audio/translations', ...HEARD, method: 'audio.translations.create' },
  images: { path: '/images/generations', ...PICTURES, method: 'images.generate' },
  image_edits: {
    path: '/images/edits',
    ...{ ...PICTURES, method: 'images.edit', file: { field: 'image', example: 'image.png', isTyped: true } },
  },
  rerank: {
    path: '/rerank',
    method: null,
    python: ['for found in result["results"]:', '    print(found["relevance_score"], found["index"])'],
    script: ['for (const { index, relevance_score } of result.results) console.log(relevance_score, index)'],
  },
  moderations: {
    path: '/moderations',
    method: 'moderations.create',
    python: ['print(result.results[0].flagged)'],
    script: ['console.log(result.results[0].flagged)'],
  },
  embeddings: {
    path: '/embeddings',
    method: 'embeddings.create',
    python: ['print(result.data[0].embedding[:3])'],
    script: ['console.log(result.data[0].embedding.slice(0, 3))'],
  },
}

/** Fields of an example request, without the model. */
export const EXAMPLES: Readonly<Record<OtherEndpoint, JsonObject>> = {
  speech: { input: 'Hello there!', voice: 'alloy' },
  transcriptions: {},
  translations: {},
  images: { prompt: 'A lighthouse at dawn' },
  image_edits: { prompt: 'Make it night' },
  rerank: { query: 'What is a gateway?', documents: ['A gateway is a door.', 'Rain is water.'] },
  moderations: { input: 'Hello' },
  embeddings: { input: ['Hello', 'Good morning'] },
}
export const exampleFile = (endpoint: OtherEndpoint): string => CALLS[endpoint].file?.example ?? ''

export const toEndpointSnippets = (call: EndpointCall): Snippet[] => [
  { title: 'curl', text: toCurl(call) },
  { title: 'TypeScript', text: toTypeScript(call) },
  { title: 'Python', text: toPython(call) },
  { title: 'JavaScript', text: toJavaScript(call) },
]

/** Fields, and the name of the file to send. */
function toSent({ endpoint, file: chosen }: EndpointCall) {
  const { file, ...spoken } = CALLS[endpoint]
  const name = chosen ?? exampleFile(endpoint)
  return {
    ...spoken,
    file: file ? { ...file, name } : null,
    writes: spoken.saved !== undefined || spoken.script === PICTURES.script,
  }
}

/** In `-F`, `@` and `<` read a file, `;` begins options, and quotes may surround a value. */
const MEANS_MORE = /^[@<"]|;/

const toCurlName = (name: string) => (/[,;"]/.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name)

function toCurl(call: EndpointCall): string {
  const { endpoint, baseUrl, secret, fields } = call
  const { file, saved } = toSent(call)
  const form = Object.entries(fields).map(
    ([name, value]) => `${MEANS_MORE.test(String(value)) ? '--form-string' : '-F'} ${quote(`${name}=${value}`)}`,
  )
  return [
    `curl ${baseUrl}${CALLS[endpoint].path}`,
    `-H ${quote(`Authorization: Bearer ${secret}`)}`,
    ...(file
      ? [...form, `-F ${quote(`${file.field}=@${toCurlName(file.name)}`)}`]
      : ["-H 'Content-Type: application/json'", `-d ${quote(toLiteral(fields, JSON_TEXT))}`]),
    ...(saved ? [`-o ${quote(saved(fields))}`] : []),
  ].join(' \\\n  ')
}

function toPython(call: EndpointCall): string {
  const { endpoint, baseUrl, secret, fields } = call
  const { method, python, file, saved } = toSent(call)
  const args = Object.entries(fields).map(([name, value]) => `${name}=${toLiteral(value, PYTHON, '    ')}`)
  if (file) args.push(`${file.field}=open(${PYTHON.text(file.name)}, "rb")`)
  const posted = [PYTHON.text(CALLS[endpoint].path), `body=${toLiteral(fields, PYTHON, '    ')}`, 'cast_to=object']
  const given = (method === null ? posted : args).map((arg) => `    ${arg},\n`).join('')
  const asked = saved
    ? `with client.${method?.replace(/\.create$/, '.with_streaming_response.create')}(
${given}) as response:
    response.stream_to_file(${PYTHON.text(saved(fields))})`
    : `result = client.${method ?? 'post'}(\n${given})\n${python.join('\n')}`
  return `# pip install openai
${python === PICTURES.python ? 'import base64\n\n' : ''}from openai import OpenAI

client = OpenAI(
    base_url=${PYTHON.text(baseUrl)},
    api_key=${PYTHON.text(secret)},
)
${asked}
`
}

const WRITES = "import { writeFile } from 'node:fs/promises'\n"
const toWrite = (name: string, response: string) =>
  `await writeFile(${SCRIPT.text(name)}, Buffer.from(await ${response}.arrayBuffer()))`

function toTypeScript(call: EndpointCall): string {
  const { endpoint, baseUrl, secret, fields } = call
  const { method, script, file, saved, writes } = toSent(call)
  const args = Object.entries(fields).map(([name, value]) => `${SCRIPT.key(name)}${toLiteral(value, SCRIPT, '  ')}`)
  if (file) {
    const stream = `createReadStream(${SCRIPT.text(file.name)})`
    args.push(`${file.field}: ${file.isTyped ? `await toFile(${stream}, null, ${toType(file.name)})` : stream}`)
  }
  const posted = `post(${SCRIPT.text(CALLS[endpoint].path)}, {\n  body: ${toLiteral(fields, SCRIPT, '  ')},\n})`
  const asked = method === null ? posted : `${method}({\n${args.map((arg) => `  ${arg},\n`).join('')}})`
  return `// npm install openai
${file ? "import { createReadStream } from 'node:fs'\n" : ''}${writes ? WRITES : ''}import OpenAI${file?.isTyped ? ', { toFile }' : ''} from 'openai'

const client = new OpenAI({
  baseURL: ${SCRIPT.text(baseUrl)},
  apiKey: ${SCRIPT.text(secret)},
})
const result${method === null ? ': any' : ''} = await client.${asked}
${saved ? toWrite(saved(fields), 'result') : script.join('\n')}
`
}

function toJavaScript(call: EndpointCall): string {
  const { endpoint, baseUrl, secret, fields } = call
  const { script, file, saved, writes } = toSent(call)
  const append = ([name, value]: [string, unknown]) =>
    `body.append(${SCRIPT.text(name)}, ${SCRIPT.text(String(value))})\n`
  const blob = file && `openAsBlob(${SCRIPT.text(file.name)}${file.isTyped ? `, ${toType(file.name)}` : ''})`
  return `// Node, Bun, or Deno; no library needed
${file ? "import { openAsBlob } from 'node:fs'\n" : ''}${writes ? WRITES : ''}
${
  file
    ? `const body = new FormData()
${Object.entries(fields).map(append).join('')}body.append('${file.field}', await ${blob}, ${SCRIPT.text(file.name)})
`
    : ''
}const response = await fetch(${SCRIPT.text(`${baseUrl}${CALLS[endpoint].path}`)}, {
  method: 'POST',
  headers: { authorization: ${SCRIPT.text(`Bearer ${secret}`)}${file ? '' : ", 'content-type': 'application/json'"} },
  ${file ? 'body' : `body: JSON.stringify(${toLiteral(fields, SCRIPT, '  ')})`},
})
if (!response.ok) throw new Error(await response.text())
${saved ? toWrite(saved(fields), 'response') : `const result = await response.json()\n${script.join('\n')}`}
`
}

/** Providers accept images only with their media type. */
const toType = (name: string) =>
  `{ type: 'image/${name.split('.').at(-1)?.toLowerCase().replace('jpg', 'jpeg') ?? 'png'}' }`
