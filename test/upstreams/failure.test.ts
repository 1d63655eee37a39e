/** Failures caused by a credential, by the codes and messages of providers. */
import { describe, expect, test } from 'bun:test'
import { toCredentialFailure } from '../../src/upstreams/failure.ts'

const said = (message: string, code: string | null = null, retryAfterMs: number | null = null) =>
  toCredentialFailure({ kind: 'status', status: 429, code, message, retryAfterMs, isOwnLimit: false })

describe("a limit per minute is not the credential's fault", () => {
  test.each([
    [
      'OpenAI, which asks for a payment method',
      'Rate limit reached for gpt-4o in organization org-1 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s. You can increase your rate limit by adding a payment method to your account at https://platform.openai.com/account/billing.',
      'rate_limit_exceeded',
    ],
    [
      'Groq, which offers more',
      'Rate limit reached for model `llama-3.3-70b` on tokens per minute (TPM): Limit 6000, Used 5900, Requested 400. Need more tokens? Upgrade today at https://console.groq.com/settings/billing',
      'rate_limit_exceeded',
    ],
    ['OpenRouter', 'Rate limit exceeded: free-models-per-min. Add 10 credits to unlock more.', '429'],
    ['Vertex, which shares what it has', 'Resource exhausted. Please try again later.', 'RESOURCE_EXHAUSTED'],
    [
      'Vertex, by the minute',
      'Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_model.',
      'RESOURCE_EXHAUSTED',
    ],
  ])('%s', (_, message, code) => {
    expect(said(message, code)).toBeNull()
  })
})

describe('a spent quota suspends its credential', () => {
  test.each([
    ['by its code', 'Please look at your account.', 'insufficient_quota', null],
    ['by its words', 'You exceeded your current quota, please check your plan and billing details.', null, null],
    ['of a day', 'Rate limit exceeded: free-models-per-day. Add 10 credits to unlock more.', '429', null],
    ['of a day, beside one of a minute', 'Limits: 5 requests per minute, 100 per day.', null, 7_200_000],
  ])('%s', (_, message, code, retryAfterMs) => {
    const forMs = retryAfterMs === null ? 60_000 : 3_600_000
    expect(said(message, code, retryAfterMs)).toMatchObject({ state: 'out_of_quota', forMs })
  })

  test('unless it resets soon', () => {
    expect(said('You exceeded your current quota.', null, 34_400)).toBeNull()
  })
})
