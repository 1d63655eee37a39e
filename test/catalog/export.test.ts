/** An exported catalog has the database's content: planning it shows no changes, and applying it elsewhere gives the same catalog. */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { applyCatalog } from '../../src/catalog/apply.ts'
import { readExport } from '../../src/catalog/change.ts'
import { toExport } from '../../src/catalog/file.ts'
import { FEATURES, INPUT_MODALITIES, ORIGINS } from '../../src/domain/models.ts'
import type { CatalogRows } from '../../src/store/catalog-rows.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { createFolder, type Folder } from '../ledger/fixture.ts'
import { createPicker } from '../support/random.ts'
import { parse } from './parsing.ts'

/** Two databases, emptied for each test, since a migration takes longer than everything else here. */
const [one, other] = [createFolder(), createFolder()]
afterAll(() => {
  one.close()
  other.close()
})
beforeEach(() => empty(one))

function empty({ database }: Folder): void {
  for (const table of ['catalog_entries', 'upstream_credentials', 'prices', 'catalog_versions'])
    database.run(`DELETE FROM ${table}`)
}

const store = createConfigStore(one.database)
const run = (sql: string) => void one.database.run(sql)

/** Not a whole second, as in rows created by an apply. */
const NOW = Date.UTC(2026, 10, 21) + 123

const PLAN = { origin: 'file', subject: 'it', digest: 'd', actor: 'test', isPlan: true, prune: true } as const

async function apply(to: ConfigStore, text: string, nowMs = NOW) {
  const { catalog } = await parse(text)
  return applyCatalog(to, catalog, { origin: 'file', actor: 'test', subject: 't', digest: 'd', prune: true, nowMs })
}

/** All fields of a row except origin and times. Clients see the second in which a model was created. */
function toSaid({ upstreams, models, routes, aliases }: CatalogRows) {
  const nobody = { origin: null, priceId: null, updatedMs: 0 }
  return {
    upstreams: upstreams.map((row) => ({ ...row, ...nobody, createdMs: 0 })),
    models: models.map((row) => ({ ...row, ...nobody, createdMs: Math.floor(row.createdMs / 1_000) })),
    routes: routes.map((row) => ({ ...row, ...nobody })),
    aliases: aliases.map((row) => ({ ...row, origin: null })),
  }
}

/** Exports, checks, and returns the text. */
async function checkExport(): Promise<string> {
  const { text, document, leftOut } = await toExport(await readExport(store))
  expect(leftOut).toEqual([])
  for (const written of [text, JSON.stringify(document)]) {
    const { catalog } = await parse(written)
    const plan = await applyCatalog(store, catalog, { ...PLAN, nowMs: NOW })
    expect([plan.changes, plan.overridden, plan.kept]).toEqual([[], [], []])
    empty(other)
    const elsewhere = createConfigStore(other.database)
    await apply(elsewhere, written, NOW + 86_400_000)
    expect(toSaid(await elsewhere.readCatalog())).toEqual(toSaid(await store.readCatalog()))
  }
  return text
}

const FACTS =
  'context_length: 100, max_output_length: 10, input_modalities: [text], output_modalities: [text], supported_features: []'

