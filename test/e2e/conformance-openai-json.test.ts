/** The official client's structured output on a model without it: the gateway enforces it, call by call. */
import { beforeAll, describe, expect, test } from 'bun:test'
import OpenAI, { InternalServerError } from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { forAllTests } from '../support/lifetime.ts'
import type { Script } from '../support/upstream.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'
import { failureOf, PLAIN, startStage, usageOf } from './conformance.ts'

let client: OpenAI

const stage = forAllTests(startStage)
beforeAll(() => {
  client = new OpenAI({ baseURL: stage.baseUrl, apiKey: stage.key, maxRetries: 2 })
})

const response_format = zodResponseFormat(z.object({ city: z.string(), degrees: z.number() }), 'weather')
const request = {
  model: PLAIN,
  messages: [{ role: 'user' as const, content: 'How is Oslo?' }],
  response_format,
}
const include = { stream_options: { include_usage: true } }

const PROSE = 'Sure! Here is the weather:\n\n```json\n{"city": "Oslo", "degrees": 7}\n```\n\nAnything else?'
const HALF = '{"city": "Oslo"}'
const WHOLE = '{"city": "Oslo", "degrees": 7}'
const OSLO = { city: 'Oslo', degrees: 7 }

/** Responds to each call with the next text, then always with the last one. */
function sayInTurn(...texts: string[]): Script {
  let call = 0
  return () => wholeAnswer({ tokens: [texts[Math.min(call++, texts.length - 1)] ?? ''] })
}

const ways = {
  whole: () => client.chat.completions.parse(request),
  streamed: () => client.chat.completions.stream({ ...request, ...include }).finalChatCompletion(),
}

describe.each(Object.entries(ways))('a %s answer', (_, ask) => {
  test('is only the JSON, without its fence and the sentences around it', async () => {
    stage.upstream.script(sayInTurn(PROSE))
    const answer = await ask()
    expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: WHOLE, parsed: OSLO } })
    expect(answer.usage).toEqual(usageOf(await stage.billed()))
    expect((await stage.billed()).calls).toBe(1)
    expect(stage.upstream.requests.at(-1)?.json).not.toHaveProperty('response_format')
  })

  test('that misses the schema causes a second call, and both calls are billed', async () => {
    stage.upstream.script(sayInTurn(HALF, WHOLE))
    const answer = await ask()
    expect(answer.choices[0]?.message.parsed).toEqual(OSLO)
    expect((await stage.billed()).calls).toBe(2)
    expect(answer.usage).toEqual(usageOf(await stage.billed()))
    expect(answer.usage).toMatchObject({ prompt_tokens: 20, completion_tokens: 2 })
    expect(stage.upstream.requests.at(-1)?.body).toContain('degrees')
  })

  test('that never matches the schema is an error, which the client does not retry', async () => {
    stage.upstream.script(sayInTurn(HALF))
    const asked = stage.upstream.requests.length
    const error = await failureOf(ask())
    expect(error).toBeInstanceOf(InternalServerError)
    expect(error).toMatchObject({ status: 502, code: 'schema_not_met', param: 'response_format' })
    expect(stage.upstream.requests.length - asked).toBe(3)
  })
})
