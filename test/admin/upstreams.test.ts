/** Upstreams set up by owners: allowed fields, stored credentials, and no credential shown. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addModels } from '../../src/catalog/add-models.ts'
import { editUpstream } from '../../src/catalog/edit-upstream.ts'
import { createVault } from '../../src/store/vault.ts'
import { model, ROUTE } from '../catalog/declared.ts'
import { forEachTest } from '../support/lifetime.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture } from './fixture.ts'

const SECRET = 'not-like-any-key 0123456789'.replace(' ', '~')
const FACTS = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'
const FILE = `version: 1
upstreams:
  paid: { dialect: openai, base_url: https://api.example.com/v1, api_key: \${PAID_KEY} }
  near: { dialect: openai, base_url: "http://127.0.0.1:9/v1", local: true }
models:
  acme/large: { name: Large, ${FACTS}, supported_features: [], pricing: [{ prompt: "0.000001", completion: "0.000002" }], routes: [{ upstream: paid, model: large }] }
  acme/tiny: { name: Tiny, ${FACTS}, supported_features: [], routes: [{ upstream: near, model: tiny }] }
`
const NEW = { id: 'mine', dialect: 'openai', base_url: 'https://api.new.example.com/v1', api_key: SECRET }

let owner: Browser
/** All response bodies. */
let answers: string[]
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  fixture.environment.PAID_KEY = 'the credential of the variable'
  await applyText(fixture, FILE)
  owner = await fixture.signIn('owner')
  answers = []
})

const ask = async (method: string, path: string, body?: unknown) => {
  const answer = await owner.ask(method, path, body === undefined ? {} : { body })
  answers.push(JSON.stringify([answer.body, [...answer.headers]]))
  return answer
}
const patch = (id: string, body: unknown) => ask('PATCH', `/upstreams/${id}`, body)
const credentialOf = async (id: string) => {
  await fixture.serving.refresh()
  const upstream = fixture.serving.snapshot()?.upstreams.get(id)
  return upstream?.notReady ?? upstream?.credential ?? null
}

test('one is created with a credential, which the server has at once and no response shows', async () => {
  const { status, body } = await ask('POST', '/upstreams', {
    ...NEW,
    limits: { rpm: 60 },
    deadlines: { idle_ms: 5_000 },
  })
  expect(status).toBe(200)
  expect(body.upstream).toMatchObject({
    ...{ id: 'mine', base_url: NEW.base_url, origin: 'admin', state: 'unknown' },
    ...{ credential: { variable: null, sealed: true, status: 'set' } },
    ...{ limits: { rpm: 60, tpm: null }, deadlines: { idle_ms: 5_000 } },
  })
  expect(body.changes).toMatchObject([{ action: 'create', name: 'upstreams.mine', after: { api_key: 'stored' } }])
  expect(await credentialOf('mine')).toBe(SECRET)
  expect(statSync(join(fixture.folder.path, 'secret')).mode & 0o777).toBe(0o600)
})

test('a plan changes nothing and creates no secret', async () => {
  const before = await fixture.store.read()
  const { body } = await ask('POST', '/upstreams?plan=true', NEW)
  expect(body).toMatchObject({ planned: true, differs: true, created: 1, version: null, upstream: null })
  const moved = (
    await ask('PATCH', '/upstreams/paid?plan=true', { base_url: 'https://b.example.com', api_key: SECRET })
  ).body
  expect(moved.changes).toMatchObject([
    { before: { api_key: `\${PAID_KEY}` }, after: { base_url: 'https://b.example.com', api_key: 'stored' } },
  ])
  expect(await fixture.store.read()).toEqual(before)
  expect(readdirSync(fixture.folder.path)).not.toContain('secret')
})

