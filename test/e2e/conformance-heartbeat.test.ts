/** Keep-alives of idle streams, as real clients read them. */
import { describe, expect, test } from 'bun:test'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI } from '@langchain/openai'
import { streamText } from 'ai'
import OpenAI, { APIError } from 'openai'
import { forAllTests } from '../support/lifetime.ts'
import type { Script } from '../support/upstream.ts'
import { errorAnswer, streamAnswer } from '../support/upstream-answers.ts'
import { failureOf, startStage } from './conformance.ts'
import { SLOPPY } from './conformance-upstream.ts'

const stage = forAllTests(() => startStage('--heartbeat', '1s'))

/** Every client that streams, and its final text. */
const clients: Record<string, () => Promise<string>> = {
  openai: async () => String(await toOpenAI().chat.completions.stream(request).finalContent()),
  'ai-sdk': async () => {
    const provider = createOpenAICompatible({ name: 'tollgate', baseURL: stage.baseUrl, apiKey: stage.key })
    return streamText({ model: provider(SLOPPY), prompt: 'Hello', maxRetries: 0 }).text
  },
  langchain: async () => {
    const { baseUrl: baseURL, key: apiKey } = stage
    const model = new ChatOpenAI({ model: SLOPPY, apiKey, maxRetries: 0, configuration: { baseURL } })
    return (await Array.fromAsync(await model.stream('Hello'))).map(({ text }) => text).join('')
  },
  'the raw stream': () =>
    toOpenAI()
      .chat.completions.create({ ...request, stream: true })
      .asResponse()
      .then(readText),
}
const request = { model: SLOPPY, messages: [{ role: 'user' as const, content: 'Hello' }] }
const toOpenAI = () => new OpenAI({ baseURL: stage.baseUrl, apiKey: stage.key, maxRetries: 0 })
const readText = (response: Response) => response.text()

/** Reasons for longer than the keep-alive interval, before its first word and between two. */
const slow: Script = () => {
  const answer = streamAnswer({ tokens: ['Good ', 'morning'] })
  const [role = {}, first = {}, ...rest] = answer.steps
  return { ...answer, steps: [{ waitMs: 1_600 }, role, first, { waitMs: 1_600 }, ...rest] }
}

describe('while the model is silent', () => {
  test('keep-alives keep the stream open, and no client reads them as words', async () => {
    stage.upstream.script(slow)
    const answers = await Promise.all(Object.entries(clients).map(async ([name, ask]) => ({ [name]: await ask() })))
    const { 'the raw stream': raw, ...read } = Object.assign({}, ...answers)
    expect(read).toEqual({ openai: 'Good morning', 'ai-sdk': 'Good morning', langchain: 'Good morning' })
    expect(raw).toStartWith(': keep-alive\n\n')
    expect(raw.split(': keep-alive\n\n')).toHaveLength(3)
  })

  test('a failure after the first keep-alive is an error of the stream', async () => {
    stage.upstream.script({ ...errorAnswer(500, 'out of order'), delayMs: 1_600 })
    const error = await failureOf(toOpenAI().chat.completions.stream(request).finalContent())
    expect(error).toBeInstanceOf(APIError)
    expect(error).toMatchObject({ status: undefined, code: 'upstream_failed', type: 'server_error' })
  })
})
