/** Code that sends a request other than a chat. All were run as they are. */
import type { JsonObject } from '../../domain/json.ts'
import { ENDPOINT_PATHS, type OtherEndpoint } from '../../domain/task.ts'
import { JSON_TEXT, PYTHON, quote, SCRIPT, type Snippet, toLiteral } from './snippets.ts'

interface EndpointCall {
  endpoint: OtherEndpoint
  /** Ends in `/v1`. */
  baseUrl: string
  secret: string
  /** With `model`. */
  fields: Readonly<JsonObject>
  /** Name of the file, for endpoints that take one. */
  file: string
}

interface Spoken {
  /** The libraries' method; null: they have none. */
  method: string | null
  /** What is done with `result`. */
  python: readonly string[]
  /** Also with the JSON of a plain `fetch`. */
  script: readonly string[]
  isForm?: true
  /** The response is a file of this name. */
  saved?: (fields: Readonly<JsonObject>) => string
}

const HEARD: Pick<Spoken, 'python' | 'script' | 'isForm'> = {
  ...{ isForm: true, python: ['print(result.text)'], script: ['console.log(result.text)'] },
}

const CALLS: Readonly<Record<OtherEndpoint, Spoken>> = {
  speech: {
    method: 'audio.speech.create',
    saved: ({ response_format: format }) => `speech.${typeof format === 'string' ? format : 'mp3'}`,
    python: [],
    script: [],
  },
  transcriptions: { ...HEARD, method: 'audio.transcriptions.create' },
  translations: { ...HEARD, method: 'audio.translations.create' },
  images: {
    method: 'images.generate',
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
  },
  rerank: {
    method: null,
    python: ['for found in result["results"]:', '    print(found["relevance_score"], found["index"])'],
    script: ['for (const { index, relevance_score } of result.results) console.log(relevance_score, index)'],
  },
  moderations: {
    method: 'moderations.create',
    python: ['print(result.results[0].flagged)'],
    script: ['console.log(result.results[0].flagged)'],
  },
  embeddings: {
    method: 'embeddings.create',
    python: ['print(result.data[0].embedding[:3])'],
    script: ['console.log(result.data[0].embedding.slice(0, 3))'],
  },
}

/** Fields of a first request, without the model. */
export const EXAMPLES: Readonly<Record<OtherEndpoint, JsonObject>> = {
  speech: { input: 'Hello there!', voice: 'alloy' },
  transcriptions: {},
  translations: {},
  images: { prompt: 'A lighthouse at dawn' },
  rerank: { query: 'What is a gateway?', documents: ['A gateway is a door.', 'Rain is water.'] },
  moderations: { input: 'Hello' },
  embeddings: { input: ['Hello', 'Good morning'] },
}
export const EXAMPLE_FILE = 'speech.mp3'

const pathOf = (endpoint: OtherEndpoint) => ENDPOINT_PATHS[endpoint].replace(/^\/v1/, '')

export const toEndpointSnippets = (call: EndpointCall): Snippet[] => [
  { title: 'curl', text: toCurl(call) },
  { title: 'TypeScript', text: toTypeScript(call) },
  { title: 'Python', text: toPython(call) },
  { title: 'JavaScript', text: toJavaScript(call) },
]

function toCurl({ endpoint, baseUrl, secret, fields, file }: EndpointCall): string {
  const { isForm, saved } = CALLS[endpoint]
  const sent = isForm
    ? [
        ...Object.entries(fields).map(([name, value]) => `-F ${quote(`${name}=${value}`)}`),
        `-F ${quote(`file=@${file}`)}`,
      ]
    : ["-H 'Content-Type: application/json'", `-d ${quote(toLiteral(fields, JSON_TEXT))}`]
  return [
    `curl ${baseUrl}${pathOf(endpoint)}`,
    `  -H ${quote(`Authorization: Bearer ${secret}`)}`,
    ...sent.map((line) => `  ${line}`),
    ...(saved ? [`  -o ${quote(saved(fields))}`] : []),
  ].join(' \\\n')
}

