/** Models and routes that editors change manually, and reset. */
import { beforeEach, expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture } from './fixture.ts'

const FACTS = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'
const FILE = `version: 1
upstreams:
  paid: { dialect: openai, base_url: https://api.example.com/v1, api_key: \${PAID_KEY} }
  other: { dialect: openai, base_url: https://other.example.com/v1 }
  near: { dialect: openai, base_url: "http://127.0.0.1:9/v1", local: true }
models:
  acme/large: { name: Large, ${FACTS}, supported_features: [tools], pricing: [{ prompt: "0.000001", completion: "0.000002" }], routes: [{ upstream: paid, model: large }] }
  acme/tiny: { name: Tiny, ${FACTS}, supported_features: [], routes: [{ upstream: near, model: tiny }] }
aliases: { fast: acme/large }
`
const DEARER = [{ prompt: '0.000004', completion: '0.000008' }]
const LARGE = '/models/acme%2Flarge'

let editor: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  fixture.environment.PAID_KEY = 'a credential'
  await applyText(fixture, FILE)
  editor = await fixture.signIn('editor')
})

const ask = (method: string, path: string, body?: unknown) =>
  editor.ask(method, path, body === undefined ? {} : { body })
const rows = async () => {
  const { models, routes } = await fixture.store.readCatalog()
  return [
    ...models.map(({ slug, origin }) => `${slug} ${origin}`),
    ...routes.map(({ upstream, upstreamModel, origin }) => `${upstream}:${upstreamModel} ${origin}`),
  ]
}

test('a price is planned, changed, charged from then on, and the old one stays in the history', async () => {
  const planned = (await ask('PATCH', `${LARGE}?plan=true`, { pricing: DEARER })).body
  expect(planned).toMatchObject({ planned: true, differs: true, version: null, updated: 1 })
  expect(planned.changes).toMatchObject([{ name: 'models.acme/large', after: { pricing: DEARER, origin: 'admin' } }])
  expect(planned.model.pricing[0].prompt).toBe('0.000001')

  fixture.clock.ms += 1_000
  const { body } = await ask('PATCH', LARGE, { pricing: DEARER })
  expect(body).toMatchObject({ planned: false, version: 2, model: { pricing: DEARER, origin: 'admin' } })
  expect(body.model.prices).toMatchObject([{ pricing: DEARER, in_force: true }, { in_force: false }])
  expect(body.model.routes[0]).toMatchObject({ pricing: DEARER, price_id: body.model.prices[0].id, origin: 'file' })
  const [row] = await fixture.store.readAudit({ action: 'models.edit' })
  expect(row).toMatchObject({ subject: 'acme/large', detail: { after: { 'models.acme/large': { pricing: DEARER } } } })
  // The file does not override it, and still applies to other fields.
  await applyText(fixture, FILE)
  expect(await rows()).toEqual(['acme/large admin', 'acme/tiny file', 'paid:large file', 'near:tiny file'])
  expect((await ask('PATCH', LARGE, { pricing: DEARER })).body).toMatchObject({ differs: false, version: null })
  // Fields that were not set manually continue to follow the file.
  await applyText(fixture, FILE.replace('name: Large', 'name: Larger').replace('"0.000001"', '"0.000002"'))
  expect((await ask('GET', LARGE)).body).toMatchObject({ name: 'Larger', pricing: DEARER, origin: 'admin' })
})

test("features, context, `enabled`, and `listed` can be changed, also by the model's alias", async () => {
  const body = { supported_features: [], context_length: 4096, max_output_length: 500, enabled: false, listed: false }
  expect((await ask('PATCH', '/models/fast', body)).body.model).toMatchObject({
    slug: 'acme/large',
    ...body,
    is_ready: false,
  })
  expect((await ask('PATCH', LARGE, { enabled: true })).body.model).toMatchObject({
    ...body,
    enabled: true,
    is_ready: true,
  })
})