test("several credentials are entered as a list, and shown by their numbers; the server's own are in no list", async () => {
  const { status, body } = await ask('POST', '/upstreams', { ...NEW, api_key: [SECRET, `${SECRET}-2`] })
  expect([status, body.upstream.credentials]).toMatchObject([
    200,
    [
      { number: 1, from: 'typed_in', name: null },
      { number: 2, from: 'typed_in', name: null },
    ],
  ])
  expect(body.changes[0].after).toMatchObject({ api_key: '2 stored' })
  expect(JSON.stringify(body)).not.toContain(SECRET)
  for (const foreign of [`\${PAID_KEY}`, 'file:/etc/hostname', `file:\${HOME}/.key`])
    expect(await patch('mine', { api_key: [SECRET, foreign] })).toMatchObject({ status: 400 })
  expect((await patch('mine', { base_url: 'https://elsewhere.example.com' })).body.upstream.credentials).toMatchObject([
    { number: 1, status: 'not_set', reason: expect.stringContaining('enter it again') },
  ])
})

describe('a provider preset', () => {
  test('is listed with its URL and the variable of its key', async () => {
    const { presets } = (await ask('GET', '/presets')).body
    expect(presets).toContainEqual({
      ...{ id: 'groq', name: 'Groq', serves: 'Open models at high speed', local: false },
      ...{ dialect: 'openai', base_url: 'https://api.groq.com/openai/v1' },
      ...{ example: null, variable: 'GROQ_API_KEY' },
    })
    expect(presets.find(({ id }: { id: string }) => id === 'azure')).toMatchObject({
      ...{ base_url: null, example: 'https://RESOURCE.openai.azure.com/openai/v1' },
    })
  })

  test('is set up with only a key, and shown with its URL', async () => {
    const { status, body } = await ask('POST', '/upstreams', { id: 'groq', preset: 'groq', api_key: SECRET })
    expect([status, body.upstream]).toMatchObject([
      200,
      { preset: 'groq', dialect: 'openai', base_url: 'https://api.groq.com/openai/v1' },
    ])
    expect(body.changes[0].after).toMatchObject({ preset: 'groq', dialect: 'openai' })
    expect(await credentialOf('groq')).toBe(SECRET)
  })

  test('another preset removes any credential, and so does none', async () => {
    await ask('POST', '/upstreams', { id: 'mine', preset: 'groq', api_key: SECRET })
    for (const preset of ['mistral', 'google', null]) {
      const base_url = preset === null ? { base_url: 'https://api.groq.com/openai/v1' } : {}
      expect((await patch('mine', { preset, ...base_url })).status).toBe(200)
      expect([preset, await credentialOf('mine')]).toEqual([preset, expect.stringContaining('enter it again')])
      await patch('mine', { api_key: SECRET })
      expect(await credentialOf('mine')).toBe(SECRET)
    }
    expect((await patch('paid', { preset: 'groq' })).body.upstream.credential).toEqual({
      ...{ variable: null, sealed: true, status: 'not_set' },
    })
  })

  test.each([
    [{ id: 'x', preset: 'grok' }, 'preset', "did you mean 'groq'"],
    [
      { id: 'x', preset: 'azure' },
      'base_url',
      'base_url is missing: set your own, such as https://RESOURCE.openai.azure.com/openai/v1.',
    ],
    [
      { id: 'x', preset: 'google', dialect: 'openai', base_url: NEW.base_url },
      'dialect',
      "Invalid dialect: differs from its preset's.",
    ],
    [{ id: 'x', base_url: NEW.base_url }, 'dialect', 'Invalid dialect: set a dialect or a preset.'],
    [{ ...NEW, base_url: '' }, 'base_url', 'Invalid base_url: must not be empty.'],
    [{ id: 'x', dialect: 'openai', base_url: null }, 'base_url', 'set a URL, such as https://api.openai.com/v1.'],
  ])('%j is refused with its field', async (body, field, words) => {
    const { status, body: answer } = await ask('POST', '/upstreams', body)
    expect([status, answer.error.field, answer.error.message]).toEqual([400, field, expect.stringContaining(words)])
  })
})

