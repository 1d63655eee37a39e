/** Conversations with a Gemini upstream as strict as the real one. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { JsonObject } from '../support/contract-parts.ts'
import { SENTINEL } from '../support/gemini-strict.ts'
import { contentsOf, createGemini, type Gemini, type GeminiTurn } from '../support/gemini-upstream.ts'
import type { Behaviour } from '../support/upstream-answers.ts'
import { type GeminiGateway, KEY, startGemini } from './gemini-gateway.ts'

let answer: (step: number, body: JsonObject) => GeminiTurn | Behaviour = () => ({ text: 'Hello!' })
let gemini: Gemini
let gateway: GeminiGateway
beforeAll(async () => {
  gemini = createGemini((step, body) => answer(step, body), { key: KEY })
  gateway = await startGemini(gemini)
})
beforeEach(() => {
  answer = () => ({ text: 'Hello!' })
  gemini.refused.length = 0
})
afterAll(() => gateway.stop())

const user = (content: unknown) => ({ role: 'user', content })
const toTool = (name: string, parameters?: object, more: object = {}) => ({
  type: 'function',
  function: { name, ...(parameters ? { parameters } : {}), ...more },
})
const CITY = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const tools = [toTool('weather', CITY), toTool('clock')]
const ways = [{ stream: false }, { stream: true, stream_options: { include_usage: true } }]
const lastRequest = () => gateway.upstream.requests.at(-1)
const lastJson = () => lastRequest()?.json

describe.each(ways)('%p', (way) => {
  test('is answered, with the thoughts beside the text and the usage that is billed', async () => {
    answer = () => ({ reasoning: 'They greet me.', text: 'Hello, wörld 🌍!' })
    const before = await gateway.app.count()
    const { choices, usage } = await gateway.ask({ messages: [user('Hello')], ...way })
    expect(choices).toMatchObject([{ content: 'Hello, wörld 🌍!', reasoning: 'They greet me.', finish: 'stop' }])
    expect(usage).toEqual({ prompt: 40, cached: 8, completion: 12, reasoning: 5 })
    expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({
      status: 'ok',
      estimated: 0,
      prompt_tokens: 40,
      cached_tokens: 8,
      completion_tokens: 12,
      reasoning_tokens: 5,
      cost_nano_usd: 32 * 1_000 + 8 * 100 + 12 * 2_000,
    })
    const method = way.stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
    expect(lastRequest()).toMatchObject({
      path: `/v1beta/models/gemini-of-today:${method}`,
      headers: { 'x-goog-api-key': KEY },
      json: {
        contents: [{ role: 'user', parts: [{ text: 'Hello' }] }],
        generationConfig: { thinkingConfig: { includeThoughts: true } },
      },
    })
  })

  for (const keeps of [true, false]) {
    test(`calls tools over several turns for a client that ${keeps ? 'keeps' : 'drops'} the signatures`, async () => {
      answer = (step) =>
        [
          { text: 'First the weather.', calls: [{ name: 'weather', input: { city: 'Oslo' } }, { name: 'clock' }] },
          { calls: [{ name: 'clock', id: '96c1su3s' }] },
          { text: 'Noon, 7 degrees.' },
        ][step] ?? {}
      const messages: Record<string, unknown>[] = [{ role: 'system', content: 'Be brief.' }, user('Go')]
      const ids: string[] = []
      for (const count of [2, 1]) {
        const { choices, message } = await gateway.ask({ messages, tools, ...way })
        const calls = choices[0]?.toolCalls ?? []
        expect(choices).toMatchObject([{ finish: 'tool_calls' }])
        expect(calls).toHaveLength(count)
        ids.push(...calls.map(({ id }) => id))
        const { reasoning_details: _, ...without } = message
        // Results in another order than the calls.
        const results = calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: `of ${id}` })).reverse()
        messages.push(keeps ? message : without, ...results)
      }
      const { choices } = await gateway.ask({ messages, tools, ...way })
      expect(choices).toMatchObject([{ content: 'Noon, 7 degrees.', finish: 'stop' }])
      expect(gemini.refused).toEqual([])
      expect(ids).toEqual([expect.stringMatching(/^call_[\da-f]{16}$/), expect.stringMatching(/^call_/), '96c1su3s'])
      const signature = keeps ? expect.stringMatching(/^c2lnbmF0dXJl/) : SENTINEL
      const response = (name: string, id = '') => ({ functionResponse: { id, name, response: { output: `of ${id}` } } })
      expect(contentsOf(lastRequest())).toEqual([
        { role: 'user', parts: [{ text: 'Go' }] },
        {
          role: 'model',
          parts: [
            { text: 'First the weather.' },
            { functionCall: { id: ids[0], name: 'weather', args: { city: 'Oslo' } }, thoughtSignature: signature },
            { functionCall: { id: ids[1], name: 'clock', args: {} } },
          ],
        },
        { role: 'user', parts: [response('weather', ids[0]), response('clock', ids[1])] },
        {
          role: 'model',
          parts: [{ functionCall: { id: '96c1su3s', name: 'clock', args: {} }, thoughtSignature: signature }],
        },
        { role: 'user', parts: [response('clock', '96c1su3s')] },
      ])
      expect(lastJson()).toMatchObject({
        systemInstruction: { parts: [{ text: 'Be brief.' }] },
        tools: [{ functionDeclarations: [{ name: 'weather', parametersJsonSchema: CITY }, { name: 'clock' }] }],
      })
    })
  }

  test('signatures of texts and pictures come back where they were', async () => {
    answer = (_, { contents }) =>
      Array.isArray(contents) && contents.length > 1 ? { text: 'Bluer.' } : { text: 'Blue:', images: ['aW1hZ2U='] }
    const first = await gateway.ask({ messages: [user('Draw')], ...way })
    expect(first.choices).toMatchObject([{ content: 'Blue:', finish: 'stop' }])
    expect(first.message.images).toMatchObject([
      { type: 'image_url', image_url: { url: 'data:image/png;base64,aW1hZ2U=' } },
    ])
    const second = await gateway.ask({ messages: [user('Draw'), first.message, user('Bluer')], ...way })
    expect(second.choices).toMatchObject([{ content: 'Bluer.' }])
    const third = [user('Draw'), first.message, user('Bluer'), second.message, user('Thanks')]
    await gateway.ask({ messages: third, ...way })
    expect(gemini.refused).toEqual([])
    const signature = expect.stringMatching(/^c2lnbmF0dXJl/)
    expect(contentsOf(lastRequest()).filter(({ role }) => role === 'model')).toEqual([
      {
        role: 'model',
        parts: [
          { text: 'Blue:' },
          { inlineData: { mimeType: 'image/png', data: 'aW1hZ2U=' }, thoughtSignature: signature },
        ],
      },
      { role: 'model', parts: [{ text: 'Bluer.', thoughtSignature: signature }] },
    ])
  })

  test.each([
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
    ['OTHER', 'stop'],
  ])('an end by %s is told as %s', async (finish, told) => {
    answer = () => ({ text: 'So far', finish })
    const { choices } = await gateway.ask({ messages: [user('Go')], ...way })
    expect(choices).toMatchObject([{ content: 'So far', finish: told }])
  })

  test('a prompt that is blocked is a filtered answer without words, and costs nothing', async () => {
    const body = { promptFeedback: { blockReason: 'PROHIBITED_CONTENT' }, usageMetadata: { trafficType: 'ON_DEMAND' } }
    answer = () =>
      way.stream
        ? { kind: 'stream', steps: [`data: ${JSON.stringify(body)}\r\n\r\n`], end: 'eof' }
        : { kind: 'whole', body }
    const before = await gateway.app.count()
    const { choices } = await gateway.ask({ messages: [user('Go')], n: 2, ...way })
    expect(choices).toMatchObject([
      { content: '', finish: 'content_filter' },
      { content: '', finish: 'content_filter' },
    ])
    expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({ status: 'ok', cost_nano_usd: 0 })
  })

  test('an end by a malformed call is a failure of the upstream, and tried again', async () => {
    answer = () => ({ finish: 'MALFORMED_FUNCTION_CALL', more: { finishMessage: 'print(clock())' } })
    const error = await gateway.fail({ messages: [user('Go')], tools, ...way })
    expect(error).toMatchObject({ status: 502, code: 'upstream_failed' })
    expect(error.message).toContain('MALFORMED_FUNCTION_CALL: print(clock())')
  })

  test('a schema goes as it is, and so does the answer', async () => {
    answer = () => ({ text: '{"city":"Oslo"}' })
    const format = { type: 'json_schema', json_schema: { name: 'city', schema: CITY, strict: true } }
    const { choices } = await gateway.ask({ messages: [user('Where?')], response_format: format, ...way })
    expect(choices).toMatchObject([{ content: '{"city":"Oslo"}' }])
    expect(lastJson()?.generationConfig).toMatchObject({
      responseMimeType: 'application/json',
      responseJsonSchema: CITY,
    })
  })

  test('log probabilities are complete', async () => {
    const logprobsResult = {
      chosenCandidates: [{ token: 'Hi', tokenId: 1, logProbability: -0.25 }],
      topCandidates: [
        {
          candidates: [
            { token: 'Hi', logProbability: -0.25 },
            { token: 'Ho', logProbability: -2 },
          ],
        },
      ],
    }
    answer = () => ({ text: 'Hi', more: { logprobsResult } })
    const { choices } = await gateway.ask({ messages: [user('Say')], logprobs: true, top_logprobs: 2, ...way })
    const hi = { token: 'Hi', logprob: -0.25, bytes: [72, 105] }
    expect(choices[0]?.logprobs).toEqual({
      content: [{ ...hi, top_logprobs: [hi, { token: 'Ho', logprob: -2, bytes: [72, 111] }] }],
      refusal: null,
    })
    expect(lastJson()?.generationConfig).toMatchObject({ responseLogprobs: true, logprobs: 2 })
  })

  test('several choices are as many calls, of models that write one', async () => {
    const before = gateway.upstream.requests.length
    const { choices, usage } = await gateway.ask({ messages: [user('Hello')], n: 3, ...way })
    expect(choices.map(({ content }) => content)).toEqual(['Hello!', 'Hello!', 'Hello!'])
    expect(usage).toMatchObject({ prompt: 120, completion: 36 })
    expect(gateway.upstream.requests.length - before).toBe(3)
  })

  test('one call at a time is what a client gets that asks for no more', async () => {
    answer = () => ({ calls: [{ name: 'clock' }, { name: 'weather', input: { city: 'Oslo' } }] })
    const { choices } = await gateway.ask({ messages: [user('Go')], tools, parallel_tool_calls: false, ...way })
    expect(choices[0]?.toolCalls.map((call) => call.type === 'function' && call.function.name)).toEqual(['clock'])
  })

  test('legacy functions are called and answered by their names', async () => {
    answer = (step) => (step === 0 ? { calls: [{ name: 'weather', input: { city: 'Oslo' } }] } : { text: 'Snow.' })
    const functions = [{ name: 'weather', parameters: CITY }]
    const { choices } = await gateway.ask({ messages: [user('Go')], functions, function_call: 'auto', ...way })
    const called = { name: 'weather', arguments: '{"city":"Oslo"}' }
    expect(choices).toMatchObject([{ finish: 'function_call', functionCall: called }])
    const history = [
      user('Go'),
      { role: 'assistant', content: null, function_call: called },
      { role: 'function', name: 'weather', content: 'snow' },
    ]
    expect((await gateway.ask({ messages: history, functions, ...way })).choices).toMatchObject([{ content: 'Snow.' }])
    expect(gemini.refused).toEqual([])
  })
})

describe('what a client asks for', () => {
  const sent = async (body: Record<string, unknown>) => {
    await gateway.ask({ messages: [user('Hello')], ...body })
    expect(gemini.refused).toEqual([])
    return lastJson()
  }

  test('samples as it is told, and hints go nowhere', async () => {
    const json = await sent({
      ...{ max_tokens: 100, temperature: 0.5, top_p: 0.9, top_k: 40, stop: 'END', seed: 2 ** 40 + 7 },
      ...{
        presence_penalty: 0.5,
        frequency_penalty: 0,
        user: 'u',
        metadata: { a: 'b' },
        store: true,
        verbosity: 'low',
      },
      ...{ prompt_cache_key: 'k', logit_bias: {}, whatever: 1 },
    })
    expect(json).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'Hello' }] }],
      generationConfig: {
        ...{ maxOutputTokens: 100, temperature: 0.5, topP: 0.9, topK: 40, stopSequences: ['END'], seed: 7 },
        presencePenalty: 0.5,
        thinkingConfig: { includeThoughts: true },
      },
    })
  })

  test.each([
    ['minimal', 'low'],
    ['low', 'low'],
    ['medium', 'medium'],
    ['high', 'high'],
    ['xhigh', 'high'],
    ['max', 'high'],
  ])('an effort of %s is the level %s', async (reasoning_effort, thinkingLevel) => {
    const json = await sent({ reasoning_effort })
    expect(json?.generationConfig).toEqual({ thinkingConfig: { includeThoughts: true, thinkingLevel } })
  })

  test.each([
    [{ max_tokens: 500 }, { includeThoughts: true, thinkingLevel: 'low' }],
    [{ max_tokens: 8_000 }, { includeThoughts: true, thinkingLevel: 'medium' }],
    [{ max_tokens: 90_000, exclude: true }, { thinkingLevel: 'high' }],
    [{ enabled: false }, { thinkingLevel: 'low' }],
    [{ effort: 'none' }, { thinkingLevel: 'low' }],
    [{ effort: 'high' }, { includeThoughts: true, thinkingLevel: 'high' }],
  ])('reasoning as %p is %p', async (reasoning, thinkingConfig) => {
    expect((await sent({ reasoning }))?.generationConfig).toEqual({ thinkingConfig })
  })

  test.each([
    ['auto', undefined],
    ['none', { mode: 'NONE' }],
    ['required', { mode: 'ANY' }],
    [
      { type: 'function', function: { name: 'clock' } },
      { mode: 'ANY', allowedFunctionNames: ['clock'] },
    ],
    [
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'clock' } }] },
      },
      { mode: 'VALIDATED', allowedFunctionNames: ['clock'] },
    ],
  ])('a choice of tools as %p is %p', async (tool_choice, functionCallingConfig) => {
    const json = await sent({ tools, tool_choice })
    expect(json?.toolConfig).toEqual(functionCallingConfig && { functionCallingConfig })
  })

  test('strict tools are held to their schema', async () => {
    const json = await sent({ tools: [toTool('weather', CITY, { strict: true })] })
    expect(json?.toolConfig).toEqual({ functionCallingConfig: { mode: 'VALIDATED' } })
  })

  test('tiers of service go by their names, and the one that served it comes back', async () => {
    answer = () => ({ text: 'Hi', usage: { promptTokenCount: 1, totalTokenCount: 1, serviceTier: 'flex' } })
    const response = await gateway.post({ messages: [user('Hi')], service_tier: 'flex' })
    expect(await response.json()).toMatchObject({ service_tier: 'flex' })
    expect(lastJson()?.serviceTier).toBe('flex')
    expect((await sent({ service_tier: 'default' }))?.serviceTier).toBe('standard')
    expect((await sent({ service_tier: 'auto' }))?.serviceTier).toBeUndefined()
  })

  test('media go as bytes or as an address', async () => {
    const url = (of: string) => ({ url: of })
    const json = await sent({
      messages: [
        user([
          { type: 'text', text: 'Look' },
          { type: 'text', text: '' },
          { type: 'image_url', image_url: url('data:image/png;base64,aGk=') },
          { type: 'image_url', image_url: url('https://example.com/cat.webp?size=1') },
          { type: 'input_audio', input_audio: { data: 'aGk=', format: 'mp3' } },
          { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,aGk=' } },
          { type: 'file', file: { filename: 'notes.TXT', file_data: 'aGk=' } },
          { type: 'video_url', video_url: url('https://www.youtube.com/watch?v=x') },
        ]),
      ],
    })
    expect(json?.contents).toEqual([
      {
        role: 'user',
        parts: [
          { text: 'Look' },
          { inlineData: { mimeType: 'image/png', data: 'aGk=' } },
          { fileData: { mimeType: 'image/webp', fileUri: 'https://example.com/cat.webp?size=1' } },
          { inlineData: { mimeType: 'audio/mp3', data: 'aGk=' } },
          { inlineData: { mimeType: 'application/pdf', data: 'aGk=' } },
          { inlineData: { mimeType: 'text/plain', data: 'aGk=' } },
          { fileData: { mimeType: 'video/mp4', fileUri: 'https://www.youtube.com/watch?v=x' } },
        ],
      },
    ])
  })

  test('instructions in the middle are said by the user, and one who speaks twice says it in one turn', async () => {
    const system = (content: string) => ({ role: 'system', content })
    const json = await sent({
      messages: [system('A'), { role: 'developer', content: 'B' }, user('1'), system('C'), user('2')],
    })
    expect(json?.systemInstruction).toEqual({ parts: [{ text: 'A' }, { text: 'B' }] })
    expect(json?.contents).toEqual([{ role: 'user', parts: [{ text: '1' }, { text: 'C' }, { text: '2' }] }])
    const alone = await sent({ messages: [system('Say hello')] })
    expect(alone).toMatchObject({ contents: [{ role: 'user', parts: [{ text: 'Say hello' }] }] })
    expect(alone).not.toHaveProperty('systemInstruction')
  })

  test.each([
    [{ logit_bias: { '5': 1 } }, 'logit_bias'],
    [{ modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'mp3' } }, 'audio'],
    [{ tools: [{ type: 'custom', custom: { name: 'note' } }] }, 'tools[0].type'],
    [{ tools: [toTool('9lives')] }, 'tools[0].function.name'],
    [{ messages: [user([{ type: 'hologram', hologram: {} }])] }, 'messages[0].content[0]'],
    [{ messages: [user([{ type: 'image_url', image_url: { url: 'ftp://x/y.png' } }])] }, 'messages[0].content[0]'],
  ])('%p has no place there, which is told with the field', async (body, param) => {
    const before = gateway.upstream.requests.length
    const error = await gateway.fail({ messages: [user('Hello')], ...body })
    const isField = param === 'logit_bias' || param === 'audio'
    expect(error).toMatchObject({ status: 400, code: isField ? 'unsupported_parameter' : 'unsupported_value', param })
    expect(gateway.upstream.requests).toHaveLength(before)
  })
})