test("values that a file couldn't have are refused with their field, and nothing changes", async () => {
  const before = await fixture.store.readCatalog()
  await ask('PUT', `${LARGE}/routes/paid/large`, { context_length: 8000 })
  for (const [body, field] of [
    [{ pricing: [] }, 'pricing'],
    [{ pricing: [{ prompt: 'cheap', completion: '0' }] }, 'pricing[0].prompt'],
    [{ pricing: [{ prompt: 1e-7, completion: '0' }] }, 'pricing[0].prompt'],
    [{ pricing: [{ prompt: '-1', completion: '0' }] }, 'pricing[0].prompt'],
    [{ pricing: [{ prompt: '1', completion: '1', tax: '1' }] }, 'pricing[0].tax'],
    [{ pricing: [{ prompt: '1', completion: '1', image: '1' }] }, 'pricing[0].image'],
    [
      {
        pricing: [
          { prompt: '1', completion: '1' },
          { prompt: '1', completion: '1' },
        ],
      },
      'pricing[1]',
    ],
    [{ supported_features: ['telepathy'] }, 'supported_features[0]'],
    [{ context_length: 0 }, 'context_length'],
    [{ context_length: 900 }, 'max_output_length'],
    [{ context_length: 2000 }, 'routes[0].context_length'],
    [{ max_output_length: 9000 }, 'max_output_length'],
    [{ name: 'x' }, 'name'],
    [{ origin: 'file' }, 'origin'],
    [{ slug: 'a/b' }, 'slug'],
    [{ enabled: 'no' }, 'enabled'],
  ] as const) {
    const answer = await ask('PATCH', LARGE, body)
    expect([body, answer.status, answer.body.error?.field]).toEqual([body, 400, field])
  }
  const { models } = await fixture.store.readCatalog()
  expect(models).toEqual(before.models)
  expect((await ask('PATCH', '/models/acme%2Fnone', {})).body.error.kind).toBe('model_not_found')
})

test("manual values stay within the file's later limits, and are reported once nothing declares them", async () => {
  await ask('PATCH', LARGE, { max_output_length: 4_000 })
  await ask('PUT', `${LARGE}/routes/paid/large`, { context_length: 8_000, max_output_length: 4_000 })
  await applyText(fixture, FILE.replace('context_length: 8192', 'context_length: 2000'))
  const { body } = await ask('GET', LARGE)
  expect(body).toMatchObject({ context_length: 2_000, max_output_length: 2_000 })
  expect(body.routes[0]).toMatchObject({ context_length: 2_000, max_output_length: 2_000 })
  expect((await ask('GET', '/catalog')).body.left_out).toEqual([])

  await applyText(fixture, FILE.replace(/ {2}acme\/large.*\n/, '').replace(/aliases.*\n/, ''))
  const unseen = ['models.acme/large', 'models.acme/large: route paid (large)']
  const { left_out: leftOut } = (await ask('GET', '/catalog')).body
  expect(leftOut.map(({ name }: { name: string }) => name)).toEqual(unseen)
  const { warnings } = (await ask('POST', '/catalog/plan', { document: { version: 1, upstreams: {}, models: {} } }))
    .body
  expect(warnings).toEqual(
    unseen.map((name) => `${name}: manual changes apply again once a file or a provider declares it.`),
  )
})

test('a route is created, partly changed, and deleted', async () => {
  const path = `${LARGE}/routes/other/vendor%2Flarge%3Av1`
  const made = (await ask('PUT', path, { priority: 5, pricing: DEARER })).body
  expect(made.model.routes).toMatchObject([
    { upstream: 'paid' },
    { upstream: 'other', upstream_model: 'vendor/large:v1', priority: 5, weight: 1, own_price: true, origin: 'admin' },
  ])
  const changed = (await ask('PUT', path, { weight: 3, enabled: false })).body
  expect(changed.model.routes[1]).toMatchObject({
    weight: 3,
    priority: 5,
    pricing: DEARER,
    reason: 'the route is disabled',
  })
  expect((await ask('PUT', path, { pricing: null, enabled: true })).body.model.routes[1]).toMatchObject({
    own_price: false,
  })
  const nothing = { thinking: null, efforts: null, thinking_off: null, thinking_unasked: null, sampling: null }
  expect(made.model.routes[1]).toMatchObject(nothing)
  const thinking = {
    thinking: 'adaptive',
    efforts: ['low', 'high'],
    thinking_off: false,
    thinking_unasked: false,
    sampling: false,
  }
  expect((await ask('PUT', path, thinking)).body.model.routes[1]).toMatchObject(thinking)
  const less = { thinking: 'budget', efforts: null, sampling: null }
  expect((await ask('PUT', path, less)).body.model.routes[1]).toMatchObject({ ...less, thinking_off: false })
  expect((await ask('PUT', path, { weight: 2 })).body.model.routes[1]).toMatchObject({ ...less, thinking_off: false })
  expect((await ask('PUT', path, { thinking: 'hard' })).body.error).toMatchObject({ field: 'thinking' })
  expect((await ask('DELETE', `${path}?plan=true`)).body).toMatchObject({ deleted: 1, planned: true })
  expect((await ask('DELETE', path)).body.model.routes).toHaveLength(1)
  expect((await ask('DELETE', path)).body.error.kind).toBe('route_not_found')
  const actions = (await fixture.store.readAudit({ action: 'routes' })).map(({ action, subject }) => [action, subject])
  expect(new Set(actions.map(String))).toEqual(
    new Set(['routes.set', 'routes.delete'].map((action) => `${action},acme/large on other (vendor/large:v1)`)),
  )
})

