/** OpenAI's Agents SDK, through the Responses API: the built-in model, and upstreams of every format. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import OpenAI from 'openai'
import { z } from 'zod'
import { DEMO, failureOf, type Stage, startStage } from '../../e2e/conformance.ts'
import { SPEAKERS } from '../../e2e/conformance-speakers.ts'
import { installed } from '../npm.ts'

interface Tool {
  name: string
}
interface Agent {
  name: string
}
interface Result {
  finalOutput?: unknown
  rawResponses: { usage: { inputTokens: number; outputTokens: number } }[]
}
interface Streamed extends Result, AsyncIterable<{ type: string }> {
  completed: Promise<void>
}
interface Library {
  Agent: new (settings: {
    name: string
    model: string
    tools?: Tool[]
    outputType?: z.ZodObject
    modelSettings?: object
  }) => Agent
  tool(definition: {
    name: string
    description: string
    parameters: z.ZodObject
    execute(input: unknown): string
  }): Tool
  run(agent: Agent, input: string, options: { stream: true }): Promise<Streamed>
  run(agent: Agent, input: string): Promise<Result>
  setDefaultOpenAIClient(client: OpenAI): void
  setTracingDisabled(isDisabled: boolean): void
}

const modules = await installed(['@openai/agents@0.20.0', 'zod@4.6.7'])

const calls = [
  { name: 'weather', input: { city: 'Oslo' } },
  { name: 'clock', input: { zone: 'UTC' } },
]

describe.skipIf(modules === null)("OpenAI's Agents SDK", () => {
  let stage: Stage
  let library: Library

  beforeAll(async () => {
    stage = await startStage()
    library = await import(join(modules ?? '', '@openai/agents'))
    library.setTracingDisabled(true)
    library.setDefaultOpenAIClient(new OpenAI({ baseURL: stage.baseUrl, apiKey: stage.key, maxRetries: 0 }))
  })
  afterAll(() => stage.close())

  const done: unknown[] = []
  const toAgent = (model: string) => {
    const { Agent, tool } = library
    const make = (name: string, parameters: z.ZodObject, answer: string) =>
      tool({
        ...{ name, description: `Says the ${name}`, parameters },
        execute(input) {
          done.push({ name, input })
          return answer
        },
      })
    const tools = [
      make('weather', z.object({ city: z.string() }), '7 degrees'),
      make('clock', z.object({ zone: z.string() }), 'noon'),
    ]
    return new Agent({ name: 'Ann', model, tools, modelSettings: { reasoning: { effort: 'high', summary: 'auto' } } })
  }
  const ways = [
    (agent: Agent, input: string) => library.run(agent, input),
    async (agent: Agent, input: string) => {
      const streamed = await library.run(agent, input, { stream: true })
      await Array.fromAsync(streamed)
      await streamed.completed
      return streamed
    },
  ]
  const expectBilled = async ({ rawResponses: said }: Result, requests: number) => {
    const { prompt, completion } = await stage.billed(requests)
    expect(said).toHaveLength(requests)
    expect({
      prompt: said.reduce((sum, { usage }) => sum + usage.inputTokens, 0),
      completion: said.reduce((sum, { usage }) => sum + usage.outputTokens, 0),
    }).toEqual({ prompt, completion })
  }

  test('gets a response from the built-in model, and one with its tools, whole and streamed', async () => {
    for (const run of ways) {
      const hello = await run(toAgent(DEMO), 'Hello there')
      expect(hello.finalOutput).toEndWith('You wrote: Hello there')
      await expectBilled(hello, 1)
      const used = await run(toAgent(DEMO), 'Tell me weather and clock.')
      expect(used.finalOutput).toEndWith('The tools answered: 7 degrees; noon')
      await expectBilled(used, 2)
    }
  })

  test('reports an unknown model', async () => {
    expect(await failureOf(library.run(toAgent('no/such'), 'Hello'))).toMatchObject({
      ...{ status: 404, code: 'model_not_found' },
    })
  })

  describe.each(SPEAKERS)('with $name', ({ model, say, limited }) => {
    test('follows tool calls to the final response, whole and streamed', async () => {
      stage.upstream.script(
        say({ reasoning: 'Both will do.', calls }, { reasoning: 'That is all.', text: 'It is noon, at 7 degrees.' }),
      )
      for (const run of ways) {
        done.length = 0
        const result = await run(toAgent(model), 'Go')
        expect(result.finalOutput).toBe('It is noon, at 7 degrees.')
        expect(done).toEqual(calls)
        await expectBilled(result, 2)
      }
    })

    test('reads an object that the schema accepts', async () => {
      stage.upstream.script(say({ text: '{"city":"Oslo"}' }))
      const agent = new library.Agent({ name: 'Ann', model, outputType: z.object({ city: z.string() }) })
      expect((await library.run(agent, 'Oslo')).finalOutput).toEqual({ city: 'Oslo' })
    })

    test('reports a rate limit', async () => {
      stage.upstream.script(limited)
      expect(await failureOf(library.run(toAgent(model), 'Go'))).toMatchObject({ status: 429 })
    })
  })
})
