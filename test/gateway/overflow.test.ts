/** A conversation too long for the first target moves to a larger one, whatever words the refusal has. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { errorMessage, wholeMessage } from '../support/anthropic-answers.ts'
import { CREDENTIAL, startApp, type TestApp } from '../support/app.ts'
import { checkError } from '../support/contract.ts'
import { googleError } from '../support/gemini-upstream.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { type Behaviour, wholeAnswer } from '../support/upstream-answers.ts'

const DIALECTS = ['openai', 'anthropic', 'gemini'] as const
type Name = (typeof DIALECTS)[number]

const ANSWERS: Record<Name, Behaviour> = {
  openai: wholeAnswer({ tokens: ['Hi'] }),
  anthropic: wholeMessage({ blocks: [{ text: 'Hi' }] }),
  gemini: {
    kind: 'whole',
    body: {
      candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP', index: 0 }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 1, totalTokenCount: 11 },
    },
  },
}

const refusal = (status: number, error: object): Behaviour => ({ kind: 'whole', status, body: { error } })
const LLAMA = {
  code: 400,
  message: 'the request exceeds the available context size, try increasing it',
  type: 'exceed_context_size_error',
  n_prompt_tokens: 5123,
  n_ctx: 4096,
}
/** Provider, dialect, refusal, and how much of it is reported. */
const SAID: [who: string, dialect: Name, said: Behaviour, most: number, asked: number][] = [
  ['llama-server', 'openai', refusal(400, LLAMA), 4096, 5123],
  [
    'Ollama',
    'openai',
    refusal(400, { message: JSON.stringify({ error: LLAMA }), type: 'invalid_request_error', param: null, code: null }),
    4096,
    5123,
  ],
  [
    'a stream of OpenRouter',
    'openai',
    {
      kind: 'stream',
      steps: [
        {
          error: {
            code: 400,
            message: "This endpoint's maximum context length is 4096 tokens. However, you requested about 5123 tokens.",
          },
        },
      ],
    },
    4096,
    5123,
  ],
  [
    'Anthropic',
    'anthropic',
    errorMessage(400, 'invalid_request_error', 'prompt is too long: 5123 tokens > 4096 maximum'),
    4096,
    5123,
  ],
  [
    'Gemini',
    'gemini',
    googleError(
      400,
      'INVALID_ARGUMENT',
      'The input token count (5123) exceeds the maximum number of tokens allowed (4096).',
    ),
    4096,
    5123,
  ],
]

let app: TestApp
let key: string
const small = {} as Record<Name, ScriptedUpstream>
const large = {} as Record<Name, ScriptedUpstream>

beforeAll(async () => {
  for (const each of DIALECTS) {
    small[each] = await startUpstream()
    large[each] = await startUpstream()
  }
  const facts =
    'name: M, context_length: 32768, max_output_length: 100, input_modalities: [text], output_modalities: [text], supported_features: []'
  const price = (rate: number) => `pricing: [{ prompt: "0.00000${rate}", completion: "0.00000${rate + 1}" }]`
  const toSmall = (name: Name) => `{ upstream: small-${name}, model: s, context_length: 4096, ${price(1)} }`
  const toLarge = (name: Name) => `{ upstream: large-${name}, model: l, priority: 1, ${price(3)} }`
  const upstream = (name: Name, { url }: ScriptedUpstream) => `{ dialect: ${name}, base_url: "${url}", api_key: \${K} }`
  app = await startApp({
    environment: { K: CREDENTIAL },
    catalog: `
version: 1
upstreams:
${DIALECTS.map((name) => `  small-${name}: ${upstream(name, small[name])}\n  large-${name}: ${upstream(name, large[name])}`).join('\n')}
models:
${DIALECTS.flatMap((from) => [
  `  alone/${from}: { ${facts}, ${price(1)}, routes: [${toSmall(from)}] }`,
  ...DIALECTS.map((to) => `  ${from}/${to}: { ${facts}, ${price(1)}, routes: [${toSmall(from)}, ${toLarge(to)}] }`),
]).join('\n')}
`,
  })
  key = app.key()
  for (const each of DIALECTS) large[each].script(ANSWERS[each])
})

afterAll(async () => {
  for (const each of DIALECTS) await Promise.all([small[each].stop(), large[each].stop()])
  await app.stop()
})

const ask = (model: string, stream: boolean) =>
  fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'Long story' }] }),
  })

describe.each(SAID)('a prompt that is too long for %s', (who, dialect, said, most, asked) => {
  const isStream = who.includes('stream')

  test.each(isStream ? [] : DIALECTS)('goes to the larger route, of %s, at its price', async (to) => {
    small[dialect].script(said)
    const response = await ask(`${dialect}/${to}`, false)
    expect(response.status).toBe(200)
    expect(response.headers.get('x-tollgate-upstream')).toBe(`large-${to}`)
    const { choices, usage } = JSON.parse(await response.text())
    expect(choices[0].message.content).toBe('Hi')
    const rows = await app.settled(await app.count())
    const cost = usage.prompt_tokens * 3_000 + usage.completion_tokens * 4_000
    expect(rows.at(-1)).toMatchObject({ status: 'ok', upstream: `large-${to}`, attempts: 2, cost_nano_usd: cost })
    expect(usage.cost_nano_usd).toBe(cost)
  })

  test('gets the classic error text if there is no larger one', async () => {
    small[dialect].script(said)
    const response = await ask(`alone/${dialect}`, isStream)
    const error = checkError(response.status, response.headers, await response.text())
    expect({ status: response.status, ...error }).toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
      param: 'messages',
      message: `This model's maximum context length is ${most} tokens. However, your messages resulted in ${asked} tokens. Please reduce the length of the messages.`,
    })
    const rows = await app.settled(await app.count())
    expect(rows.at(-1)).toMatchObject({ status: 'failed', cost_nano_usd: 0 })
  })
})
