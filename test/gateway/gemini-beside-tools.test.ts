/** Models before Gemini 3 refuse JSON output and web search with tools; later ones accept them. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createGemini, type Gemini } from '../support/gemini-upstream.ts'
import { type GeminiGateway, KEY, startGemini } from './gemini-gateway.ts'

const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }]
const schema = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const response_format = { type: 'json_schema', json_schema: { name: 'city', schema, strict: true } }
const messages = [{ role: 'user', content: 'Where is it warm?' }]
const called = (message: Record<string, unknown>) => ({
  messages: [
    ...messages,
    message,
    ...(message.tool_calls as { id: string }[]).map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'Rome' })),
  ],
})

const start = async (options: object, route: string) => {
  const gemini = createGemini(
    (step, { tools: given }) =>
      given && step === 0 ? { calls: [{ name: 'weather' }] } : { text: step === 1 ? '{"city":"Rome"}' : 'Warm.' },
    { key: KEY, ...options },
  )
  return { gemini, gateway: await startGemini(gemini, { route, upstream: ', pass: [web_search_options]' }) }
}

describe('before Gemini 3', () => {
  let gateway: GeminiGateway
  let gemini: Gemini
  beforeAll(async () => {
    ;({ gateway, gemini } = await start({ signs: false, thinks: 'budget' }, ', thinking: budget'))
  })
  afterAll(() => gateway.stop())

  test.each([false, true])('JSON next to tools is handled by the gateway, streamed: %p', async (stream) => {
    const first = await gateway.ask({ messages, tools, response_format, stream })
    expect(first.choices[0]?.toolCalls).toHaveLength(1)
    const second = await gateway.ask({ ...called(first.message), tools, response_format, stream })
    expect(second.choices[0]?.content).toBe('{"city":"Rome"}')
    expect(gemini.refused).toEqual([])
  })

  test('a search next to functions is rejected with its field, and nothing is called', async () => {
    const before = gateway.upstream.requests.length
    const refused = await gateway.fail({ messages, tools, web_search_options: {} })
    expect(refused).toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'web_search_options' })
    expect(gateway.upstream.requests).toHaveLength(before)
  })
})

describe('since Gemini 3', () => {
  test('JSON next to tools is sent unchanged, and a search next to functions is marked as allowed', async () => {
    const { gateway, gemini } = await start({}, '')
    const { message } = await gateway.ask({ messages, tools, response_format, web_search_options: {} })
    await gateway.ask({ ...called(message), tools, response_format, web_search_options: {} })
    expect(gemini.refused).toEqual([])
    expect(gateway.upstream.requests.at(-1)?.json).toMatchObject({
      generationConfig: { responseMimeType: 'application/json', responseJsonSchema: schema },
      tools: [{}, { googleSearch: {} }],
      toolConfig: { includeServerSideToolInvocations: true },
    })
    await gateway.stop()
  })
})
