/** A chat request as code that makes it and prints the answer as it comes. Each was run as it stands. Pure. */
import { JSON_TEXT, PYTHON, quote, SCRIPT, toLiteral } from './literal.ts'

export interface ChatCall {
  /** Ends in `/v1`. */
  baseUrl: string
  /** A key. */
  secret: string
  /** What is asked: JSON with `model`, `messages` and `stream: true`. */
  body: Readonly<Record<string, unknown>>
}

export interface Snippet {
  title: string
  text: string
}

const SHORT = 200

export function toCurl({ baseUrl, secret, body }: ChatCall): string {
  const text = JSON.stringify(body)
  // A shell takes no argument of any length, and no JSON has a line that is this word alone.
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

/** The library's type of messages does not know what reasoning is sent back as. */
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

export const toJavaScript = ({ baseUrl, secret, body }: ChatCall): string => `// Node, Bun or Deno, without a library
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
  // What a raw string of Go cannot have, as JSON may write it, too.
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

/** The fields of a body that the client libraries know by name, and the others. */
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
