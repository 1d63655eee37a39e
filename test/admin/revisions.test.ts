/** Edits of an outdated state are refused with the current one, and never half applied. */
import { beforeEach, expect, test } from 'bun:test'
import { createKey } from '../../src/keys/service.ts'
import { forEachTest } from '../support/lifetime.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture } from './fixture.ts'

const FACTS = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'
const FILE = `version: 1
upstreams: { paid: { dialect: openai, base_url: https://api.example.com/v1 } }
models:
  acme/large: { name: Large, ${FACTS}, supported_features: [], pricing: [{ prompt: "0.000001", completion: "0.000002" }], routes: [{ upstream: paid, model: large }] }
aliases: { fast: acme/large }
`
let owner: Browser
let member: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  await applyText(fixture, FILE)
  owner = await fixture.signIn('owner')
  await owner.ask('POST', '/teams', { body: { name: 'research' } })
  member = await fixture.signIn('member', 'mia', 'research')
  await createKey(fixture.store, { name: 'dev' }, { actor: 'test', nowMs: fixture.clock.ms })
  await member.ask('POST', '/own/keys', { body: { name: 'laptop' } })
})

const MODEL = '/models/acme%2Flarge'
const findAdmin = ({ admins }: { admins: { name: string }[] }) => admins.find(({ name }) => name === 'mia')
const CATALOG = { yaml: FILE.replace('fast:', 'quick:'), prune: true }
const LIST = '/catalog/history'

/** URLs to read and edit, both edits, and what remains of the first. */
const EDITS: [string, string, [string, string], object, object, object?][] = [
  ['a key', '/keys/dev', ['PATCH', '/keys/dev'], { rpm: 5 }, { tpm: 7 }],
  ["a member's own key", '/own/keys/laptop', ['PATCH', '/own/keys/laptop'], { rpm: 5 }, { tpm: 7 }],
  ['a team', '/teams/research', ['PATCH', '/teams/research'], { rpm: 5 }, { max_keys: null }],
  [
    'somebody who signs in',
    '/admins',
    ['PATCH', '/admins/mia'],
    { disabled: true },
    { role: 'viewer', team: null },
    { status: 'disabled' },
  ],
  ['a setting', '/settings', ['PATCH', '/settings'], { drain: '1m' }, { drain: '2m' }, {}],
  ['an upstream', '/upstreams/paid', ['PATCH', '/upstreams/paid'], { limits: { rpm: 5 } }, { local: true }],
  [
    'the credential of an upstream',
    '/upstreams/paid',
    ['PATCH', '/upstreams/paid'],
    { api_key: 'first-credential' },
    { api_key: 'second-credential' },
    {},
  ],
  ['a model', MODEL, ['PATCH', MODEL], { context_length: 4096 }, { listed: false }],
  ['a route', MODEL, ['PUT', `${MODEL}/routes/paid/large`], { weight: 5 }, { priority: 7 }],
]

test.each(EDITS)(
  '%s that somebody else has changed meanwhile stays as that left it',
  async (what, read, edit, first, second, kept = first) => {
    const [method, path] = edit
    const browser = path.startsWith('/own') ? member : owner
    const look = async () => {
      const { body } = await browser.ask('GET', read)
      return what === 'a route' ? body.routes[0] : (findAdmin({ admins: [], ...body }) ?? body)
    }
    const { revision } = await look()
    const headers = { 'if-match': `"${revision}"` }
    expect([what, (await browser.ask(method, path, { body: first, headers })).status]).toEqual([what, 200])
    const left = await look()
    expect([what, left.revision !== revision]).toEqual([what, true])
    const { status, body } = await browser.ask(method, path, { body: second, headers })
    expect([what, status, body.error.kind, body.error.revision]).toEqual([
      what,
      412,
      'revision_conflict',
      left.revision,
    ])
    expect([what, Object.keys(body.error.current).length > 0]).toEqual([what, true])
    expect({ [what]: await look() }).toEqual({ [what]: left })
    // Based on the current state, and without a condition, it is applied; the first edit stays.
    const again = { body: second, headers: { 'if-match': body.error.revision } }
    expect([what, (await browser.ask(method, path, again)).status]).toEqual([what, 200])
    expect({ [what]: await look() }).toMatchObject({ [what]: kept })
  },
)

test("a catalog that changed after its plan is not applied, and a changed revert isn't either", async () => {
  const plan = async () => (await owner.ask('POST', '/catalog/plan', { body: CATALOG })).body.revision
  const headers = { 'if-match': `"${await plan()}"` }
  await owner.ask('PATCH', MODEL, { body: { listed: false } })
  const refused = await owner.ask('POST', '/catalog/apply', { body: CATALOG, headers })
  expect([refused.status, refused.body.error.kind]).toEqual([412, 'revision_conflict'])
  const fresh = { 'if-match': `"${await plan()}"` }
  expect((await owner.ask('POST', '/catalog/apply', { body: CATALOG, headers: fresh })).status).toBe(200)
  const { versions } = (await owner.ask('GET', LIST)).body
  const revert = { number: versions[0].number }
  const planned = (await owner.ask('POST', '/catalog/revert', { body: { ...revert, plan: true } })).body
  await owner.ask('PATCH', MODEL, { body: { listed: true } })
  const late = await owner.ask('POST', '/catalog/revert', { body: revert, headers: { 'if-match': planned.revision } })
  expect([late.status, late.body.error.kind]).toEqual([412, 'revision_conflict'])
})

test('an invalid revision is refused, and `*` is any state', async () => {
  const edit = (match: string) => owner.ask('PATCH', '/keys/dev', { body: { rpm: 5 }, headers: { 'if-match': match } })
  for (const match of ['"x"', 'W/"0123456789abcdef"', '"0123456789abcdef", "0123456789abcdef"'])
    expect([match, (await edit(match)).body.error.kind]).toEqual([match, 'invalid'])
  expect((await edit('*')).status).toBe(200)
})
