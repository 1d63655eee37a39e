/**
 * Code that sends a chat request and streams the response, and shell commands for coding agents. Every snippet was
 * tested unchanged.
 *
 * Sources: https://code.claude.com/docs/en/llm-gateway, https://github.com/openai/codex/blob/main/docs/config.md
 */
interface ChatCall {
  /** Ends in `/v1`. */
  baseUrl: string
  secret: string
  /** JSON with `model`, `messages`, and `stream: true`. */
  body: Readonly<Record<string, unknown>>
}

export interface Snippet {
  title: string
  text: string
}

export const toChatSnippets = (call: ChatCall): Snippet[] => [
  { title: 'curl', text: toCurl(call) },
  { title: 'TypeScript', text: toTypeScript(call) },
  { title: 'Python', text: toPython(call) },
  { title: 'JavaScript', text: toJavaScript(call) },
  { title: 'Go', text: toGo(call) },
]

const SHORT = 200

export function toCurl({ baseUrl, secret, body }: ChatCall): string {
  const text = JSON.stringify(body)
  // Shell arguments have a length limit; no line of JSON is the delimiter.
  const isShort = text.length < SHORT
  return [
    `curl -N ${baseUrl}/chat/completions \\`,
    `  -H ${quote(`Authorization: Bearer ${secret}`)} \\`,
    "  -H 'Content-Type: application/json' \\",
    ...(isShort ? [`  -d ${quote(text)}`] : ["  -d @- <<'JSON'", toLiteral(body, JSON_TEXT), 'JSON']),
  ].join('\n')
}

const fieldsOf = (fields: readonly (readonly [name: string, value: unknown])[]) =>
  fields
    .map(([name, value]) => `  ${SCRIPT.key(name)}${toLiteral(value, SCRIPT, '  ')}${toCast(name, value)},`)
    .join('\n')

/** The library's message type lacks `reasoning_content`. */
const toCast = (name: string, value: unknown) =>
  name === 'messages' && JSON.stringify(value).includes('"reasoning_content":')
    ? ' as OpenAI.ChatCompletionMessageParam[]'
    : ''

export function toTypeScript({ baseUrl, secret, body }: ChatCall): string {
  const [known, others] = split(body)
  return `// npm install openai
import OpenAI from 'openai'

const client = new OpenAI({
  baseURL: ${SCRIPT.text(baseUrl)},
  apiKey: ${SCRIPT.text(secret)},
})
const stream = await client.chat.completions.create({
${fieldsOf(known)}
${others.length > 0 ? `  // Not in the library's types.\n  ...(${toLiteral(Object.fromEntries(others), SCRIPT, '  ')} as object),\n` : ''}})
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '')
`
}

export function toPython({ baseUrl, secret, body }: ChatCall): string {
  const [known, others] = split(body)
  const named = known.map(([name, value]) => `    ${name}=${toPythonValue(value)},\n`).join('')
  const extra = others.length > 0 ? `    extra_body=${toPythonValue(Object.fromEntries(others))},\n` : ''
  return `# pip install openai
from openai import OpenAI

client = OpenAI(
    base_url=${PYTHON.text(baseUrl)},
    api_key=${PYTHON.text(secret)},
)
stream = client.chat.completions.create(
${named}${extra})
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
`
}

const toPythonValue = (value: unknown) => toLiteral(value, PYTHON, '    ')

export const toJavaScript = ({ baseUrl, secret, body }: ChatCall): string => `// Node, Bun, or Deno; no library needed
const response = await fetch(${SCRIPT.text(`${baseUrl}/chat/completions`)}, {
  method: 'POST',
  headers: { authorization: ${SCRIPT.text(`Bearer ${secret}`)}, 'content-type': 'application/json' },
  body: JSON.stringify(${toLiteral(body, SCRIPT, '  ')}),
})
if (!response.ok) throw new Error(await response.text())
let rest = ''
for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + piece).split('\\n')
  rest = lines.pop()
  for (const line of lines) {
    if (!line.startsWith('data: {')) continue
    const chunk = JSON.parse(line.slice('data: '.length))
    if (chunk.error) throw new Error(chunk.error.message)
    process.stdout.write(chunk.choices[0]?.delta?.content ?? '')
  }
}
`

export function toGo({ baseUrl, secret, body }: ChatCall): string {
  // Escapes characters that Go's raw strings can't contain.
  const json = toLiteral(body, JSON_TEXT).replaceAll('`', '\\u0060').replaceAll('\ufeff', '\\ufeff')
  return `package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
)

const body = \`${json}\`

type chunk struct {
	Error   *struct{ Message string }
	Choices []struct{ Delta struct{ Content string } }
}

func main() {
	request, err := http.NewRequest("POST", ${toGoText(`${baseUrl}/chat/completions`)}, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", ${toGoText(`Bearer ${secret}`)})
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		text, _ := io.ReadAll(response.Body)
		log.Fatal(string(text))
	}
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\\n')
		if data, found := strings.CutPrefix(line, "data: {"); found {
			var next chunk
			if err := json.Unmarshal([]byte("{"+data), &next); err != nil {
				log.Fatal(err)
			}
			if next.Error != nil {
				log.Fatal(next.Error.Message)
			}
			if len(next.Choices) > 0 {
				fmt.Print(next.Choices[0].Delta.Content)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
`
}

const toGoText = (text: string) => JSON.stringify(text)

/** Splits fields by whether the client libraries know them. */
function split(body: ChatCall['body']): [known: [string, unknown][], others: [string, unknown][]] {
  const fields = Object.entries(body)
  return [fields.filter(([name]) => KNOWN.has(name)), fields.filter(([name]) => !KNOWN.has(name))]
}

