/** Error responses of model servers, as they send them, and the resulting errors. */
import { expect, test } from 'bun:test'
import { readFailure } from '../../src/upstreams/dialects/errors.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { ENGINE_ERRORS } from '../fixtures/engines/errors.ts'
import { toTarget } from '../support/snapshot.ts'

const noHeaders = { header: () => null }

test.each(ENGINE_ERRORS)('$engine: $said has its meaning', ({ status, body, means }) => {
  const error = readFailure(openai, status, JSON.stringify(body), noHeaders, toTarget({ local: true }))
  const { isBusy, isSpoiled, retryable, code } = error
  expect({ status: error.status, code, retryable, isBusy, isSpoiled }).toEqual({
    ...{ code: null, isBusy: false, isSpoiled: false },
    ...means,
  })
})

test('the same words in a refusal, or within other words, keep their usual meaning', () => {
  const said = (status: number, message: string) =>
    readFailure(openai, status, JSON.stringify({ error: { message } }), noHeaders, toTarget())
  expect(said(429, 'Loading model')).toMatchObject({ status: 429, isBusy: false })
  expect(said(500, 'The user asked why the context size has been exceeded.')).toMatchObject({
    status: 500,
    isBusy: false,
  })
})
