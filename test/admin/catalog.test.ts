/** The catalog over the admin API: exported, dry-run, applied, reverted; and what remote users may not do. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DAY_MS } from '../../src/domain/time.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture } from './fixture.ts'

const FACTS = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'
const CATALOG = `version: 1
upstreams:
  paid: { dialect: openai, base_url: https://api.example.com/v1, api_key: \${PAID_KEY} }
models:
  acme/large: { name: Large, ${FACTS}, supported_features: [tools], pricing: [{ prompt: "0.000001", completion: "0.000002" }], routes: [{ upstream: paid, model: large-v1 }] }
`
const OTHER = CATALOG.replace('"0.000001"', '"0.000003"')

let owner: Browser
let editor: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  await applyText(fixture, CATALOG)
  owner = await fixture.signIn('owner')
  editor = await fixture.signIn('editor')
})

test('an export matches the database, and owners can apply it without changes', async () => {
  const { yaml, document, left_out, sealed } = (await editor.ask('GET', '/catalog')).body
  expect([left_out, sealed]).toEqual([[], []])
  expect(document.upstreams.paid.api_key).toBe(`\${PAID_KEY}`)
  for (const body of [{ yaml }, { document }]) {
    const planned = await editor.ask('POST', '/catalog/plan', { body })
    expect(planned.body).toMatchObject({ origin: 'file', differs: false, changes: [], overridden: [], kept: [] })
    expect((await editor.ask('POST', '/catalog/apply', { body })).body).toMatchObject({ version: null, unchanged: 3 })
  }
})

test("an applied change succeeds even if the server can't read the changed entry yet", async () => {
  fixture.serving.refresh = async () => {
    throw new Error('cannot be read')
  }
  const applied = await editor.ask('POST', '/catalog/apply', { body: { yaml: OTHER } })
  expect(applied.body).toMatchObject({ version: 2, updated: 1 })
  expect((await editor.ask('POST', '/catalog/revert', { body: { number: 1 } })).body).toMatchObject({ version: 3 })
})

test('a change is planned, applied, effective on the server at once, recorded, and reverted', async () => {
  const planned = (await editor.ask('POST', '/catalog/plan', { body: { yaml: OTHER } })).body
  expect(planned).toMatchObject({
    differs: true,
    updated: 1,
    changes: [{ action: 'update', name: 'models.acme/large' }],
  })
  expect((await editor.ask('GET', '/catalog/history')).body.versions).toHaveLength(1)

  const applied = (await editor.ask('POST', '/catalog/apply', { body: { yaml: OTHER } })).body
  expect(applied).toMatchObject({ version: 2, updated: 1, overridden: [], kept: [] })
  const price = async () => (await editor.ask('GET', '/models/acme%2Flarge')).body.routes[0].pricing[0].prompt
  expect(await price()).toBe('0.000003')
  const [editing] = (await fixture.identity.readAdmins()).filter(({ role }) => role === 'editor')
  const [row] = await fixture.store.readAudit({ action: 'catalog.apply' })
  expect(row).toMatchObject({ actor: editing?.id, subject: 'admin API' })

  const { versions } = (await editor.ask('GET', '/catalog/history')).body
  expect(versions.at(-1)).toMatchObject({
    number: 2,
    action: 'catalog.apply',
    actor: editing?.id,
    actor_name: 'editor',
  })
  expect((await editor.ask('GET', '/catalog/history/2')).body.changes).toEqual(planned.changes)
  const back = { body: { number: 1, plan: true } }
  expect((await editor.ask('POST', '/catalog/revert', back)).body).toMatchObject({
    planned: true,
    updated: 1,
    version: null,
  })
  expect(await price()).toBe('0.000003')
  expect((await editor.ask('POST', '/catalog/revert', { body: { number: 1 } })).body.version).toBe(3)
  expect(await price()).toBe('0.000001')

  const undone = (plan: boolean) => editor.ask('POST', '/catalog/undo', { body: { number: 3, plan } })
  expect((await undone(true)).body).toMatchObject({ undone: 3, planned: true, updated: 1, version: null })
  expect((await undone(false)).body).toMatchObject({ planned: false, version: 4 })
  expect(await price()).toBe('0.000003')
  await editor.ask('POST', '/catalog/revert', { body: { number: 1 } })
  expect((await editor.ask('POST', '/catalog/undo', { body: { number: 4 } })).body).toMatchObject({ version: null })
})

test('undeclared entries stay, or are removed on request', async () => {
  const less = CATALOG.replace(
    / {2}acme\/large.*\n/,
    '  acme/new: { name: N, context_length: 9, max_output_length: 9, input_modalities: [text], output_modalities: [text], supported_features: [], pricing: [{ prompt: "1", completion: "1" }], routes: [{ upstream: paid, model: n }] }\n',
  )
  expect((await editor.ask('POST', '/catalog/plan', { body: { yaml: less } })).body.kept).toEqual([
    'models.acme/large',
    'models.acme/large: route paid (large-v1)',
  ])
  const pruned = (await editor.ask('POST', '/catalog/apply', { body: { yaml: less, prune: true } })).body
  expect(pruned).toMatchObject({ created: 2, deleted: 2, kept: [] })
})

test('a plan shows who loses a model by a removal, and counts its requests', async () => {
  const body = { yaml: `${CATALOG}aliases: { big: acme/large }\n`, prune: true }
  await editor.ask('POST', '/catalog/apply', { body })
  for (const name of ['ann', 'bob']) await editor.ask('POST', '/keys', { body: { name, models: ['acme/large'] } })
  await editor.ask('POST', '/keys', { body: { name: 'any', models: ['acme/*'] } })
  await editor.ask('POST', '/teams', { body: { name: 'lab', models: ['acme/large'] } })
  const nowMs = fixture.clock.ms
  for (const createdMs of [nowMs, nowMs - 6 * DAY_MS, nowMs - 9 * DAY_MS]) {
    const fields = { model: 'acme/large', upstream: 'paid', createdMs }
    createLedgerWriter(fixture.folder.database).apply([settling(toSettled(toOpen(fields), fields))])
  }
  const none = { total: 0, names: [] }
  const lost = {
    ...{ keys: { total: 2, names: ['ann', 'bob'] }, teams: { total: 1, names: ['lab'] } },
    ...{ aliases: { total: 1, names: ['big'] }, models: none, requests: 2 },
  }
  const off = { body: { enabled: false } }
  expect((await owner.ask('PATCH', '/models/acme%2Flarge?plan=true', off)).body.changes).toMatchObject([
    { name: 'models.acme/large', effect: lost },
  ])
  expect((await owner.ask('PATCH', '/upstreams/paid?plan=true', off)).body.changes).toMatchObject([
    { effect: { keys: none, models: { total: 1, names: ['acme/large'] }, requests: 2 } },
  ])
  const back = { body: { number: 2, plan: true } }
  expect((await editor.ask('POST', '/catalog/undo', back)).body.changes).not.toContainKey('effect')
  const { yaml } = (await editor.ask('GET', '/catalog')).body
  const less = { yaml: yaml.replace('acme/large:', 'acme/larger:').replace('big: acme/large', 'big: acme/larger') }
  const { changes } = (await editor.ask('POST', '/catalog/plan', { body: { ...less, prune: true } })).body
  expect(changes[0]).toMatchObject({ action: 'delete', effect: { ...lost, aliases: { total: 1 } } })
})

test("a model file's entries don't belong to another catalog: pruning keeps them until the file is gone", async () => {
  const model = `version: 1
upstreams:
  own: { dialect: openai, process: [llama-server, --port, "{port}"] }
models:
  local/own: { name: Own, ${FACTS}, supported_features: [], routes: [{ upstream: own, model: own }] }
aliases:
  mine: local/own
`
  const file = join(fixture.folder.path, 'models.d', 'own.yaml')
  mkdirSync(dirname(file))
  writeFileSync(file, model)
  const [, upstreams, models] = CATALOG.split(/^(?:upstreams|models):\n/m)
  await applyText(fixture, model.replace('upstreams:\n', `$&${upstreams}`).replace('models:\n', `$&${models}`))
  const body = { yaml: OTHER, prune: true }
  expect((await editor.ask('POST', '/catalog/plan', { body })).body).toMatchObject({ updated: 1, deleted: 0, kept: [] })
  const applied = await editor.ask('POST', '/catalog/apply', { body })
  expect(applied.body).toMatchObject({ updated: 1, deleted: 0, kept: [] })
  const rows = await fixture.store.readCatalog()
  expect(rows.models.map(({ slug }) => slug).toSorted()).toEqual(['acme/large', 'local/own'])
  expect(rows.upstreams.find(({ id }) => id === 'own')?.options.process).toStartWith('sha256:')
  const { yaml } = (await owner.ask('GET', '/catalog')).body
  expect((await owner.ask('POST', '/catalog/plan', { body: { yaml } })).body.differs).toBe(false)

  rmSync(file)
  expect((await owner.ask('POST', '/catalog/apply', { body })).body).toMatchObject({ updated: 0, deleted: 4 })
})

test.each([
  ['neither text nor document', {}, 'yaml'],
  ['both', { yaml: CATALOG, document: {} }, 'yaml'],
  ['a wish that is none', { yaml: CATALOG, force: true }, 'force'],
  ['a text that is none', { yaml: 7 }, 'yaml'],
  ['too much', { yaml: 'x'.repeat(1_100_000) }, 'yaml'],
])('%s is refused with its field', async (_, body, field) => {
  const answer = await editor.ask('POST', '/catalog/apply', { body })
  expect([answer.status, answer.body.error.field]).toEqual([400, field])
})

test('all catalog errors are reported by position, a hundred at most, and without secrets', async () => {
  const secret = 'sk-proj-abcdefghijklmnop1234567890'
  const wrong = CATALOG.replace(`\${PAID_KEY}`, secret).replace('"0.000001"', '"cheap"')
  const { status, body } = await owner.ask('POST', '/catalog/plan', { body: { yaml: wrong } })
  expect([status, body.error.kind]).toEqual([400, 'catalog_invalid'])
  expect(body.error.problems.map(({ path }: { path: string }) => path)).toEqual([
    ...['upstreams.paid.api_key', 'models.acme/large.pricing[0].prompt'],
  ])
  expect(JSON.stringify(body)).not.toContain(secret)
  const many = Array.from({ length: 500 }, (_, index) => `x${index}: 1`).join('\n')
  const { problems, message } = (await owner.ask('POST', '/catalog/plan', { body: { yaml: many } })).body.error
  expect([problems.length, message.split('\n').at(-1)]).toEqual([100, expect.stringMatching(/^and 40\d more\.$/)])
})

describe('over the network', () => {
  const upstream = (more: string) => `version: 1\nupstreams:\n  new: { dialect: openai, ${more} }\nmodels: {}\n`
  const plan = (yaml: string, browser = owner) => browser.ask('POST', '/catalog/plan', { body: { yaml } })
  const apply = (yaml: string, browser = owner) => browser.ask('POST', '/catalog/apply', { body: { yaml } })

  test.each([
    [
      'a variable of the server in a new upstream',
      upstream(`base_url: https://evil.example.com, api_key: "\${AWS_SECRET}"`),
    ],
    ['a known variable in a new upstream', upstream(`base_url: https://evil.example.com, api_key: "\${PAID_KEY}"`)],
    ['a known variable under another address', CATALOG.replace('api.example.com', 'evil.example.com')],
    ['a known variable under another path', CATALOG.replace('/v1', '/v2')],
    ['a known variable in another header', CATALOG.replace('dialect: openai,', 'dialect: openai, auth: x-evil,')],
    ['a known variable with another preset', CATALOG.replace('dialect: openai,', 'preset: groq,')],
    ['a known variable on another path', CATALOG.replace('dialect: openai,', 'dialect: openai, path: /evil,')],
    ['another variable', CATALOG.replace(`\${PAID_KEY}`, `\${OTHER_KEY}`)],
    ['another variable, where only the plan is wanted', CATALOG.replace(`\${PAID_KEY}`, `\${OTHER_KEY}`)],
  ])('%s is refused, even for an owner, planned or applied', async (_, yaml) => {
    const before = await fixture.store.readCatalog()
    for (const answer of [await plan(yaml), await apply(yaml)]) {
      expect([answer.status, answer.body.error.kind]).toEqual([400, 'invalid'])
      expect(answer.body.error.field).toEndWith('.api_key')
    }
    expect(await fixture.store.readCatalog()).toEqual(before)
  })

  test('hosts are only resolved for users who can add upstreams, and not many at a time for an owner', async () => {
    const many = Array.from(
      { length: 60 },
      (_, n) => `  u${n}: { dialect: openai, base_url: "https://h${n}.example.com" }\n`,
    )
    const yaml = `version: 1\nupstreams:\n${many.join('')}models: {}\n`
    expect((await plan(yaml, editor)).body.error.kind).toBe('owners_only')
    expect(fixture.lookedUp).toEqual([])
    expect((await plan(yaml)).body.error.field).toBe('upstreams')
    await plan(CATALOG)
    expect(fixture.lookedUp).toEqual([])
  })

  test('a process command is refused', async () => {
    const { body } = await apply(upstream('process: [sh, -c, id]'))
    expect(body.error.problems[0].path).toBe('upstreams.new.process')
  })

  test('a URL on this machine needs `local`, and a link-local one is refused, even behind a host name', async () => {
    fixture.hosts['metadata.example.com'] = ['169.254.169.254']
    fixture.hosts['inside.example.com'] = ['10.0.0.5']
    for (const host of ['127.0.0.1', '169.254.169.254', 'metadata.example.com', 'inside.example.com'])
      expect([host, (await apply(upstream(`base_url: "http://${host}/v1"`))).body.error?.field]).toEqual([
        ...[host, 'upstreams.new.base_url'],
      ])
    for (const host of ['169.254.169.254', 'metadata.example.com'])
      expect((await apply(upstream(`base_url: "http://${host}/v1", local: true`))).status).toBe(400)
    for (const host of ['127.0.0.1', 'inside.example.com'])
      expect((await apply(upstream(`base_url: "http://${host}/v1", local: true`))).status).toBe(200)
    expect((await apply(upstream(`base_url: "http://inside.example.com/v1"`))).status).toBe(400)
  })

  test('editors change models, and no upstream: neither by a plan, an apply, nor a revert', async () => {
    const yaml = `${upstream('base_url: https://api.example.com/v1')}`
    for (const answer of [await plan(yaml, editor), await apply(yaml, editor)])
      expect([answer.status, answer.body.error.kind]).toEqual([403, 'owners_only'])
    const pruned = {
      body: {
        yaml: upstream('base_url: "https://a.example.com"').replace(/upstreams:\n.*\n/, 'upstreams: {}\n'),
        prune: true,
      },
    }
    expect((await editor.ask('POST', '/catalog/apply', pruned)).status).toBe(403)
    expect((await apply(yaml)).body.version).toBe(2)
    expect((await editor.ask('POST', '/catalog/revert', { body: { number: 1 } })).body.error.kind).toBe('owners_only')
  })

  test('editors apply their export, including manually created or changed upstreams', async () => {
    await owner.ask('POST', '/upstreams', {
      body: { id: 'mine', dialect: 'openai', base_url: 'https://b.example.com/v1', api_key: 'a-credential' },
    })
    await owner.ask('PATCH', '/upstreams/paid', { body: { limits: { rpm: 5 } } })
    const { yaml } = (await editor.ask('GET', '/catalog')).body
    const answer = await apply(yaml.replace('0.000001', '0.000003'), editor)
    expect([answer.status, answer.body]).toMatchObject([200, { updated: 1 }])
    expect((await apply(yaml.replace('rpm: 5', 'rpm: 6'), editor)).body.error.kind).toBe('owners_only')
    const discarding = { body: { yaml, discard_edits: true } }
    expect((await editor.ask('POST', '/catalog/apply', discarding)).body.error.kind).toBe('owners_only')
  })

  test('hosts in manual changes of a missing upstream are resolved once a catalog or version declares it again', async () => {
    await owner.ask('PATCH', '/upstreams/paid', { body: { base_url: 'https://b.example.com/v1' } })
    await applyText(fixture, 'version: 1\nupstreams: {}\nmodels: {}\n')
    const plan = { body: { number: 2, plan: true } }
    expect((await owner.ask('POST', '/catalog/revert', plan)).body.error.field).toBe('upstreams.paid.api_key')
    const bare = CATALOG.replace(`, api_key: \${PAID_KEY}`, '')
    expect((await apply(bare)).body).toMatchObject({ created: 3 })
    await applyText(fixture, 'version: 1\nupstreams: {}\nmodels: {}\n')
    expect((await owner.ask('POST', '/catalog/revert', { body: { number: 4 } })).body).toMatchObject({ created: 3 })
  })

  test('a revert restores no variable that was removed, or that belongs to another URL now', async () => {
    await applyText(fixture, CATALOG.replace(`\${PAID_KEY}`, `\${NEW_KEY}`))
    await applyText(fixture, CATALOG.replace(`api_key: \${PAID_KEY}`, 'rpm: 5'))
    for (const number of [1, 2]) {
      const { status, body } = await owner.ask('POST', '/catalog/revert', { body: { number } })
      expect([number, status, body.error.field]).toEqual([number, 400, 'upstreams.paid.api_key'])
    }
  })

  test.each(['', '\u0000', '['.repeat(500), '{a: '.repeat(500), 'a: &a [x,x]\nb: &b [*a,*a]\n'.repeat(20)])(
    'a text that is no catalogue is told to be none: %#',
    async (yaml) => {
      const { status, body } = await owner.ask('POST', '/catalog/plan', { body: { yaml } })
      expect([status, body.error.kind]).toEqual([400, 'catalog_invalid'])
    },
  )
})

test.each(['0', '-1', '1.5', 'x', '99', '%27', '1e3'])('there is no version %p', async (number) => {
  const { status, body } = await editor.ask('GET', `/catalog/history/${number}`)
  expect([status, body.error.kind]).toEqual([404, 'version_not_found'])
})
