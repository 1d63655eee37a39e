/** Any request is either valid for Gemini, or refused with the name of the field. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { checkError, checkStream, checkWhole } from '../support/contract.ts'
import { createGemini, type Gemini } from '../support/gemini-upstream.ts'
import { anyRequest } from './any-request.ts'
import { type GeminiGateway, KEY, MODEL, startGemini } from './gemini-gateway.ts'

let gemini: Gemini
let gateway: GeminiGateway
beforeAll(async () => {
  gemini = createGemini(() => ({ reasoning: 'Hm.', text: 'Hello' }), { key: KEY })
  gateway = await startGemini(gemini)
})
afterAll(() => gateway.stop())

/** Conversations that Gemini refuses and OpenAI accepts: they can't be expressed otherwise. */
const OF_ORDER = [
  'Please ensure that multiturn requests end with a user role.',
  'Please ensure that function call turn comes immediately after a user turn or after a function response turn.',
  'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.',
]

type Fields = Record<string, unknown>

/** Without invalid fields, so that more is tested. */
function toPlausible(request: Fields): Fields {
  const { logit_bias: _, moderation: __, audio: ___, modalities: ____, messages, ...rest } = request
  const text = JSON.stringify(rest.tools ?? null)
  const isCustom = text.includes('"custom"') || /"name":"[-0-9]/.test(text)
  const { tools, tool_choice, parallel_tool_calls, ...others } = rest
  const said = JSON.parse(JSON.stringify(messages), (key, value) =>
    key === 'content' && Array.isArray(value) ? value.map(toKnownPart) : value,
  )
  return {
    ...others,
    ...(isCustom ? {} : { tools, tool_choice, parallel_tool_calls }),
    messages: [...said, { role: 'user', content: 'Go on' }],
  }
}

const toKnownPart = (part: Fields) =>
  ['video_url', 'thinking'].includes(String(part.type)) ? { type: 'text', text: 'x' } : part

const anyOfBoth = fc.oneof(anyRequest(MODEL), anyRequest(MODEL).map(toPlausible))

test('any valid request gets a response, or is rejected for its order or an unsupported field', async () => {
  const seen = { answered: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(anyOfBoth, async (request) => {
      gemini.refused.length = 0
      const response = await gateway.post(request)
      const text = await response.text()
      const asked = {
        choices: Number(request.n ?? 1),
        includeUsage: Boolean(Object(request.stream_options).include_usage),
        logprobs: request.logprobs === true,
      }
      if (response.status === 200) {
        seen.answered++
        if (request.stream) checkStream(text, asked)
        else checkWhole(text, asked)
        return
      }
      seen.refused++
      const { code, param, message } = checkError(response.status, response.headers, text)
      expect(response.status).toBe(400)
      if (code?.startsWith('unsupported_')) expect(param).not.toBeNull()
      else expect(OF_ORDER.some((sentence) => message.includes(sentence))).toBeTrue()
      expect(gemini.refused.filter((sentence) => !OF_ORDER.includes(sentence))).toEqual([])
    }),
    { numRuns: 400 },
  )
  expect(Math.min(seen.answered, seen.refused)).toBeGreaterThan(20)
})
