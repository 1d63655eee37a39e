/** Items of single events, and the names of a client's tools for models. */
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/domain/error.ts'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import { NO_USAGE } from '../../../src/domain/usage.ts'
import { responses } from '../../../src/formats/responses/responses.ts'
import { ToolNames } from '../../../src/formats/responses/tools.ts'
import { checkResponseStream, type Json } from '../../support/responses-contract.ts'

const IDENTITY = { id: '0199'.repeat(8), created: 1_763_726_400, model: 'a/b' }
const RECEIPT = { usage: NO_USAGE, costNanoUsd: 0, durationMs: 0 }
const choice = 0

function play(events: AnswerEvent[], asked: object = {}, beyond: string[] = []) {
  const task = responses.toTask({ model: 'a/b', input: 'x', ...asked }, { text: '', headers: {} })
  if (task instanceof GatewayError) throw task
  const writer = responses.writer(task, IDENTITY)
  const body = writer.take([...events, { kind: 'finish', choice, reason: 'stop' }]) + writer.tail(RECEIPT)
  const report = checkResponseStream(body, { beyond })
  return { ...report, output: report.response.output as Json[] }
}

const one = { token: 'a', logprob: -0.5, bytes: null }
const said: AnswerEvent = {
  ...{ kind: 'text', choice, text: 'a' },
  logprobs: { content: [{ ...one, top_logprobs: [one] }], refusal: null },
}
const told = { token: 'a', logprob: -0.5, bytes: [] }

test.each([
  ['requested', { include: ['message.output_text.logprobs'] }, [{ ...told, top_logprobs: [told] }]],
  ['not requested', {}, []],
])('log probabilities that were %s', (_, asked, logprobs) => {
  const { output, events } = play([said], asked)
  expect(output).toMatchObject([{ content: [{ text: 'a', logprobs }] }])
  expect(events.find(({ type }) => type === 'response.output_text.delta')).toMatchObject({ logprobs })
})

test('a URL citation becomes an annotation of the text; a file citation, which has no ID here, is dropped', () => {
  const url_citation = { url: 'https://a', title: 'A', start_index: 0, end_index: 1, content: 'quoted' }
  const items = [
    { type: 'url_citation', url_citation, index: 0 },
    { type: 'file_citation', file_citation: { filename: 'b' }, index: 1 },
  ]
  const { output, events } = play([said, { kind: 'annotations', choice, items }])
  const { content: _, ...citation } = { type: 'url_citation', ...url_citation }
  expect(output).toMatchObject([{ content: [{ annotations: [citation] }] }])
  expect(events.filter(({ type }) => type === 'response.output_text.annotation.added')).toMatchObject([
    { annotation_index: 0, annotation: citation },
  ])
})

test('a generated image is the result of an image generation call', () => {
  const items = [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' }, index: 0 }]
  const { output } = play([said, { kind: 'images', choice, items }], {}, ['image_generation_call'])
  expect(output).toMatchObject([
    { type: 'message', status: 'completed' },
    { type: 'image_generation_call', id: `ig_${IDENTITY.id}_1`, status: 'completed', result: 'AAAA' },
  ])
})

test("every later response object has the upstream's service tier", () => {
  const { response } = play([{ kind: 'origin', origin: { service_tier: 'flex' } }, said])
  expect(response.service_tier).toBe('flex')
})

test('U+2028 and similar characters are escaped, since some clients split lines there', () => {
  const task = responses.toTask({ model: 'a/b', input: 'x', instructions: 'a\u2028b' }, { text: '', headers: {} })
  if (task instanceof GatewayError) throw task
  const writer = responses.writer(task, IDENTITY)
  expect(writer.take([{ kind: 'text', choice, text: '\u2029' }]) + writer.tail(RECEIPT)).not.toMatch(/[\u2028\u2029]/)
})

test("the descriptions of a namespace's tools have a limit per request", () => {
  const tools = Array.from({ length: 1_000 }, (_, at) => ({ type: 'function', name: `f${at}` }))
  const ask = (namespace: object) =>
    responses.toTask({ model: 'a/b', input: 'x', tools: [namespace] }, { text: '', headers: {} })
  const task = ask({ type: 'namespace', name: 'n', description: 'd'.repeat(100_000), tools })
  if (task instanceof GatewayError) throw task
  expect(JSON.stringify(task.body.tools).length).toBeLessThan(200_000)
  const refused = ask({ type: 'namespace', name: 'n'.repeat(100_000), tools })
  expect(refused).toMatchObject({ status: 400, param: 'tools[0].name' })
})

describe('the name of a tool', () => {
  const names = new ToolNames()
  const long = 'x'.repeat(80)

  test.each([
    ['a function', { type: 'function', name: 'look' }, /^look$/],
    ['one of a namespace', { type: 'function', name: 'look', namespace: 'ns' }, /^ns__look$/],
    ['a function with the same name', { type: 'function', name: 'ns__look' }, /^ns__look_[0-9a-f]{8}$/],
    ["a custom tool with a function's name", { type: 'custom', name: 'look' }, /^look_[0-9a-f]{8}$/],
    ['one with letters that others do not take', { type: 'function', name: 'a.b/c' }, /^a_b_c$/],
    ['a long one', { type: 'function', name: long, namespace: 'ns' }, /^ns__x{51}_[0-9a-f]{8}$/],
    ['the shell', { type: 'local_shell' }, /^local_shell$/],
  ] as const)('%s', (_, tool, name) => {
    expect(names.nameOf(tool)).toMatch(name)
    expect(names.nameOf(tool).length).toBeLessThanOrEqual(64)
    expect(names.toolOf(names.nameOf(tool))).toEqual(tool)
  })

  test('that no one declared is a function', () => {
    expect(names.toolOf('unheard_of')).toEqual({ type: 'function', name: 'unheard_of' })
  })
})