const NO_CREDENTIALS: [what: string, fields: { api_key: string }][] = [
  ['a reference to a variable', { api_key: `\${PAID_KEY}` }],
  ['a line break within', { api_key: 'a\nb: c' }],
  ['nothing', { api_key: '  ' }],
  ['letters that no header has', { api_key: 'schlüssel' }],
  ['a book', { api_key: 'x'.repeat(4_500) }],
]

describe('a credential', () => {
  test('is replaced, removed, and added again, each recorded without its value', async () => {
    await ask('POST', '/upstreams', NEW)
    await patch('mine', { api_key: `${SECRET}2` })
    expect(await credentialOf('mine')).toBe(`${SECRET}2`)
    await patch('mine', { api_key: null })
    expect((await ask('GET', '/upstreams/mine')).body.credential).toBeNull()
    expect(await credentialOf('mine')).toBeNull()
    await patch('mine', { api_key: `  ${SECRET}\n` })
    expect(await credentialOf('mine')).toBe(SECRET)
    const told = (await fixture.store.readAudit({ subjects: ['mine'] })).map(({ action, detail }) => [
      action,
      detail.after,
    ])
    expect(told.reverse()).toMatchObject([
      ['upstreams.create', { 'upstreams.mine': { api_key: 'stored' } }],
      ['upstreams.edit', { 'upstreams.mine': { api_key: 'stored (replaced)' } }],
      ['upstreams.edit', {}],
      ['upstreams.edit', { 'upstreams.mine': { api_key: 'stored' } }],
    ])
  })

  test('is removed if its upstream moves: a typed one as well as a variable', async () => {
    await ask('POST', '/upstreams', NEW)
    for (const id of ['mine', 'paid']) {
      const { body } = await patch(id, { base_url: 'https://evil.example.com/v1' })
      expect(body.upstream).toMatchObject({ state: 'not_ready', credential: { variable: null, status: 'not_set' } })
      expect(await credentialOf(id)).toContain('enter it again')
      await patch(id, { base_url: id === 'mine' ? NEW.base_url : 'https://api.example.com/v1' })
      expect(await credentialOf(id)).toContain('enter it again')
      await patch(id, { api_key: SECRET })
      expect(await credentialOf(id)).toBe(SECRET)
    }
  })

  test("another path or scheme is another destination, and an invalid URL doesn't change it", async () => {
    await ask('POST', '/upstreams', NEW)
    await patch('mine', {
      limits: { rpm: 5 },
      deadlines: { idle_ms: 9_000 },
      enabled: true,
      base_url: `${NEW.base_url}/`,
    })
    expect(await credentialOf('mine')).toBe(SECRET)
    for (const base_url of [
      'http://api.new.example.com/v1',
      'https://api.new.example.com/v2',
      'https://api.new.example.com:8443/v1',
    ]) {
      await patch('mine', { base_url })
      expect([base_url, await credentialOf('mine')]).toEqual([base_url, expect.stringContaining('enter it again')])
      await patch('mine', { base_url: NEW.base_url, api_key: SECRET })
    }
  })

  test('from a variable stays if other fields change, and is replaced by a typed one', async () => {
    await patch('paid', { limits: { rpm: 5 } })
    expect(await credentialOf('paid')).toBe('the credential of the variable')
    expect((await patch('paid', { api_key: SECRET })).body.upstream.origin).toBe('admin')
    expect(await credentialOf('paid')).toBe(SECRET)
    // The file doesn't override an administrator.
    await applyText(fixture, FILE)
    expect(await credentialOf('paid')).toBe(SECRET)
  })

  test("isn't sent along if the file takes over an upstream and moves it", async () => {
    await ask('POST', '/upstreams', NEW)
    const yaml =
      'version: 1\nupstreams:\n  mine: { dialect: openai, base_url: https://other.example.com }\nmodels: {}\n'
    await ask('POST', '/catalog/apply', { yaml, discard_edits: true })
    expect(await credentialOf('mine')).toContain('enter it again')
  })

  test('from a variable that a file names is only sent to that file’s URL, despite manual changes', async () => {
    const [away, home] = [FILE.replace(/, api_key: \S+/, '').replace('api.example', 'evil.example'), FILE]
    expect((await ask('POST', '/catalog/apply', { yaml: away })).status).toBe(200)
    await patch('paid', { base_url: 'https://evil.example.com/v1', enabled: false })
    await patch('paid', { enabled: true })
    await applyText(fixture, home)
    expect((await ask('GET', '/upstreams/paid')).body.base_url).toBe('https://evil.example.com/v1')
    expect(await credentialOf('paid')).toBe(null)
  })

  test('from a variable that was set manually stays with the URL it was set for', async () => {
    const deps = { store: fixture.store, vault: createVault(fixture.folder.path), lookUp: null }
    await editUpstream(deps, 'paid', { variable: 'OWN_KEY' }, { actor: 'cli', nowMs: 1 })
    await applyText(fixture, FILE.replace('api.example', 'other.example').replace('dialect: openai', 'preset: groq'))
    expect((await ask('GET', '/upstreams/paid')).body).toMatchObject({
      ...{ base_url: 'https://api.example.com/v1', preset: null, credential: { variable: 'OWN_KEY' } },
    })
  })

  test('that is invalid is refused, and is not quoted', async () => {
    for (const [what, fields] of NO_CREDENTIALS)
      for (const { status, body } of [
        await patch('paid', fields),
        await ask('POST', '/upstreams', { ...NEW, ...fields }),
      ]) {
        expect([what, status, body.error.field]).toEqual([what, 400, 'api_key'])
        if (fields.api_key.trim()) expect(body.error.message).not.toContain(fields.api_key)
      }
    expect(readdirSync(fixture.folder.path)).not.toContain('secret')
  })

  test('is in no response, log line, audit row, version, or export, nor unencrypted in any file of the data folder', async () => {
    await ask('POST', '/upstreams', NEW)
    await patch('mine', { api_key: `${SECRET}2` })
    await patch('mine', { base_url: 'https://b.example.com' })
    await patch('mine', { api_key: SECRET, enabled: false })
    await ask('POST', '/upstreams', NEW)
    await ask('POST', '/upstreams', { ...NEW, colour: SECRET })
    await ask('POST', '/upstreams', { ...NEW, id: 'x', base_url: `https://user:${SECRET}@h.example.com` })
    for (const path of [
      '/upstreams',
      '/upstreams/mine',
      '/models',
      '/catalog',
      '/catalog/history',
      '/catalog/history/2',
      '/audit',
    ])
      await ask('GET', path)
    await ask('POST', '/upstreams/mine/test')
    await ask('POST', '/catalog/revert', { number: 1 })
    const told = [
      ...answers,
      await fixture.logged(),
      JSON.stringify(await fixture.store.readAudit()),
      JSON.stringify(await Promise.all([1, 2, 3].map((number) => fixture.store.readVersion(number)))),
    ]
    expect(told.length).toBeGreaterThan(15)
    for (const text of told) expect(text).not.toContain(SECRET)
    fixture.folder.database.run('PRAGMA wal_checkpoint(TRUNCATE)')
    for (const name of readdirSync(fixture.folder.path, { recursive: true, encoding: 'utf8' })) {
      const path = join(fixture.folder.path, name)
      if (statSync(path).isFile()) expect([name, readFileSync(path).includes(SECRET)]).toEqual([name, false])
    }
  })

  test('cannot be used without its encryption key, and the error says what to do', async () => {
    await ask('POST', '/upstreams', NEW)
    const path = join(fixture.folder.path, 'secret')
    for (const spoil of [
      () => rmSync(path),
      () => writeFileSync(path, `${'0'.repeat(64)}\n`),
      () => writeFileSync(path, 'x'),
    ]) {
      spoil()
      const { createVault } = await import('../../src/store/vault.ts')
      const [[id, opened]] = [...(await createVault(fixture.folder.path).open(await fixture.store.readSealed()))] as [
        [string, object],
      ]
      expect([id, opened]).toEqual(['mine', [{ problem: expect.stringMatching(/restore|enter/i) }]])
    }
    // Storing a credential next to such a file gives a warning, and the file stays.
    const { status, body } = await patch('mine', { api_key: SECRET })
    expect([status, body.error.kind]).toEqual([500, 'secret_unusable'])
    expect(readFileSync(path, 'utf8')).toBe('x')
  })
})

