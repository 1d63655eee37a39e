/** Several choices of a Gemini upstream that writes them in one call. */
import { expect, test } from 'bun:test'
import { createGemini, toEvent } from '../support/gemini-upstream.ts'
import type { Behaviour } from '../support/upstream-answers.ts'
import { KEY, startGemini } from './gemini-gateway.ts'

const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 4, totalTokenCount: 14 }
const said = (index: number, text: string, finishReason?: string) => ({
  index,
  content: { role: 'model', parts: [{ text }] },
  ...(finishReason ? { finishReason } : {}),
})
const whole: Behaviour = {
  kind: 'whole',
  body: { candidates: [said(0, 'One and', 'MAX_TOKENS'), said(1, 'Two.', 'STOP')], usageMetadata },
}
const streamed: Behaviour = {
  kind: 'stream',
  // The second begins first, and each ends in its own chunk.
  steps: [
    { candidates: [said(1, 'Tw')], usageMetadata },
    { candidates: [said(0, 'One'), said(1, 'o.', 'STOP')], usageMetadata },
    { candidates: [said(0, ' and', 'MAX_TOKENS')], usageMetadata },
  ].map(toEvent),
  end: 'eof',
}

test.each([false, true])('they arrive with indexes and one usage, streamed: %p', async (stream) => {
  const gemini = createGemini(() => (stream ? streamed : whole), { key: KEY, thinks: 'no', signs: false })
  const gateway = await startGemini(gemini, { upstream: ', n: true', features: 'tools' })
  const body = { messages: [{ role: 'user', content: 'Go' }], n: 2, stream }
  const { choices, usage } = await gateway.ask({
    ...body,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  })
  expect(choices).toMatchObject([
    { index: 0, content: 'One and', finish: 'length' },
    { index: 1, content: 'Two.', finish: 'stop' },
  ])
  expect(usage).toMatchObject({ prompt: 10, completion: 4 })
  expect(gateway.upstream.requests.map(({ json }) => json?.generationConfig)).toEqual([{ candidateCount: 2 }])
  await gateway.stop()
})
