/** The description of the public API: valid, complete, the same for all, and consistent with the responses. */
import { describe, expect, test } from 'bun:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { TSchema } from '@sinclair/typebox'
import { Ajv } from 'ajv'
import { GEMINI_METHODS } from '../../src/formats/gemini/path.ts'
import { ApiError, ChatCompletion, ChatCompletionChunk, Health, ModelList } from '../../src/http/openapi/schemas.ts'
import { toProblems } from '../support/described.ts'
import { DOORS, startDoors } from '../support/doors.ts'
import { toFrames } from '../support/frames.ts'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'

const gateway = forAllTests(startGateway)

const get = (path: string, init: RequestInit = {}) => fetch(`${gateway.app.origin}${path}`, init)
// biome-ignore lint/suspicious/noExplicitAny: for a test to look into
const read = async (): Promise<any> => (await get('/v1/openapi.json')).json()

test('it is valid OpenAPI 3.1, without a key', async () => {
  const document = await read()
  expect(document.openapi).toStartWith('3.1.')
  expect(await new Validator().validate(document)).toMatchObject({ valid: true })
})

test('it is compressed for clients that accept that', async () => {
  const [packed, plain] = await Promise.all(
    ['br, gzip', 'gzip;q=0'].map((accepted) => get('/v1/openapi.json', { headers: { 'accept-encoding': accepted } })),
  )
  expect([packed, plain].map((answer) => answer?.headers.get('content-encoding'))).toEqual(['gzip', null])
  expect(await packed?.text()).toBe(String(await plain?.text()))
})

test('it has exactly the paths that are served', async () => {
  const { paths } = await read()
  expect(Object.keys(paths).sort()).toEqual([
    ...['/healthz', '/readyz', '/v1/audio/speech', '/v1/audio/transcriptions', '/v1/audio/translations'],
    ...['/v1/batches', '/v1/batches/{id}', '/v1/batches/{id}/cancel'],
    ...['/v1/chat/completions', '/v1/completions', '/v1/embeddings'],
    ...['/v1/files', '/v1/files/{id}', '/v1/files/{id}/content'],
    ...['/v1/images/edits', '/v1/images/generations'],
    ...['/v1/messages', '/v1/messages/batches', '/v1/messages/batches/{id}', '/v1/messages/batches/{id}/cancel'],
    '/v1/messages/batches/{id}/results',
    '/v1/messages/count_tokens',
    ...['/v1/models', '/v1/models/{model}', '/v1/moderations', '/v1/openapi.json', '/v1/rerank', '/v1/responses'],
    ...['/v1/responses/input_tokens', '/v1beta/models', '/v1beta/models/{model}'],
    ...[...GEMINI_METHODS].sort().map((method) => `/v1beta/models/{model}:${method}`),
    '/v2/rerank',
  ])
  for (const [path, methods] of Object.entries(paths)) {
    const asked = await get(path.replace('{model}', 'acme/large'), { method: 'OPTIONS' })
    expect([path, asked.headers.get('allow')]).toEqual([
      path,
      Object.keys(methods as object)
        .join(', ')
        .toUpperCase(),
    ])
  }
})

test('it reveals nothing of the configuration', async () => {
  const text = await (await get('/v1/openapi.json')).text()
  for (const word of ['acme', 'paid', gateway.app.origin, ...gateway.app.secrets]) expect(text).not.toContain(word)
})

describe('responses of each endpoint match it, from any upstream', () => {
  const doors = forAllTests(startDoors)

  test.each(DOORS.filter(({ client }) => !client.isBytes))('$name', async (door) => {
    await doors.calm(door)
    const response = await doors.ask(door)
    const { paths, components } = await read()
    const path = door.client.pathOf ? '/v1beta/models/{model}:generateContent' : `/v1${door.client.path}`
    const { content } = paths[path].post.responses[200]
    const type = response.headers.get('content-type') ?? ''
    const answer = await response.text()
    if (type.startsWith('audio/')) return expect(content).toHaveProperty(['audio/*'])
    const { schema } = content['application/json']
    const validate = new Ajv({ strict: false }).compile({ ...schema, components })
    expect([validate(JSON.parse(answer)), validate.errors]).toEqual([true, null])
  })
})

test('responses match it', async () => {
  const authorization = `Bearer ${gateway.key}`
  const whole = await (await gateway.chat({ logprobs: true })).json()
  const { frames } = toFrames(
    await (await gateway.chat({ stream: true, stream_options: { include_usage: true } })).text(),
  )
  const told: [TSchema, unknown][] = [
    [ChatCompletion, whole],
    ...frames.map((frame): [TSchema, unknown] => [ChatCompletionChunk, frame]),
    [ModelList, await (await get('/v1/models', { headers: { authorization } })).json()],
    [ApiError, await (await get('/v1/models')).json()],
    [Health, await (await get('/readyz')).json()],
  ]
  for (const [schema, answer] of told) expect(toProblems(schema, answer)).toEqual([])
})
