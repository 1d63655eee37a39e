/** The OpenAPI description is valid, complete, and needs sign-in; `described.ts` checks that it is true. */
import { expect, test } from 'bun:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { forEachTest } from '../support/lifetime.ts'
import type { Operation, Paths } from './described.ts'
import { createFixture, PUBLIC_URL } from './fixture.ts'

const fixture = forEachTest(createFixture)

const read = async () =>
  (await fixture.createBrowser().ask('GET', '/openapi.json', { headers: await fixture.tokenHeaders('read') })).body

test('it is valid OpenAPI 3.1', async () => {
  const document = await read()
  expect(document.openapi).toStartWith('3.1.')
  expect(await new Validator().validate(document)).toMatchObject({ valid: true })
})

test('every route is in it, with a summary, its least role, its errors, and its responses', async () => {
  const paths: Paths = (await read()).paths
  const operations = new Map<string, Operation>()
  for (const [path, methods] of Object.entries(paths))
    for (const [method, operation] of Object.entries(methods))
      operations.set(`${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`, operation)
  expect([...operations.keys()].sort()).toEqual(fixture.admin.routes.map((one) => `${one.method} ${one.path}`).sort())
  for (const { method, path, least } of fixture.admin.routes) {
    const one = operations.get(`${method} ${path}`)
    const { responses = {}, parameters = [], requestBody } = one ?? {}
    const statuses = Object.keys(responses).map(Number)
    expect({
      ...{ path, said: (one?.summary ?? '') !== '', least: one?.['x-least-role'] ?? 'anyone', tags: one?.tags.length },
      answers: statuses.filter((status) => status < 400).length,
      closed: statuses.includes(403) && (least === 'anyone' || statuses.includes(401)),
    }).toEqual({ path, said: true, least, tags: 1, answers: 1, closed: true })
    const fields = Object.entries(requestBody?.content['application/json']?.schema.properties ?? {})
    expect([path, statuses.includes(411) && requestBody === undefined]).toEqual([path, false])
    const told = [...parameters.map((parameter) => [parameter.name, parameter] as const), ...fields]
    expect([path, told.filter(([, { description }]) => description === undefined)]).toEqual([path, []])
  }
  const names = [...operations.values()].map(({ operationId }) => operationId)
  expect(new Set(names).size).toBe(names.length)
})

test('the body of a change has its fields, and which are required', async () => {
  const { content } = (await read()).paths['/admin/api/keys'].post.requestBody
  const { properties, required, additionalProperties } = content['application/json'].schema
  expect([Object.keys(properties).includes('budget_nano_usd'), required, additionalProperties]).toEqual([
    ...[true, ['name'], false],
  ])
})

test('bodies are JSON except for audio, and the playground accepts the same as the public API', async () => {
  const { paths, components } = await read()
  const types = Object.values(paths as Paths).flatMap((methods) =>
    Object.values(methods).flatMap(({ requestBody }) => Object.keys(requestBody?.content ?? {})),
  )
  expect(new Set(types)).toEqual(new Set(['application/json', 'multipart/form-data']))
  const { requestBody, responses } = paths['/admin/api/playground'].post
  expect(requestBody.content['application/json'].schema.$ref).toBe('#/components/schemas/ChatRequest')
  expect(components.schemas.ChatRequest.required).toEqual(['model', 'messages'])
  expect([responses[429], responses[403]].map(({ content }) => content['application/json'].schema.$ref)).toEqual([
    ...['#/components/schemas/ApiError', '#/components/schemas/Refusal'],
  ])
})

test('the session cookie has its name at the host of the request', async () => {
  for (const origin of [PUBLIC_URL, 'http://localhost:8787']) {
    const browser = fixture.createBrowser(origin)
    const headers = await fixture.tokenHeaders(origin === PUBLIC_URL ? 'read' : 'write')
    const { components } = (await browser.ask('GET', '/openapi.json', { headers })).body
    expect([origin, components.securitySchemes.session.name]).toEqual([
      ...[origin, origin === PUBLIC_URL ? '__Host-tollgate' : 'tollgate-8787'],
    ])
  }
})

test.each([
  ['/failures', 'step', ['day', 'hour'], ['week', 'DAY', '']],
  ['/usage', 'by', ['key', 'key,model', 'user,hour'], ['keys', 'key,model,day', '']],
  [
    '/usage',
    'since',
    ['7d', '12h', 'yesterday', '1700000000000', '2023-01-31', '2023-01-31T10:00Z'],
    ['tomorrow', '7', '31.1.2023'],
  ],
])('%s says which values %s takes, and takes those alone', async (path, name, taken, refused) => {
  fixture.clock.ms = Date.UTC(2026, 0, 1)
  const viewer = await fixture.signIn('viewer')
  const { parameters } = (await read()).paths[`/admin/api${path}`].get
  const { enum: words, pattern } = parameters.find((one: { name: string }) => one.name === name).schema
  for (const value of [...taken, ...refused]) {
    const isTold = words ? words.includes(value) : new RegExp(pattern).test(value)
    const { status } = await viewer.ask('GET', `${path}?${name}=${encodeURIComponent(value)}`)
    expect([value, isTold, status]).toEqual([value, taken.includes(value), taken.includes(value) ? 200 : 400])
  }
})

test('a field that can be set manually lists its values, and the meaning of null', async () => {
  const { paths } = await read()
  const { content } = paths['/admin/api/models/{slug}/routes/{upstream}/{upstream_model}'].put.requestBody
  const { efforts, context_length, thinking } = content['application/json'].schema.properties
  expect(efforts.items.enum).toContain('xhigh')
  expect([efforts, thinking].map(({ description }) => description)).toEqual([
    'Supported reasoning efforts. null: unset.',
    'How the model reasons: by effort, by a token budget, or not at all. null: unset.',
  ])
  expect(context_length.description).toEndWith("together. null: the model's.")
})

test("a literal path is not confused with another one's parameter", async () => {
  const viewer = await fixture.signIn('viewer')
  expect((await viewer.ask('GET', '/passkeys/options')).headers.get('allow')).toBe('POST')
  expect((await viewer.ask('GET', '/passkeys/0123')).headers.get('allow')).toBe('PATCH, DELETE')
})