function toPython({ endpoint, baseUrl, secret, fields, file }: EndpointCall): string {
  const { method, python, isForm, saved } = CALLS[endpoint]
  const head = [
    '# pip install openai',
    ...(endpoint === 'images' ? ['import base64', ''] : []),
    'from openai import OpenAI',
  ]
  const client = [
    '',
    'client = OpenAI(',
    `    base_url=${PYTHON.text(baseUrl)},`,
    `    api_key=${PYTHON.text(secret)},`,
    ')',
  ]
  if (method === null) {
    const body = toLiteral(fields, PYTHON, '    ')
    return [
      ...head,
      ...client,
      'result = client.post(',
      `    ${PYTHON.text(pathOf(endpoint))},`,
      `    body=${body},`,
      '    cast_to=object,',
      ')',
      ...python,
      '',
    ].join('\n')
  }
  const args = [
    ...Object.entries(fields).map(([name, value]) => `    ${name}=${toLiteral(value, PYTHON, '    ')},`),
    ...(isForm ? [`    file=open(${PYTHON.text(file)}, "rb"),`] : []),
  ]
  if (!saved) return [...head, ...client, `result = client.${method}(`, ...args, ')', ...python, ''].join('\n')
  const streamed = method.replace(/\.create$/, '.with_streaming_response.create')
  return [
    ...head,
    ...client,
    `with client.${streamed}(`,
    ...args,
    ') as response:',
    `    response.stream_to_file(${PYTHON.text(saved(fields))})`,
    '',
  ].join('\n')
}

const WRITES = "import { writeFile } from 'node:fs/promises'"

function toTypeScript({ endpoint, baseUrl, secret, fields, file }: EndpointCall): string {
  const { method, script, isForm, saved } = CALLS[endpoint]
  const imports = [
    ...(isForm ? ["import { createReadStream } from 'node:fs'"] : []),
    ...(saved || endpoint === 'images' ? [WRITES] : []),
    "import OpenAI from 'openai'",
  ]
  const client = [
    '',
    'const client = new OpenAI({',
    `  baseURL: ${SCRIPT.text(baseUrl)},`,
    `  apiKey: ${SCRIPT.text(secret)},`,
    '})',
  ]
  const args = Object.entries(fields).map(([name, value]) => `  ${SCRIPT.key(name)}${toLiteral(value, SCRIPT, '  ')},`)
  if (isForm) args.push(`  file: createReadStream(${SCRIPT.text(file)}),`)
  const call =
    method === null
      ? [
          `const result: any = await client.post(${SCRIPT.text(pathOf(endpoint))}, {`,
          `  body: ${toLiteral(fields, SCRIPT, '  ')},`,
        ]
      : [`const result = await client.${method}({`, ...args]
  const done = saved
    ? [`await writeFile(${SCRIPT.text(saved(fields))}, Buffer.from(await result.arrayBuffer()))`]
    : script
  return ['// npm install openai', ...imports, ...client, ...call, '})', ...done, ''].join('\n')
}

function toJavaScript({ endpoint, baseUrl, secret, fields, file }: EndpointCall): string {
  const { script, isForm, saved } = CALLS[endpoint]
  const form = isForm
    ? [
        'const body = new FormData()',
        ...Object.entries(fields).map(
          ([name, value]) => `body.append(${SCRIPT.text(name)}, ${SCRIPT.text(String(value))})`,
        ),
        `body.append('file', await openAsBlob(${SCRIPT.text(file)}), ${SCRIPT.text(file)})`,
      ]
    : []
  const type = isForm ? '' : ", 'content-type': 'application/json'"
  return [
    '// Node, Bun, or Deno; no library needed',
    ...(isForm ? ["import { openAsBlob } from 'node:fs'", ''] : []),
    ...(saved || endpoint === 'images' ? [WRITES, ''] : []),
    ...form,
    `const response = await fetch(${SCRIPT.text(`${baseUrl}${pathOf(endpoint)}`)}, {`,
    "  method: 'POST',",
    `  headers: { authorization: ${SCRIPT.text(`Bearer ${secret}`)}${type} },`,
    isForm ? '  body,' : `  body: JSON.stringify(${toLiteral(fields, SCRIPT, '  ')}),`,
    '})',
    'if (!response.ok) throw new Error(await response.text())',
    ...(saved
      ? [`await writeFile(${SCRIPT.text(saved(fields))}, Buffer.from(await response.arrayBuffer()))`]
      : ['const result = await response.json()', ...script]),
    '',
  ].join('\n')
}
