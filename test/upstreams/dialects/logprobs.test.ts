/** Log probabilities as check 22 requires them: complete, and finite numbers. */
import { expect, test } from 'bun:test'
import { toLogprobs } from '../../../src/upstreams/dialects/openai/delta.ts'

const token = { token: 'é', logprob: -0.5, bytes: [195, 169], top_logprobs: [] }

test.each([
  ['complete', { content: [token], refusal: null }, token],
  ['without what can be told from its text', { content: [{ token: 'é', logprob: -0.5 }] }, token],
  ['without a number', { content: [{ ...token, logprob: null }] }, { ...token, logprob: -9999 }],
  ['without end', { content: [{ ...token, logprob: Number.NEGATIVE_INFINITY }] }, { ...token, logprob: -9999 }],
  [
    'that is part of a character',
    { content: [{ token: '\uFFFD', logprob: -1 }] },
    {
      token: '\uFFFD',
      logprob: -1,
      bytes: null,
      top_logprobs: [],
    },
  ],
  ['with bytes that are none', { content: [{ ...token, bytes: ['x', 999] }] }, { ...token, bytes: null }],
  [
    'with others beside it',
    { content: [{ ...token, top_logprobs: [{ token: 'é', logprob: Number.NaN }, 'x', {}] }] },
    { ...token, top_logprobs: [{ token: 'é', logprob: -9999, bytes: [195, 169] }] },
  ],
  [
    'with others as a map',
    { content: [{ ...token, top_logprobs: { é: -0.5 } }] },
    { ...token, top_logprobs: [{ token: 'é', logprob: -0.5, bytes: [195, 169] }] },
  ],
])('a token %s', (_, given, expected) => {
  expect(toLogprobs(given)).toEqual({ content: [expected], refusal: null })
})

test.each([[null], [true], [[]], [{}], [{ content: null }], [{ content: [] }], [{ content: ['x', {}] }]])(
  '%j says nothing',
  (value) => {
    expect(toLogprobs(value)).toBeNull()
  },
)

test('a refusal has them too', () => {
  expect(toLogprobs({ content: null, refusal: [token] })).toEqual({ content: null, refusal: [token] })
})