describe('catalog export', () => {
  test('omits known facts, and keeps references and all digits of prices', async () => {
    await apply(
      store,
      `version: 1
upstreams:
  openai: { dialect: openai, base_url: https://api.openai.com/v1/, api_key: \${OPENAI_API_KEY}, deadlines: { idle: 90s, total: 1500ms } }
  here: { dialect: openai, base_url: http://127.0.0.1:1/v1, local: true, enabled: false, pass: [provider, "mock_*"], disconnect_grace: off }
models:
  openai/gpt-4o-mini: { routes: [{ upstream: openai, model: gpt-4o-mini }] }
  openai/gpt-5*: { routes: [{ upstream: openai, model: "gpt-5*" }] }
  v/own: { name: "0.10", ${FACTS}, listed: false, pricing: [{ prompt: "0.000000150", completion: "0.0000006000000000", request: "0" }, { prompt: "1", completion: "1", min_prompt_tokens: 7 }, { prompt: "2", completion: "2", web_search: "0.01", mode: flex }], routes: [{ upstream: openai, model: own, weight: 3 }, { upstream: here, model: "null", priority: 2, pricing: [{ prompt: "0", completion: "0", second: "0.00050" }], enabled: false, max_output_length: 5, supported_features: [] }] }
  v/old: { name: Old, ${FACTS}, created: 5, enabled: false, routes: [{ upstream: here, model: old }] }
aliases: { fast: openai/gpt-4o-mini, hidden: { model: v/own, listed: false } }
`,
    )
    const text = await checkExport()
    expect(text).toContain(`    api_key: \${OPENAI_API_KEY}\n`)
    expect(text).toContain('prompt: "0.000000150"\n')
    expect(text).toContain('second: "0.00050"\n')
    expect(text).toContain('    deadlines:\n      idle: 90s\n      total: 1500ms\n')
    expect(text.match(/from_wildcard: true/g)?.length).toBeGreaterThan(3)
  })

  test('of an empty catalog can be applied', async () => {
    await checkExport()
  })

  test('omits a stored credential, and says so next to its upstream', async () => {
    await apply(store, `version: 1\nupstreams: { a: { dialect: openai, base_url: "http://h/v1" } }\nmodels: {}\n`)
    run("INSERT OR REPLACE INTO upstream_credentials VALUES ('a', 1, 'c2VjcmV0')")
    const { text, sealed } = await toExport(await readExport(store))
    expect(sealed).toEqual(['a'])
    expect(text).toMatch(
      /^ {2}# Its credential is stored and not exported\. Set api_key to a variable that has it\.\n {2}a:$/m,
    )
    expect(text).not.toContain('c2VjcmV0')
  })

  test("omits rows that a file can't have, and those that depend on them, with the reason", async () => {
    const models = ['v/a', 'v/a.b', 'v/c'].map(
      (slug) => `${slug}: { name: N, ${FACTS}, routes: [{ upstream: a, model: m }, { upstream: b, model: m }] }`,
    )
    const demo = '{ dialect: demo, local: true }'
    await apply(
      store,
      `version: 1\nupstreams: { a: ${demo}, b: ${demo} }\nmodels: { ${models.join(', ')} }\naliases: { x: v/c }\n`,
    )
    run(
      `UPDATE catalog_entries SET fields = json_set(fields, '$.dialect', 'later') WHERE kind = 'upstreams' AND name = 'b'`,
    )
    run(
      `UPDATE catalog_entries SET fields = json_set(fields, '$.pricing', json('[{"prompt":"1","completion":"1","image":"1"}]')) WHERE kind = 'models' AND name = 'v/a'`,
    )
    run("DELETE FROM catalog_entries WHERE kind = 'routes' AND name LIKE 'v/c %'")
    const { text, document, leftOut } = await toExport(await readExport(store))
    expect(document.models).toMatchObject({ 'v/a.b': { routes: [{ upstream: 'a' }] } })
    expect([Object.keys(document.upstreams), Object.keys(document.models), document.aliases]).toEqual([
      ['a'],
      ['v/a.b'],
      undefined,
    ])
    expect(leftOut.map(({ name }) => name).sort()).toEqual([
      'aliases.x',
      'models.v/a',
      'models.v/a.b: route b (m)',
      'models.v/c',
      'upstreams.b',
    ])
    expect(text).toMatch(/^# Left out: models\.v\/a: .*image_token/m)
    await parse(text)
  })
})

const NASTY = [
  'plain',
  'a: b',
  '# no',
  '- x',
  'null',
  '0.1',
  '~',
  '"q"',
  "it's",
  '{a}',
  `\${HOME}`,
  '*',
  '&a',
  ' led',
  'ß 🦊',
  'two\nlines',
  '!!str',
  '%',
  '@',
  'yes',
  '',
]

/** Rows of every kind that a file can create, with texts that need careful quoting. */
function drawText(seed: number): string {
  const pick = createPicker(seed)
  const any = <T>(of: readonly T[]) => of[pick(of.length)] as T
  const some = <T>(of: readonly T[]) => of.filter(() => pick(2) > 0)
  const maybe = (entry: object) => (pick(3) === 0 ? entry : {})
  const flag = () => pick(2) > 0
  const price = () =>
    `${pick(3)}.${String(pick(1e9))
      .padStart(1 + pick(18), '0')
      .slice(0, 18)}`
  const pricing = () => [
    { prompt: price(), completion: price(), ...maybe({ input_cache_read: price() }), ...maybe({ audio: price() }) },
    ...(flag() ? [{ prompt: price(), completion: price(), min_prompt_tokens: 1 + pick(1e6) }] : []),
    ...(flag() ? [{ prompt: price(), completion: price(), web_search: price(), mode: any(['flex', 'fast+us']) }] : []),
  ]
  const span = () => `${1 + pick(5_000)}${any(['ms', 's', 'm'])}`
  const ids = some(['a', 'b-c', 'd.e', '7', 'null'])
  const upstreams = Object.fromEntries(
    ids.map((id) => [
      id,
      {
        ...{ dialect: 'openai', base_url: `http://${any(['h', '127.0.0.1:8080'])}/v1`, local: flag() },
        ...maybe({ api_key: `\${KEY_${pick(9)}}` }),
        ...maybe({ enabled: flag() }),
        ...maybe({ deadlines: { ...maybe({ headers: span() }), ...maybe({ total_whole: span() }) } }),
        ...maybe({
          max_tokens_field: 'max_tokens',
          n: flag(),
          think_tags: flag(),
          user: flag(),
          leave: any(['5s', 'off']),
        }),
        ...maybe({ rpm: 1 + pick(1e6), tpm: 1 + pick(1e6), concurrency: 1 + pick(9), transport: 'fetch' }),
      },
    ]),
  )
  const routesOf = () =>
    ids
      .filter(() => pick(3) > 0)
      .map((upstream) => ({
        ...{ upstream, model: any(NASTY).replaceAll('*', 'x') || 'm' },
        ...maybe({ priority: pick(5), weight: 1 + pick(5), enabled: flag(), pricing: pricing() }),
        ...maybe({ context_length: 50, max_output_length: 5, supported_features: [] }),
      }))
  const slugs = ['v/a', 'v/a.b', 'w/x:y@z', 'Ü/no', '1/2'].filter((slug) => /^\w/.test(slug))
  const models = Object.fromEntries(
    slugs.flatMap((slug) => {
      const routes = routesOf()
      if (routes.length === 0) return []
      const modalities = some(INPUT_MODALITIES)
      const entry = {
        ...{
          name: any(NASTY) || 'n',
          context_length: 100 + pick(1e6),
          max_output_length: 10,
          pricing: pricing(),
          routes,
        },
        ...{ input_modalities: modalities.length > 0 ? modalities : ['text'], output_modalities: ['text'] },
        ...{ supported_features: some(FEATURES), ...maybe({ owned_by: any(NASTY) || 'o', created: pick(2e9) }) },
        ...maybe({ listed: flag(), enabled: flag(), from_wildcard: flag() }),
      }
      return [[slug, entry]]
    }),
  )
  const names = some(['fast', 'x/y', '0', 'true']).filter(() => Object.keys(models).length > 0)
  const aliases = Object.fromEntries(
    names.map((name) => [
      name,
      flag() ? any(Object.keys(models)) : { model: any(Object.keys(models)), listed: flag() },
    ]),
  )
  return JSON.stringify({ version: 1, upstreams, models, aliases })
}

test.each(Array.from({ length: 40 }, (_, seed) => seed))(
  'an export has the same content as the rows, with any origins (seed %d)',
  async (seed) => {
    await apply(store, drawText(seed))
    for (const kind of ['upstreams', 'models', 'routes', 'aliases']) {
      const origin = `'${ORIGINS[(seed + kind.length) % ORIGINS.length]}'`
      run(
        `UPDATE catalog_entries SET origin = ${origin}, fields = json_set(fields, '$.origin', ${origin}) WHERE kind = '${kind}'`,
      )
    }
    await checkExport()
  },
)
