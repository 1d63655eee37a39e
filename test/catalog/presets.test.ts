/** Presets are stored by name and resolved on use: planned, applied, exported, and reverted. Also invalid ones. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { applyCatalog, revertCatalog } from '../../src/catalog/apply.ts'
import { readExport } from '../../src/catalog/change.ts'
import { toExport } from '../../src/catalog/file.ts'
import type { UpstreamRow } from '../../src/store/catalog-rows.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { toUpstream } from '../../src/store/upstream.ts'
import { createFolder } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { parse, problemsOf } from './parsing.ts'

let store: ReturnType<typeof createConfigStore>
const folder = forEachTest(createFolder)
beforeEach(() => {
  store = createConfigStore(folder.database)
})

const withUpstream = (upstream: string) => `version: 1\nupstreams:\n  u: ${upstream}\nmodels: {}\n`

async function apply(text: string) {
  const { catalog } = await parse(text)
  return applyCatalog(store, catalog, {
    origin: 'file',
    actor: 'ann',
    subject: 'c',
    digest: 'd',
    nowMs: 1,
    prune: true,
  })
}

const stored = async () => (await store.readCatalog()).upstreams[0] as UpstreamRow
const inForce = async () => toUpstream(await stored(), { KEY: 'secret' }, 'here')

test("rows have the preset's name, and requests its settings", async () => {
  await apply(withUpstream(`{ preset: groq, api_key: \${KEY}, n: true, drop: [] }`))
  expect(await stored()).toMatchObject({
    ...{ dialect: 'openai', baseUrl: null, apiKeyRef: `\${KEY}` },
    options: { preset: 'groq', n: true, drop: [] },
  })
  expect(await inForce()).toMatchObject({
    ...{ dialect: 'openai', baseUrl: 'https://api.groq.com/openai/v1', credential: 'secret', notReady: null },
    options: { n: true, drop: [], max_tokens_field: 'max_completion_tokens', think_tags: true, user: true, pass: [] },
  })
})

test.each([
  ['anthropic', 'anthropic', 'https://api.anthropic.com'],
  ['google', 'gemini', 'https://generativelanguage.googleapis.com/v1beta'],
  ['openrouter', 'openai', 'https://openrouter.ai/api/v1'],
])('%s has the dialect %s and the URL %s', async (name, dialect, baseUrl) => {
  await apply(withUpstream(`{ preset: ${name}, api_key: \${KEY} }`))
  expect(await inForce()).toMatchObject({ dialect, baseUrl })
})

test("the provider's reported cost counts by the preset, unless it is off", async () => {
  await apply(withUpstream('{ preset: openrouter }'))
  expect((await inForce()).options.cost).toEqual({ path: 'usage.cost', unit: 'usd' })
  await apply(withUpstream('{ preset: openrouter, cost: off }'))
  expect((await inForce()).options).not.toContainKey('cost')
  expect((await toExport(await readExport(store))).document.upstreams).toEqual({
    u: { preset: 'openrouter', cost: 'off' },
  })
})

test('an export has the written fields, and a plan of it is empty', async () => {
  await apply(withUpstream(`{ preset: azure, base_url: "https://r.openai.azure.com/openai/v1", api_key: \${KEY} }`))
  const { text, document, leftOut } = await toExport(await readExport(store))
  expect(leftOut).toEqual([])
  expect(document.upstreams).toEqual({
    u: { preset: 'azure', base_url: 'https://r.openai.azure.com/openai/v1', api_key: `\${KEY}` },
  })
  const plan = await applyCatalog(store, (await parse(text)).catalog, PLAN)
  expect(plan.changes).toEqual([])
})

const PLAN = {
  ...{ subject: 'it', digest: 'd', actor: 'test', nowMs: 1, isPlan: true, prune: true },
  origin: 'file',
} as const

test('a changed preset is shown by its name, and a revert restores it', async () => {
  await apply(withUpstream('{ preset: groq }'))
  const before = await stored()
  const { catalog } = await parse(withUpstream('{ preset: google }'))
  const { changes } = await applyCatalog(store, catalog, PLAN)
  expect(changes).toEqual([
    {
      ...{ action: 'update', name: 'upstreams.u', origin: 'file' },
      before: { dialect: 'openai', preset: 'groq' },
      after: { dialect: 'gemini', preset: 'google' },
    },
  ])
  await apply(withUpstream('{ preset: google }'))
  await revertCatalog(store, 1, { actor: 'bob', nowMs: 2 })
  expect(await stored()).toEqual({ ...before, updatedMs: 2 })
})

test("a preset of a newer version isn't ready, and isn't exported", async () => {
  await apply(withUpstream('{ preset: groq }'))
  folder.database.run(
    `UPDATE catalog_entries SET fields = json_set(fields, '$.options', json('{"preset":"later"}')) WHERE kind = 'upstreams'`,
  )
  expect((await inForce()).notReady).toBe("this version of Tollgate doesn't support its preset 'later'")
  expect((await toExport(await readExport(store))).leftOut).toEqual([
    {
      name: 'upstreams.u',
      reason: expect.stringContaining(
        "unknown preset 'later'. Use 'openai', 'azure', 'azure-deployments', 'bedrock', 'vertex', 'vertex-gemini'",
      ),
    },
  ])
})

describe('an error is one sentence with its field', () => {
  const HTTP = 'dialect: openai, base_url: http://h'
  const cases: [upstream: string, problem: RegExp][] = [
    ['{ preset: grok }', /:3: upstreams.u.preset: unknown preset 'grok' \(did you mean 'groq'\?\)\. Use /],
    ['{ preset: constructor }', /unknown preset 'constructor'\. Use 'openai', /],
    ['{ preset: 5 }', /upstreams.u.preset/],
    ['{ base_url: http://h }', /:3: upstreams\.u: dialect is missing\./],
    ['{ preset: groq, dialect: gemini }', /:3: upstreams\.u\.dialect: preset 'groq' uses the 'openai' dialect\./],
    [
      '{ preset: azure }',
      /:3: upstreams\.u: base_url is missing: set your own, such as https:\/\/RESOURCE\.openai\.azure\.com\/openai\/v1\./,
    ],
    [
      '{ preset: groq, api_key: gsk_x }',
      /:3: upstreams\.u\.api_key: must reference an environment variable, such as \$\{GROQ_API_KEY\}, or a file by its full path, such as file:\/run\/secrets\/u\./,
    ],
    ['{ preset: google, drop: [seed] }', /upstreams.u.drop: only the 'openai' dialect has drop/],
    [`{ ${HTTP}, drop: [model] }`, /:3: upstreams\.u\.drop\[0\]: Tollgate sets model itself\./],
    [`{ ${HTTP}, drop: [a.b.c.d.e] }`, /:3: upstreams\.u\.drop\[0\]: invalid field 'a\.b\.c\.d\.e'\./],
    [`{ ${HTTP}, rename: { n: m } }`, /:3: upstreams\.u\.rename\.n: Tollgate sets n itself\./],
    [`{ ${HTTP}, rename: { seed: stream } }`, /:3: upstreams\.u\.rename\.seed: Tollgate sets stream itself\./],
    [`{ ${HTTP}, rename: { seed: "a b" } }`, /:3: upstreams\.u\.rename\.seed: invalid field name 'a b'\./],
    [
      `{ ${HTTP}, extra_body: { max_tokens: 5 } }`,
      /:3: upstreams\.u\.extra_body\.max_tokens: Tollgate sets max_tokens itself\./,
    ],
    [
      `{ ${HTTP}, effort_fields: { high: { model: x } } }`,
      /:3: upstreams\.u\.effort_fields\.high\.model: Tollgate sets model itself\./,
    ],
    [`{ ${HTTP}, effort_fields: { mediun: {} } }`, /upstreams.u.effort_fields.mediun.*did you mean 'medium'/],
    [
      `{ ${HTTP}, auth: "a b c" }`,
      /:3: upstreams\.u\.auth: must be bearer, or the header that carries the credential, such as api-key, or 'authorization Token'\./,
    ],
    [
      `{ ${HTTP}, headers: { X-Tollgate-Hops: a } }`,
      /:3: upstreams\.u\.headers\.X-Tollgate-Hops: Tollgate sets the header X-Tollgate-Hops itself\./,
    ],
    [`{ ${HTTP}, auth: host }`, /:3: upstreams\.u\.auth: Tollgate sets the header host itself\./],
    [
      `{ ${HTTP}, headers: { authorization: x } }`,
      /:3: upstreams\.u\.headers\.authorization: Tollgate sets the header authorization itself, from api_key\./,
    ],
    [
      `{ ${HTTP}, headers: { Content-Length: "5" } }`,
      /:3: upstreams\.u\.headers\.Content-Length: Tollgate sets the header Content-Length itself\./,
    ],
    [`{ ${HTTP}, headers: { "x y": z } }`, /:3: upstreams\.u\.headers\.x y: invalid header name 'x y'\./],
    [`{ ${HTTP}, headers: { x: "a\\r\\nb: c" } }`, /headers.x: must be one line/],
    [
      `{ ${HTTP}, headers: { x: "a \${KEY}" } }`,
      /:3: upstreams\.u\.headers\.x: is sent literally: only api_key can be a reference\./,
    ],
    [
      `{ ${HTTP}, path: "/{deployment}/x" }`,
      /:3: upstreams\.u\.path: must be a path that starts with \/, such as \/v1\/messages\./,
    ],
    [`{ ${HTTP}, developer_role: user }`, /upstreams.u.developer_role/],
    [`{ ${HTTP}, query: { a: 5 } }`, /upstreams.u.query/],
  ]
  test.each(cases)('%s', async (upstream, problem) => {
    const problems = await problemsOf(withUpstream(upstream))
    expect(problems).toEqual([expect.stringMatching(problem)])
  })
})
