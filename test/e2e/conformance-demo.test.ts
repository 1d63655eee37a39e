/**
 * The built-in model as a substitute for any model: every valid request gets a response in the contract's shape, whole
 * or streamed.
 */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { anyRequest } from '../gateway/any-request.ts'
import { checkHeaders, checkStream, checkWhole, type Report } from '../support/contract.ts'
import { forAllTests } from '../support/lifetime.ts'
import { DEMO, startStage } from './conformance.ts'

const stage = forAllTests(startStage)

async function ask(body: Record<string, unknown>): Promise<Report> {
  const response = await fetch(`${stage.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${stage.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  expect({ status: response.status, text }).toMatchObject({ status: 200 })
  const asked = { model: DEMO, choices: Number(body.n ?? 1), includeUsage: true, logprobs: body.logprobs === true }
  checkHeaders(body.stream ? 'stream' : 'whole', response.headers)
  return body.stream ? checkStream(text, asked) : checkWhole(text, asked)
}

/** Fields that may differ between two responses to one request: IDs and times. */
const sayingOf = ({ choices, usage }: Report) => ({
  usage,
  choices: choices.map((choice) => ({ ...choice, toolCalls: choice.toolCalls.map(({ id: _, ...call }) => call) })),
})

/** The demo doesn't support grammars of custom tools. */
const hasNoGrammar = (request: object) => !JSON.stringify(request).includes('"grammar"')

test('any valid request succeeds, with the same content and cost whole and streamed', async () => {
  await fc.assert(
    fc.asyncProperty(anyRequest(DEMO).filter(hasNoGrammar), async (request) => {
      const whole = await ask({ ...request, stream: false, stream_options: null })
      const { prompt, completion, cached, reasoning } = await stage.billed()
      expect(whole.usage).toEqual({ prompt, completion, cached, reasoning })
      const streamed = await ask({ ...request, stream: true, stream_options: { include_usage: true } })
      expect(sayingOf(streamed)).toEqual(sayingOf(whole))
      expect(await stage.billed()).toMatchObject({ prompt, completion, cached, reasoning })
    }),
    { numRuns: 100 },
  )
})
