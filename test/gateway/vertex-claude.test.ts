/** Claude on Vertex: the same format, with the model in the path and a token instead of a key. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { inTurn, strictly } from '../support/anthropic-upstream.ts'
import { startApp, type TestApp } from '../support/app.ts'
import { checkStream, checkWhole } from '../support/contract.ts'
import { startTokenEndpoint, type TokenEndpoint } from '../support/token-endpoint.ts'
import { type ScriptedUpstream, type Seen, startUpstream } from '../support/upstream.ts'

const PATH = '/v1/projects/p/locations/global/publishers/anthropic'
let app: TestApp
let endpoint: TokenEndpoint
let upstream: ScriptedUpstream
let key: string
beforeAll(async () => {
  endpoint = await startTokenEndpoint(() => app.clock.nowMs)
  const play = inTurn({ blocks: [{ thought: 'Hm.' }, { call: 'clock', input: {} }] }, { blocks: [{ text: 'Noon.' }] })
  // Undoes Vertex's differences, so that the same rules apply.
  upstream = await startUpstream((seen: Seen) => {
    const { anthropic_version: version, ...json } = seen.json ?? {}
    const isAsked =
      seen.path === `${PATH}/models/claude-sonnet-4-5@20250929:${json.stream ? 'streamRawPredict' : 'rawPredict'}`
    const isGood = isAsked && version === 'vertex-2023-10-16' && !('model' in json) && !('x-api-key' in seen.headers)
    const headers = { ...seen.headers, 'anthropic-version': isGood ? '2023-06-01' : 'none' }
    const script = strictly(play, { key: 'token-number-1' })
    const asIfDirect = { ...seen, headers, path: '/v1/messages', json: { ...json, model: 'claude' } }
    return typeof script === 'function' ? script(asIfDirect) : script
  })
  app = await startApp({
    catalog: `
version: 1
upstreams:
  vertex: { dialect: anthropic, base_url: "http://127.0.0.1:${upstream.port}${PATH}", api_key: \${GOOGLE} }
models:
  anthropic/claude:
    { name: Claude, context_length: 9000, max_output_length: 4000, input_modalities: [text], output_modalities: [text], supported_features: [tools, reasoning],
      pricing: [{ prompt: "0.000003", completion: "0.000015" }], routes: [{ upstream: vertex, model: "claude-sonnet-4-5@20250929", thinking: adaptive }] }
`,
    environment: { GOOGLE: endpoint.account.json },
  })
  key = app.key()
})
afterAll(async () => {
  await app.stop()
  await upstream.stop()
  await endpoint.stop()
})

async function ask(body: Record<string, unknown>): Promise<string> {
  const response = await fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'anthropic/claude', ...body }),
  })
  const text = await response.text()
  expect({ status: response.status, text }).toMatchObject({ status: 200 })
  return text
}

test("Claude on Vertex is called by its model's path and with a token, whole and streamed", async () => {
  const tools = [{ type: 'function', function: { name: 'clock' } }]
  const messages: unknown[] = [{ role: 'user', content: 'Time?' }]
  const first = JSON.parse(await ask({ messages, tools, reasoning_effort: 'low' }))
  expect(checkWhole(first).choices).toMatchObject([{ finish: 'tool_calls', reasoning: 'Hm.' }])
  const { message } = first.choices[0]
  messages.push(message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '12:00' })
  const streamed = await ask({ messages, tools, reasoning_effort: 'low', stream: true })
  expect(checkStream(streamed).choices).toMatchObject([{ content: 'Noon.', finish: 'stop' }])
  expect(endpoint.claims).toHaveLength(1)
})