const KNOWN: ReadonlySet<string> = new Set(
  `model messages max_completion_tokens max_tokens temperature top_p n stop frequency_penalty presence_penalty logit_bias logprobs
  top_logprobs seed stream stream_options tools tool_choice parallel_tool_calls functions function_call response_format
  reasoning_effort verbosity modalities audio prediction metadata store service_tier safety_identifier prompt_cache_key user
  web_search_options`.split(/\s+/),
)

export interface Access {
  /** Ends in `/v1`. */
  baseUrl: string
  secret: string
  model: string
}

/** Claude Code adds /v1 itself, and uses the Haiku model for background tasks. */
export const toClaudeCode = ({ baseUrl, secret, model }: Access): string =>
  [
    '# npm install -g @anthropic-ai/claude-code',
    `ANTHROPIC_BASE_URL=${toRoot(baseUrl)} \\`,
    `ANTHROPIC_AUTH_TOKEN=${secret} \\`,
    `ANTHROPIC_MODEL=${quote(model)} \\`,
    `ANTHROPIC_DEFAULT_HAIKU_MODEL=${quote(model)} \\`,
    'claude',
  ].join('\n')

export function toCodex({ baseUrl, secret, model }: Access): string {
  const provider = `{name="Tollgate",base_url="${baseUrl}",env_key="TOLLGATE_API_KEY",wire_api="responses"}`
  return [
    '# npm install -g @openai/codex',
    `TOLLGATE_API_KEY=${secret} \\`,
    `codex -m ${quote(model)} -c model_provider=tollgate \\`,
    `  -c ${quote(`model_providers.tollgate=${provider}`)}`,
  ].join('\n')
}

/** Google's libraries add the version themselves. */
export const toGeminiPython = ({ baseUrl, secret, model }: Access): string => `# pip install google-genai
from google import genai

client = genai.Client(
    api_key=${PYTHON.text(secret)},
    http_options={"base_url": ${PYTHON.text(toRoot(baseUrl))}},
)
for chunk in client.models.generate_content_stream(model=${PYTHON.text(model)}, contents="Hello"):
    print(chunk.text or "", end="", flush=True)
`

export const toGeminiTypeScript = ({ baseUrl, secret, model }: Access): string => `// npm install @google/genai
import { GoogleGenAI } from '@google/genai'

const client = new GoogleGenAI({
  apiKey: ${SCRIPT.text(secret)},
  httpOptions: { baseUrl: ${SCRIPT.text(toRoot(baseUrl))} },
})
const stream = await client.models.generateContentStream({ model: ${SCRIPT.text(model)}, contents: 'Hello' })
for await (const chunk of stream) process.stdout.write(chunk.text ?? '')
`

/** Gemini CLI starts only once its settings name how to sign in. */
export const toGeminiCli = ({ baseUrl, secret, model }: Access): string =>
  [
    '# npm install -g @google/gemini-cli',
    '# ~/.gemini/settings.json must have: {"security": {"auth": {"selectedType": "gemini-api-key"}}}',
    `GOOGLE_GEMINI_BASE_URL=${toRoot(baseUrl)} \\`,
    `GEMINI_API_KEY=${secret} \\`,
    `GEMINI_MODEL=${quote(model)} \\`,
    'gemini',
  ].join('\n')

const toRoot = (baseUrl: string) => baseUrl.replace(/\/v1$/, '')

interface Language {
  text(text: string): string
  /** Includes the separator. */
  key(name: string): string
  words: { true: string; false: string; null: string }
  /** Padding inside `{ }` on one line. */
  gap: '' | ' '
  /** True if a trailing comma is allowed. */
  hasLastComma: boolean
  indent: string
}

const json = (text: string) => JSON.stringify(text.toWellFormed())
const PLAIN_WORDS = { true: 'true', false: 'false', null: 'null' }

export const JSON_TEXT: Language = {
  text: json,
  key: (name) => `${json(name)}: `,
  words: PLAIN_WORDS,
  gap: '',
  hasLastComma: false,
  indent: '  ',
}

/** In single quotes. */
const toScriptText = (text: string) => `'${json(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`

export const SCRIPT: Language = {
  text: toScriptText,
  key(name) {
    // A plain `__proto__` would set the prototype.
    if (name === '__proto__') return `['__proto__']: `
    return `${/^[A-Za-z_$][\w$]*$/.test(name) ? name : toScriptText(name)}: `
  },
  words: PLAIN_WORDS,
  gap: ' ',
  hasLastComma: true,
  indent: '  ',
}

export const PYTHON: Language = {
  text: json,
  key: (name) => `${json(name)}: `,
  words: { true: 'True', false: 'False', null: 'None' },
  gap: '',
  hasLastComma: true,
  indent: '    ',
}

/** Quotes a shell word. */
export const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

const WIDEST = 90

/** @param indent of lines after the first */
export function toLiteral(value: unknown, language: Language, indent = ''): string {
  const { text, key, words, gap, hasLastComma } = language
  if (typeof value === 'string') return text(value)
  if (typeof value !== 'object' || value === null) return words[String(value) as keyof typeof words] ?? String(value)
  const [open, close, pad] = Array.isArray(value) ? ['[', ']', ''] : ['{', '}', gap]
  const inner = indent + language.indent
  const names = Object.keys(value)
  if (names.length === 0) return open + close
  const parts = Object.values(value).map((part, at) => {
    const name = Array.isArray(value) ? '' : key(names[at] ?? '')
    return name + toLiteral(part, language, inner)
  })
  const line = `${open}${pad}${parts.join(', ')}${pad}${close}`
  if (!line.includes('\n') && indent.length + line.length <= WIDEST) return line
  return `${open}\n${parts.map((part) => inner + part).join(',\n')}${hasLastComma ? ',' : ''}\n${indent}${close}`
}
