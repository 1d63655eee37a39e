/** Fields that Tollgate removes from a request written for another model. */
import { expect, test } from 'bun:test'
import type { Feature } from '../../src/domain/models.ts'
import type { Task } from '../../src/domain/task.ts'
import { messages } from '../../src/formats/messages/messages.ts'
import { toAble } from '../../src/gateway/eligibility.ts'
import { toTarget } from '../support/snapshot.ts'

const asked = messages.toTask(
  {
    model: 'acme/large',
    max_tokens: 32_000,
    messages: [{ role: 'user', content: 'Hi' }],
    thinking: { type: 'enabled', budget_tokens: 5_000 },
    tools: [{ type: 'web_search_20250305', name: 'web_search' }],
  },
  { text: '', headers: {} },
)
if (asked instanceof Error) throw asked
const task: Task = asked

const MAX = 1_000
const facts = (...features: Feature[]) => ({
  ...{ id: 'acme/large', max_output_length: MAX, input_modalities: ['text' as const], supported_features: features },
})
const target = (fields: Partial<ReturnType<typeof toTarget>> = {}, pass: string[] = []) => {
  const plain = toTarget()
  return { ...plain, upstream: { ...plain.upstream, options: { ...plain.upstream.options, pass } }, ...fields }
}

test("a cap is lowered to the model's maximum over its routes", () => {
  const able = toAble(task, facts(), [target({ maxOutputLength: 200 }), target({ maxOutputLength: 600 })])
  expect({ cap: able.cap, sent: able.body.max_tokens }).toEqual({ cap: 600, sent: 600 })
  expect(toAble({ ...task, body: { ...task.body, max_tokens: 50 } }, facts(), [target()]).cap).toBe(50)
})

test("reasoning is dropped if the model doesn't reason", () => {
  const { body } = toAble(task, facts('reasoning'), [target()])
  expect(body).toMatchObject({ reasoning_effort: 'medium', thinking: { type: 'enabled' } } as object)
  const without = toAble(task, facts('tools'), [target()]).body
  expect(Object.keys(without)).toEqual(['model', 'messages', 'max_tokens'])
})

test('a web search stays if the model searches and one of its upstreams may be called for it', () => {
  const isKept = (features: Feature[], pass: string[]) =>
    'web_search_options' in toAble(task, facts(...features), [target(), target({}, pass)]).body
  expect(isKept(['web_search'], ['web_search_options'])).toBeTrue()
  expect(isKept(['web_search'], [])).toBeFalse()
  expect(isKept(['tools'], ['web_search_options'])).toBeFalse()
})

test('nothing is removed for a client that knows its model', () => {
  const { isForAnyModel: _, ...exact } = task
  expect(toAble(exact, facts(), [target()])).toBe(exact)
})
