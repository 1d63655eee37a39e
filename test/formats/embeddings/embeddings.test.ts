/** Embeddings for clients: valid and invalid bodies, the resulting request, and the response. */

import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/domain/error.ts'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import type { EmbeddingsTask } from '../../../src/domain/task.ts'
import { EmbeddingsRequest } from '../../../src/domain/task.ts'
import { NO_USAGE } from '../../../src/domain/usage.ts'
import { chat } from '../../../src/formats/chat/chat.ts'
import { embeddings } from '../../../src/formats/embeddings/embeddings.ts'
import { fromBase64 } from '../../support/embedding-answers.ts'

const read = (body: unknown) => embeddings.toTask(body)

function toTask(body: Record<string, unknown>): EmbeddingsTask {
  const task = read({ model: 'm', ...body })
  if (task instanceof GatewayError) throw task
  return task
}

function refusalOf(body: unknown): GatewayError {
  const task = read(body)
  if (task instanceof GatewayError) return task
  throw new Error('it was let through')
}

describe('a body is refused', () => {
  const rows: [string, unknown, string | null, RegExp?][] = [
    ["that isn't an object", [], null],
    ['without a model', { input: 'a' }, null, /model parameter/],
    ['without an input', { model: 'm' }, 'input'],
    ['with an empty text', { model: 'm', input: '' }, 'input', /empty/],
    ['with no inputs', { model: 'm', input: [] }, 'input', /empty/],
    ['with an empty one among them', { model: 'm', input: ['a', ''] }, 'input[1]', /empty/],
    ['with an empty list of tokens', { model: 'm', input: [[1], []] }, 'input[1]', /empty/],
    ['with inputs of several kinds', { model: 'm', input: ['a', [1]] }, 'input[1]'],
    ["with a token that isn't a whole number", { model: 'm', input: [1, 2.5] }, 'input[1]'],
    ['with a token below zero', { model: 'm', input: [[1, -2]] }, 'input[0]'],
    ['with an object', { model: 'm', input: { text: 'a' } }, 'input', /an object/],
    ['with null', { model: 'm', input: null }, 'input', /null/],
    ['with more inputs than 2048', { model: 'm', input: Array(2_049).fill('a') }, 'input', /too long/],
    ['with an unknown encoding', { model: 'm', input: 'a', encoding_format: 'hex' }, 'encoding_format'],
    ['with no dimensions', { model: 'm', input: 'a', dimensions: 0 }, 'dimensions'],
    ['that requests quantized vectors', { model: 'm', input: 'a', output_dtype: 'int8' }, 'output_dtype'],
  ]
  test.each(rows)('%s', (_, body, param, words = /./) => {
    const refusal = refusalOf(body)
    expect(refusal).toMatchObject({ status: 400, param })
    expect(refusal.message).toMatch(words)
  })
})

test('upstream errors about messages are reported as errors about the input', () => {
  const said = (param: string) => embeddings.error(new GatewayError('upstream_rejected', 'Too long.', { param }))
  expect(said('messages')).toMatchObject({ error: { message: 'Too long.', param: 'input' } })
  expect(said('dimensions')).toMatchObject({ error: { param: 'dimensions' } })
})

describe('a request', () => {
  test('has no output, and reserves no output tokens', () => {
    expect(toTask({ input: 'a' })).toMatchObject({ endpoint: 'embeddings', stream: false, cap: 0 })
    expect(toTask({ input: 'a' }).body).toMatchObject({ max_tokens: 0 })
  })

  test.each([
    ['a', ['a']],
    [
      ['a', 'b'],
      ['a', 'b'],
    ],
    [[1, 2], [[1, 2]]],
    [
      [[1], [2, 3]],
      [[1], [2, 3]],
    ],
  ])('splits the inputs of %p', (input, inputs) => {
    expect(toTask({ input }).body.inputs).toEqual(inputs)
  })

  test('is estimated by bytes and tokens, plus two tokens per input', () => {
    expect(toTask({ input: ['12345678', 'é'] })).toMatchObject({ promptTokens: 3 + 4, maxPromptTokens: 10 + 4 })
    expect(toTask({ input: [[1, 2, 3]] })).toMatchObject({ promptTokens: 3 + 2, maxPromptTokens: 3 + 2 })
  })

  test('keeps fields that only upstreams know, but not chat fields or misspelled ones', () => {
    const { body } = toTask({ input: 'a', user: 'u', truncate: 'END', n: 3, stream: true, Input: 'b', tools: [] })
    expect({ ...body }).toMatchObject({
      ...{ model: 'm', max_tokens: 0, user: 'u', extras: { truncate: 'END' } },
      ...{ inputs: ['a'], dimensions: null, encoding: 'float' },
    })
  })

  test("isn't created from a field of chats", () => {
    const asked = {
      model: 'm',
      messages: [{ role: 'user', content: 'Hi' }],
      inputs: ['a'],
      dimensions: 3,
      encoding: 'float',
    }
    const task = chat.toTask(asked)
    expect(task instanceof Error ? task : task.body).not.toBeInstanceOf(EmbeddingsRequest)
  })
})

const VALUES = [0.1, -2.5, 3e-9]
const vectors = [VALUES, new Float32Array(VALUES)]
const events: AnswerEvent[] = [{ kind: 'embeddings', vectors }, { kind: 'done' }]
const receipt = { usage: { ...NO_USAGE, prompt: 7 }, costNanoUsd: 140, durationMs: 5 }

function write(encoding: string) {
  const task = toTask({ input: ['a', 'b'], encoding_format: encoding })
  const pieces = embeddings.whole(task, { id: 'i', created: 1, model: 'acme/embed' }, events, receipt)
  return JSON.parse([...pieces].join(''))
}

test('a response has numbers as received, with all digits of a 32-bit float', () => {
  expect(write('float')).toEqual({
    object: 'list',
    data: [
      { object: 'embedding', index: 0, embedding: VALUES },
      { object: 'embedding', index: 1, embedding: VALUES.map(Math.fround) },
    ],
    model: 'acme/embed',
    usage: { prompt_tokens: 7, total_tokens: 7, cost_nano_usd: 140, cost: 1.4e-7 },
  })
})

test('base64 has the same 32-bit floats, in little-endian order', () => {
  const { data } = write('base64')
  for (const { embedding } of data) expect(fromBase64(embedding)).toEqual(VALUES.map(Math.fround))
})
