/** A long conversation reaches its upstream byte for byte, if every reader would read it alike. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'

let app: TestApp
let upstream: ScriptedUpstream
let key: string
beforeAll(async () => {
  upstream = await startUpstream(wholeAnswer())
  app = await startApp({
    catalog: `
version: 1
upstreams:
  one: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY} }
models:
  acme/large: { name: Large, context_length: 1000000, max_output_length: 100, input_modalities: [text], output_modalities: [text], supported_features: [], pricing: [{ prompt: "0.000001", completion: "0.000002" }], routes: [{ upstream: one, model: large-v1 }] }
`,
  })
  key = app.key()
})
afterAll(async () => {
  await upstream.stop()
  await app.stop()
})

/** Long enough to be passed unchanged. */
const LONG = 'tell me\\n\\u0061gain, é '.repeat(1_000)
const MESSAGES = `[ {"role" : "user","content":"${LONG}", "name":"a"} ]`

async function send(text: string) {
  const response = await fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: text,
  })
  expect([response.status, await response.text()]).toMatchObject([200, expect.any(String)])
  return upstream.requests.at(-1)?.body ?? ''
}

test("an unchanged part isn't rewritten; the parts around it are", async () => {
  const sent = await send(`{"temperature":1,"messages":${MESSAGES},"model":"acme/large","user":null,"fallbacks":["x"]}`)
  expect(sent).toContain(`"messages":${MESSAGES}`)
  expect(JSON.parse(sent)).toEqual({ temperature: 1, messages: JSON.parse(MESSAGES), model: 'large-v1' })
})

test("one that arrives in chunks isn't, either", async () => {
  const messages = MESSAGES.replace(LONG, LONG.repeat(20))
  expect(messages.length).toBeGreaterThan(300_000)
  expect(await send(`{"model":"acme/large","messages":${messages}}`)).toContain(`"messages":${messages}`)
})

test.each([
  [
    'a name twice in a message',
    `{"messages":[{"role":"system","role":"user","content":"${LONG}"}],"model":"acme/large"}`,
  ],
  [
    'two conversations',
    `{"messages":[{"role":"user","content":"${LONG}${LONG}"}],"model":"acme/large","messages":${MESSAGES}}`,
  ],
  ['a name twice elsewhere', `{"model":"acme/none","messages":${MESSAGES},"model":"acme/large"}`],
  ['a name in escapes', `{"m\\u0065ssages":${MESSAGES},"model":"acme/large"}`],
  ['a number', `{"messages":[{"role":"user","content":"${LONG}","x":1.50e+1}],"model":"acme/large"}`],
  ['a field that says nothing', `{"messages":[{"role":"user","content":"${LONG}","name":null}],"model":"acme/large"}`],
  ['a field written otherwise', `{"messages":[{"role":"user","content":"${LONG}","Name":"a"}],"model":"acme/large"}`],
  [
    'something longer than the conversation',
    `{"metadata":{"a":"${LONG}${LONG}"},"messages":${MESSAGES},"model":"acme/large"}`,
  ],
  [
    'an escaped name that stands twice',
    `{"messages":[{"role":"user","rol\\u0065":"user","content":"${LONG}"}],"model":"acme/large"}`,
  ],
])('%s: each name is sent once, as we read it', async (_, text) => {
  const sent = await send(text)
  const { messages, metadata } = JSON.parse(text)
  const [{ name, Name, ...message }] = messages
  const read = {
    messages: [{ ...message, ...(name ? { name } : {}) }],
    model: 'large-v1',
    ...(metadata ? { metadata } : {}),
  }
  // Key by key, so that a duplicate would show.
  expect(sent.length).toBe(JSON.stringify(read).length)
  expect(JSON.parse(sent)).toEqual(read)
})

test("a field whose name only ends like the conversation's is another field, and never reaches a model in its place", async () => {
  const other = `[{"role":"root","content":"${LONG}"}]`
  for (const space of ['', ' '.repeat(60)]) {
    const sent = await send(
      `{"model":"acme/large","messages":[{"role":"user","content":"hi"}],"\\"messages"${space}:${other}}`,
    )
    expect(JSON.parse(sent).messages).toEqual([{ role: 'user', content: 'hi' }])
  }
})
