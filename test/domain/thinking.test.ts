/** How clients request reasoning, in each format. */
import { expect, test } from 'bun:test'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { UNREQUESTED_REASONING } from '../../src/domain/task.ts'
import { type ReasoningRequest, toReasoningRequest } from '../../src/upstreams/dialects/reasoning.ts'

const NOTHING: ReasoningRequest = { isOn: null, effort: null, tokens: null, isHidden: false }
const YES = { isOn: true }
const NO = { isOn: false, isHidden: true }

test("a client that didn't request reasoning gets none, whatever the model is sent", () => {
  const body = { model: 'm', messages: [], reasoning_effort: 'high' as const, [UNREQUESTED_REASONING]: true as const }
  expect(toReasoningRequest(body)).toEqual({ ...NOTHING, ...YES, effort: 'high', isHidden: true })
})

test.each<[asked: object, wish: Partial<ReasoningRequest>]>([
  [{}, {}],
  [{ reasoning_effort: null, reasoning: null, thinking: 'yes' }, {}],
  [{ reasoning_effort: 'xhigh' }, { ...YES, effort: 'xhigh' }],
  [{ reasoning: { effort: 'low' } }, { ...YES, effort: 'low' }],
  [
    { reasoning_effort: 'high', reasoning: { effort: 'low' } },
    { ...YES, effort: 'high' },
  ],
  [{ reasoning: { effort: 'much' } }, {}],
  [{ reasoning: { enabled: true } }, YES],
  [{ thinking: { type: 'adaptive' } }, YES],
  [{ reasoning: { max_tokens: 512 } }, { ...YES, effort: 'minimal', tokens: 512 }],
  [{ reasoning: { max_tokens: 1_024.4 } }, { ...YES, effort: 'low', tokens: 1_024 }],
  [{ thinking: { type: 'enabled', budget_tokens: 8_192 } }, { ...YES, effort: 'medium', tokens: 8_192 }],
  [{ thinking: { budget_tokens: 8_193 } }, { ...YES, effort: 'high', tokens: 8_193 }],
  [
    { reasoning_effort: 'low', thinking: { budget_tokens: 9_000 } },
    { ...YES, effort: 'low', tokens: 9_000 },
  ],
  [{ thinking: { budget_tokens: -1 } }, {}],
  [{ reasoning_effort: 'none' }, NO],
  [{ reasoning: { effort: 'none' } }, NO],
  [{ reasoning_effort: 'high', reasoning: { enabled: false } }, NO],
  [{ reasoning_effort: 'high', thinking: { type: 'disabled' } }, NO],
  [{ reasoning: { max_tokens: 0 } }, NO],
  [{ reasoning: { exclude: true } }, { isHidden: true }],
  [
    { reasoning_effort: 'low', thinking: { display: 'omitted' } },
    { ...YES, effort: 'low', isHidden: true },
  ],
])('%j', (asked, wish) => {
  const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...asked } as CanonicalRequest
  expect(toReasoningRequest(body)).toEqual({ ...NOTHING, ...wish })
})