test("a route can't exceed its model, needs an upstream, and can't duplicate a file's route", async () => {
  for (const [path, body, field] of [
    [`${LARGE}/routes/paid/large`, { context_length: 9000 }, 'context_length'],
    [`${LARGE}/routes/paid/large`, { supported_features: ['reasoning'] }, 'supported_features'],
    [`${LARGE}/routes/paid/large`, { weight: 0 }, 'weight'],
    [`${LARGE}/routes/paid/large`, { priority: -1 }, 'priority'],
    [`${LARGE}/routes/paid/${'x'.repeat(600)}`, {}, 'model'],
    [`${LARGE}/routes/paid/*`, {}, 'model'],
  ] as const) {
    const { status, body: answer } = await ask('PUT', path, body)
    expect([path.slice(0, 40), body, status, answer.error?.field]).toEqual([path.slice(0, 40), body, 400, field])
  }
  expect((await ask('PUT', `${LARGE}/routes/payd/large`, {})).body.error.message).toContain("did you mean 'paid'")
  expect((await ask('DELETE', `${LARGE}/routes/paid/large`)).body.error.kind).toBe('declared_elsewhere')
  await ask('PUT', `${LARGE}/routes/paid/large`, { weight: 2 })
  expect((await ask('DELETE', `${LARGE}/routes/paid/large`)).body.error.kind).toBe('declared_elsewhere')
})

test("a route that the file has dropped can be re-created manually, and a model's last one stays", async () => {
  const path = `${LARGE}/routes/paid/large`
  await ask('PUT', path, { weight: 7 })
  await applyText(fixture, FILE.replace('upstream: paid', 'upstream: other'))
  const made = await ask('PUT', path, { priority: 2 })
  expect([made.status, made.body.model?.routes[1]]).toMatchObject([200, { upstream: 'paid', priority: 2, weight: 1 }])
  expect((await ask('DELETE', path)).status).toBe(200)

  fixture.folder.database.run(
    "UPDATE catalog_entries SET origin = 'admin', fields = json_set(fields, '$.origin', 'admin') WHERE kind = 'routes'",
  )
  const { status, body } = await ask('DELETE', `${LARGE}/routes/other/large`)
  expect([status, body.error?.field]).toEqual([400, 'route'])
})

test("a free model can't get a paid upstream without a price", async () => {
  const path = '/models/acme%2Ftiny/routes/paid/tiny'
  expect((await ask('PUT', path, {})).body.error).toMatchObject({ field: 'pricing' })
  expect((await ask('PUT', path, { pricing: [{ prompt: '0', completion: '0' }] })).status).toBe(200)
  expect((await ask('PUT', path, { pricing: null })).status).toBe(400)
})

test("a local server can have a price per second, and a provider can't", async () => {
  const [near, timed] = ['/models/acme%2Ftiny/routes/near/tiny', [{ prompt: '0', completion: '0', second: '0.0005' }]]
  const { body } = await ask('PUT', near, { pricing: timed })
  expect(body.model.routes).toMatchObject([{ upstream: 'near', own_price: true, pricing: timed }])
  const fine = [{ prompt: '0', completion: '0', second: '0.0000000000000001' }]
  expect((await ask('PUT', near, { pricing: fine })).body.error).toMatchObject({ field: 'pricing[0].second' })
  for (const [method, path, field] of [
    ['PUT', `${LARGE}/routes/paid/large`, 'pricing'],
    ['PATCH', LARGE, 'routes[0].pricing'],
  ] as const) {
    const answer = await ask(method, path, { pricing: timed })
    expect([answer.status, answer.body.error.message]).toEqual([
      400,
      `Invalid ${field}: a price per second is only for local upstreams. Set a price without second, or make the upstream local.`,
    ])
  }
  const owner = await fixture.signIn('owner')
  const moved = await owner.ask('PATCH', '/upstreams/near', {
    body: { base_url: 'https://far.example.com/v1', local: false },
  })
  expect([moved.status, moved.body.error.field, moved.body.error.message]).toEqual([
    ...[400, 'local'],
    'Invalid local: route of acme/tiny to near: a price per second is only for local upstreams. Set a price without second, or make the upstream local.',
  ])
})