const REFUSED: [what: string, fields: object, field: string][] = [
  ['an id with a slash', { id: 'a/b' }, 'id'],
  ['an id that leads elsewhere', { id: '../x' }, 'id'],
  ['an id of capitals', { id: 'OpenAI' }, 'id'],
  ['an id that everything has', { id: '__proto__' }, 'id'],
  ['no id', { id: '' }, 'id'],
  ['a dialect that is none', { dialect: 'soap' }, 'dialect'],
  ['no address', { base_url: undefined }, 'base_url'],
  ['an address of a file', { base_url: 'file:///etc/passwd' }, 'base_url'],
  ['an address of a socket', { base_url: 'unix:/var/run/docker.sock' }, 'base_url'],
  ['an address with a user', { base_url: 'https://a:b@api.example.com' }, 'base_url'],
  ['an address with a query', { base_url: 'https://api.example.com/?x=' }, 'base_url'],
  ['an address that ends early', { base_url: 'https://api.example.com/#' }, 'base_url'],
  ['an address of this machine', { base_url: 'http://127.0.0.1:6379' }, 'base_url'],
  ['this machine as a number', { base_url: 'http://2130706433/v1' }, 'base_url'],
  ['a link-local address, local as it may be', { base_url: 'http://169.254.169.254/latest', local: true }, 'base_url'],
  ['the link behind a name', { base_url: 'http://metadata.example.com/latest', local: true }, 'base_url'],
  ['an inner address behind a name', { base_url: 'http://inside.example.com' }, 'base_url'],
  ['a name that nobody resolves in time', { base_url: 'http://slow.example.com', local: true }, 'base_url'],
  ['a name that does not resolve', { base_url: 'http://nowhere.example.com' }, 'base_url'],
  ['a limit of nothing', { limits: { rpm: 0 } }, 'limits.rpm'],
  ['a limit that is none', { limits: { bytes: 1 } }, 'limits.bytes'],
  ['a deadline of nothing', { deadlines: { idle_ms: 0 } }, 'deadlines.idle_ms'],
  ['a deadline before now', { deadlines: { idle_ms: -5 } }, 'deadlines.idle_ms'],
  ['extra headers', { headers: { authorization: 'x' } }, 'headers'],
  ['a command', { process: ['sh'] }, 'process'],
  ['an origin', { origin: 'file' }, 'origin'],
  ['a credential for the demo', { dialect: 'demo', base_url: undefined }, 'api_key'],
]

