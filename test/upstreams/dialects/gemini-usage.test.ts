import { expect, test } from 'bun:test'
import { NO_USAGE } from '../../../src/domain/usage.ts'
import { toUsage } from '../../../src/upstreams/dialects/gemini/usage.ts'

const of = (modality: string, tokenCount: number) => ({ modality, tokenCount })

test.each([
  {
    name: 'thoughts are beside the answer, and cached tokens in the prompt',
    found: {
      promptTokenCount: 3_520,
      cachedContentTokenCount: 3_512,
      candidatesTokenCount: 2,
      thoughtsTokenCount: 42,
      totalTokenCount: 3_564,
    },
    usage: { prompt: 3_520, cacheRead: 3_512, completion: 44, reasoning: 42 },
  },
  {
    name: 'what tools read stands beside the prompt',
    found: { promptTokenCount: 10, toolUsePromptTokenCount: 300, candidatesTokenCount: 5, totalTokenCount: 315 },
    usage: { prompt: 310, toolPrompt: 300, completion: 5 },
  },
  {
    name: 'thoughts that the total has in the answer are not counted twice',
    found: { promptTokenCount: 10, candidatesTokenCount: 50, thoughtsTokenCount: 40, totalTokenCount: 60 },
    usage: { prompt: 10, completion: 50, reasoning: 40 },
  },
  {
    name: 'no answer is an answer of no tokens',
    found: { promptTokenCount: 9, totalTokenCount: 311, thoughtsTokenCount: 302 },
    usage: { prompt: 9, completion: 302, reasoning: 302 },
  },
  {
    name: 'audio and images are told apart, but for those that were cached',
    found: {
      promptTokenCount: 1_000,
      cachedContentTokenCount: 300,
      candidatesTokenCount: 1_300,
      totalTokenCount: 2_300,
      promptTokensDetails: [of('TEXT', 100), of('AUDIO', 500), of('IMAGE', 400), of('AUDIO', 0)],
      cacheTokensDetails: [of('AUDIO', 300)],
      candidatesTokensDetails: [of('IMAGE', 1_290)],
    },
    usage: {
      ...{ prompt: 1_000, cacheRead: 300, audioPrompt: 200, imagePrompt: 400 },
      ...{ completion: 1_300, imageCompletion: 1_290 },
    },
  },
  {
    name: 'a part is no larger than what contains it',
    found: {
      promptTokenCount: 10,
      cachedContentTokenCount: 20,
      candidatesTokenCount: 5,
      promptTokensDetails: [of('AUDIO', 432)],
      candidatesTokensDetails: [of('AUDIO', 9), of('IMAGE', 9)],
    },
    usage: { prompt: 10, cacheRead: 10, completion: 5, audioCompletion: 5 },
  },
  {
    name: 'figures that are none count for nothing',
    found: { promptTokenCount: 10, candidatesTokenCount: '5', thoughtsTokenCount: -1, cachedContentTokenCount: 1e300 },
    usage: { prompt: 10 },
  },
])('$name', ({ found, usage }) => {
  expect(toUsage(found)).toEqual({ ...NO_USAGE, ...usage })
})

test('a report without prompt tokens is ignored', () => {
  for (const found of [undefined, null, [], {}, { trafficType: 'ON_DEMAND' }, { promptTokenCount: null }])
    expect(toUsage(found)).toBeNull()
})

test('web searches are reported in another field', () => {
  expect(toUsage({ promptTokenCount: 1 }, 2)).toEqual({ ...NO_USAGE, prompt: 1, webSearches: 2 })
})