test('a reset restores a model and its routes, and removes manual routes', async () => {
  const before = await fixture.store.readCatalog()
  await ask('PATCH', LARGE, { pricing: DEARER, listed: false })
  await ask('PUT', `${LARGE}/routes/paid/large`, { weight: 7 })
  await ask('PUT', `${LARGE}/routes/other/large`, {})
  await ask('PATCH', '/models/acme%2Ftiny', { listed: false })
  const planned = (await ask('POST', `${LARGE}/reset?plan=true`)).body
  expect(planned).toMatchObject({ updated: 2, deleted: 1, planned: true })
  const { model } = (await ask('POST', `${LARGE}/reset`)).body
  expect(model).toMatchObject({
    origin: 'file',
    listed: true,
    routes: [{ upstream: 'paid', weight: 1, origin: 'file' }],
  })
  expect(await rows()).toEqual(['acme/large file', 'acme/tiny admin', 'paid:large file', 'near:tiny file'])
  const after = await fixture.store.readCatalog()
  expect({ ...after.models[0], updatedMs: 0 }).toEqual({ ...before.models[0], updatedMs: 0 } as never)
  expect((await ask('POST', `${LARGE}/reset`)).body).toMatchObject({ differs: false, version: null })
  // From then on, the file applies.
  await applyText(fixture, FILE.replace('name: Large', 'name: Larger'))
  expect((await ask('GET', LARGE)).body.name).toBe('Larger')
})

test('manual changes from before layers existed are reset to the last known version', async () => {
  await ask('PATCH', LARGE, { pricing: DEARER })
  fixture.folder.database.run("DELETE FROM catalog_entries WHERE name LIKE 'acme/large%'")
  for (const [name, kind, table] of [
    ['acme/large', 'models', 'models'],
    ['acme/large paid large', 'routes', 'routes'],
  ] as const) {
    const { layers } = (await fixture.store.readVersion(1)) ?? {}
    const fields = { ...layers?.[table][0], origin: 'admin', enabled: false }
    fixture.folder.database.run('INSERT INTO catalog_entries VALUES (?, ?, ?, ?)', [
      ...[kind, name, 'admin', JSON.stringify(fields)],
    ])
  }
  expect((await ask('GET', LARGE)).body).toMatchObject({ origin: 'admin', enabled: false })
  const { body } = await ask('POST', `${LARGE}/reset`)
  expect(body.model).toMatchObject({ origin: 'file', enabled: true, routes: [{ origin: 'file', enabled: true }] })
})

test('a model that an administrator created cannot be reset', async () => {
  fixture.folder.database.run(
    "UPDATE catalog_entries SET origin = 'admin', fields = json_set(fields, '$.origin', 'admin') WHERE kind = 'models'",
  )
  fixture.folder.database.run('DELETE FROM catalog_versions')
  await ask('PATCH', LARGE, { listed: false })
  const { status, body } = await ask('POST', `${LARGE}/reset`)
  expect([status, body.error.kind]).toEqual([409, 'no_earlier_state'])
})

test("viewers change nothing, and can't see a plan", async () => {
  const viewer = await fixture.signIn('viewer')
  for (const [method, path] of [
    ['PATCH', LARGE],
    ['PATCH', `${LARGE}?plan=true`],
    ['POST', `${LARGE}/reset`],
  ] as const)
    expect((await viewer.ask(method, path, { body: {} })).body.error.kind).toBe('role_too_small')
})

test.each([
  [{ thinking: 'x' }, "Invalid value. Supported values are: 'adaptive', 'budget', and 'none'."],
  [{ efforts: [] }, 'must not be empty.'],
  [{ weight: 0 }, 'expected a value >= 1, but got 0 instead.'],
  [{ sampling: 'no' }, 'expected a boolean, but got a string instead.'],
])('%j is refused by what it should be', async (body, why) => {
  const [field] = Object.keys(body)
  const { status, body: answer } = await ask('PUT', `${LARGE}/routes/paid/large`, body)
  expect([status, answer.error.message]).toEqual([400, `Invalid ${field}: ${why}`])
})

test('a decimal number of tokens is refused, but a decimal price is not', async () => {
  const pricing = [...DEARER, { ...DEARER[0], min_prompt_tokens: 1.5 }]
  const { body } = await ask('PATCH', LARGE, { pricing })
  expect(body.error.message).toEndWith('expected an integer, but got a decimal number instead.')
})

test("a manual value that the file has since narrowed doesn't block other changes", async () => {
  await ask('PATCH', LARGE, { max_output_length: 8000 })
  await ask('PUT', `${LARGE}/routes/paid/large`, { context_length: 8000 })
  await applyText(fixture, FILE.replaceAll('context_length: 8192', 'context_length: 4096'))
  expect((await ask('PUT', `${LARGE}/routes/paid/large`, { weight: 2 })).body.model.routes[0].weight).toBe(2)
  expect((await ask('PATCH', LARGE, { enabled: false })).body.model.enabled).toBe(false)
  expect((await ask('PATCH', LARGE, { max_output_length: 4097 })).status).toBe(400)
  // It is effective again once the limit allows it.
  await applyText(fixture, FILE)
  expect((await ask('GET', LARGE)).body).toMatchObject({
    ...{ enabled: false, max_output_length: 8000 },
    routes: [{ weight: 2, context_length: 8000 }],
  })
})