describe('an upstream', () => {
  test('with an invalid field is refused with the field, and nothing is created', async () => {
    fixture.hosts['metadata.example.com'] = ['169.254.169.254']
    fixture.hosts['inside.example.com'] = ['93.184.216.34', '192.168.7.7']
    fixture.hosts['slow.example.com'] = 'late'
    fixture.hosts['nowhere.example.com'] = 'no_such_name'
    for (const [what, fields, field] of REFUSED) {
      const { status, body } = await ask('POST', '/upstreams', { ...NEW, ...fields })
      expect([what, status, body.error?.field]).toEqual([what, 400, field])
    }
    expect((await fixture.store.readCatalog()).upstreams).toHaveLength(2)
  })

  test('may have a name that every object has', async () => {
    expect((await ask('POST', '/upstreams', { ...NEW, id: 'constructor' })).status).toBe(200)
    expect((await ask('GET', '/upstreams/constructor')).body.id).toBe('constructor')
    expect((await ask('POST', '/upstreams', { ...NEW, id: 'constructor' })).body.error.kind).toBe('upstream_exists')
  })

  test('on a private network is accepted if it is local, and stays local', async () => {
    const near = { id: 'ollama', dialect: 'openai', base_url: 'http://127.0.0.1:11434/v1', local: true }
    expect((await ask('POST', '/upstreams', near)).status).toBe(200)
    expect((await patch('ollama', { local: false })).body.error.field).toBe('base_url')
    expect((await patch('ollama', { base_url: 'http://[fe80::1]/v1' })).body.error.field).toBe('base_url')
  })

  test('that becomes paid needs prices on routes of free models', async () => {
    fixture.hosts['gpu.example.com'] = ['93.184.216.34']
    await patch('near', { base_url: 'http://gpu.example.com/v1' })
    expect((await patch('near', { local: false })).body.error).toMatchObject({ field: 'local' })
    const priced = { pricing: [{ prompt: '0', completion: '0' }] }
    await ask('PUT', '/models/acme%2Ftiny/routes/near/tiny', priced)
    expect((await patch('near', { local: false })).status).toBe(200)
  })

  test('that an administrator created is deleted with its routes; any other is only disabled', async () => {
    await ask('POST', '/upstreams', NEW)
    await ask('PUT', '/models/acme%2Flarge/routes/mine/large-2', {})
    expect((await ask('DELETE', '/upstreams/mine?plan=true')).body).toMatchObject({ deleted: 2, planned: true })
    expect((await ask('DELETE', '/upstreams/mine')).body).toMatchObject({ deleted: 2, upstream: null })
    expect(await fixture.store.readSealed()).toEqual([])
    expect((await ask('DELETE', '/upstreams/paid')).body.error.kind).toBe('declared_elsewhere')
    expect((await patch('paid', { enabled: false })).body.upstream).toMatchObject({
      state: 'disabled',
      origin: 'admin',
    })
    expect((await ask('DELETE', '/upstreams/none')).status).toBe(404)
  })

  test('that is deleted leaves no manual price to later models with the same name', async () => {
    const add = () =>
      addModels(fixture.store, 'mine', [model('mine/found', { routes: [{ ...ROUTE, upstream: 'mine' }] })], {
        ...{ actor: 'cli', nowMs: fixture.clock.ms },
      })
    const price = async () => (await ask('GET', '/models/mine%2Ffound')).body.pricing?.[0].prompt
    await ask('POST', '/upstreams', NEW)
    await add()
    await ask('PATCH', '/models/mine%2Ffound', { pricing: [{ prompt: '7', completion: '8' }] })
    expect(await price()).toBe('7')
    expect((await ask('DELETE', '/upstreams/mine')).body).toMatchObject({ deleted: 3 })
    await ask('POST', '/upstreams', NEW)
    await add()
    expect(await price()).toBe('1')
  })

  test('can only be changed by owners, also with a token', async () => {
    const editor = await fixture.signIn('editor')
    const headers = await fixture.tokenHeaders('write')
    for (const [method, path, body] of [
      ['POST', '/upstreams', NEW],
      ['PATCH', '/upstreams/paid', { enabled: false }],
      ['PATCH', '/upstreams/paid?plan=true', { enabled: false }],
      ['DELETE', '/upstreams/paid', undefined],
    ] as const) {
      expect((await editor.ask(method, path, { body })).body.error.kind).toBe('role_too_small')
      expect((await fixture.createBrowser().ask(method, path, { body, headers })).body.error.kind).toBe(
        'role_too_small',
      )
    }
  })
})
