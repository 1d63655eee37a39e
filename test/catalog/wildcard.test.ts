/** Wildcards: their models, overrides, and invalid fields. */
import { describe, expect, test } from 'bun:test'
import type { KnownModel, KnownProviders } from '../../src/catalog/known.ts'
import { expandWildcards } from '../../src/catalog/wildcard.ts'
import { parse, problemsOf } from './parsing.ts'

const UPSTREAMS = {
  paid: { dialect: 'openai' },
  maker: { dialect: 'openai' },
  mall: { dialect: 'openai' },
  here: { dialect: 'demo', local: true },
}
const model = (more: Partial<KnownModel> = {}): KnownModel => ({
  name: 'M',
  limit: { context: 9, output: 5 },
  modalities: { input: ['text'], output: ['text'] },
  cost: { input: 1, output: 2 },
  ...more,
})
const { cost: _, ...unpriced } = model()
const KNOWN: KnownProviders = {
  maker: {
    models: {
      'big-1': model(),
      'big-2': model(),
      small: model(),
      'no-price': unpriced,
      'no-context': model({ limit: { context: 0, output: 5 } }),
    },
  },
  mall: { models: { 'maker/big-1': model(), 'other/tiny:free': model(), 'other/a/b': model() } },
}

const route = (upstream: string, name: string) => ({ upstream, model: name })
/** The expanded models: slug -> `upstream:model` of its routes. */
function expand(models: Record<string, object[]>, aliases: string[] = []): Record<string, string[]> {
  const entries = Object.entries(models).map(([name, routes]): [string, Record<string, unknown>] => [name, { routes }])
  const { models: found, issues } = expandWildcards(entries, { aliases, upstreams: UPSTREAMS, known: KNOWN })
  expect(issues).toEqual([])
  const toNames = (routes: unknown) =>
    (routes as ReturnType<typeof route>[]).map((one) => `${one.upstream}:${one.model}`)
  return Object.fromEntries(found.map(({ slug, entry }) => [slug, toNames(entry.routes)]))
}

describe('a wildcard', () => {
  test("stands for the vendor's known models with price and context", () => {
    expect(expand({ 'maker/*': [route('paid', '*')] })).toEqual({
      'maker/big-1': ['paid:big-1'],
      'maker/big-2': ['paid:big-2'],
      'maker/small': ['paid:small'],
    })
  })

  test('replaces the * of a route with its own match, and leaves a route without * unchanged', () => {
    expect(expand({ 'maker/big-*': [route('paid', 'v-*-latest'), route('here', 'same')] })).toEqual({
      'maker/big-1': ['paid:v-1-latest', 'here:same'],
      'maker/big-2': ['paid:v-2-latest', 'here:same'],
    })
  })

  test('stands for the name itself if nothing is left for the *', () => {
    expect(expand({ 'maker/small*': [route('maker', 'small*')] })).toEqual({ 'maker/small': ['maker:small'] })
  })

  test("has the models of its routes' upstreams if the vendor is unknown", () => {
    expect(expand({ 'mine/*': [route('mall', 'maker/*'), route('maker', '*')] })).toEqual({
      'mine/big-1': ['mall:maker/big-1', 'maker:big-1'],
      'mine/big-2': ['maker:big-2'],
      'mine/small': ['maker:small'],
    })
    expect(expand({ 'other/*': [route('mall', 'other/*')] })).toEqual({ 'other/tiny:free': ['mall:other/tiny:free'] })
  })

  test('drops a route to a known provider without a model of that name', () => {
    expect(expand({ 'maker/*': [route('maker', '*'), route('mall', 'maker/*')] })).toEqual({
      'maker/big-1': ['maker:big-1', 'mall:maker/big-1'],
      'maker/big-2': ['maker:big-2'],
      'maker/small': ['maker:small'],
    })
    // Without a paid route, only a local server would remain, which may not have the model.
    expect(expand({ 'maker/*': [route('mall', 'maker/*'), route('here', '*')] })).toEqual({
      'maker/big-1': ['mall:maker/big-1', 'here:big-1'],
    })
  })

  test('has no duplicate routes', () => {
    expect(expand({ 'maker/small*': [route('paid', 'small*'), route('paid', 'small')] })).toEqual({
      'maker/small': ['paid:small'],
    })
  })

  test('is overridden by explicit models and aliases, and by longer wildcards', () => {
    const models = {
      'maker/*': [route('paid', '*')],
      'maker/big-2': [route('here', 'x')],
      'maker/big-*': [route('maker', 'big-*')],
    }
    expect(expand(models, ['maker/small'])).toEqual({ 'maker/big-1': ['maker:big-1'] })
  })
})

const file = (models: string, aliases = '') => `version: 1
upstreams:
  openai: { dialect: openai, base_url: http://h/v1 }
  openrouter: { dialect: openai, base_url: http://h/v1 }
  here: { dialect: demo, local: true }
models:
  ${models}
aliases: { ${aliases} }
`
const EVERY = 'openai/*: { routes: [{ upstream: openai, model: "*" }] }'

describe('a catalog with a wildcard', () => {
  test("has models with facts and price, marked as the wildcard's, next to explicit ones", async () => {
    const { catalog, wildcards } = await parse(
      file(`openai/gpt-4o: { routes: [{ upstream: openai, model: gpt-4o }] }\n  ${EVERY}`, 'fast: openai/gpt-4o-mini'),
    )
    const found = catalog.models.find(({ slug }) => slug === 'openai/gpt-4o-mini')
    expect(found).toMatchObject({
      listed: true,
      fromWildcard: true,
      name: 'GPT-4o mini',
      contextLength: 128_000,
      ownedBy: 'openai',
    })
    expect(found?.pricing[0]).toMatchObject({ prompt: '0.00000015' })
    expect(catalog.models.filter(({ fromWildcard }) => !fromWildcard).map(({ slug }) => slug)).toEqual([
      'openai/gpt-4o',
    ])
    expect(wildcards).toEqual([{ wildcard: 'openai/*', models: catalog.models.length - 1 }])
    expect(catalog.models.filter(({ slug }) => /image/.test(slug))).toEqual([])
    expect(catalog.models.find(({ slug }) => slug === 'openai/text-embedding-3-small')).toMatchObject({
      ...{ contextLength: 8_191, maxOutputLength: 1, outputModalities: ['embeddings'], supportedFeatures: [] },
      pricing: [
        { prompt: '0.00000002', completion: '0' },
        { mode: 'batch', prompt: '0.00000001', completion: '0' },
      ],
    })
    expect(catalog.aliases).toEqual([{ alias: 'fast', model: 'openai/gpt-4o-mini', listed: true }])
  })

  test('applies its fields to all of its models', async () => {
    const { catalog } = await parse(
      file(
        'openai/gpt-4o*: { owned_by: us, enabled: false, listed: false, supported_features: [tools], pricing: [{ prompt: "1", completion: "2" }], routes: [{ upstream: openai, model: "gpt-4o*", context_length: 1000000 }] }',
      ),
    )
    expect(catalog.models.length).toBeGreaterThan(1)
    for (const found of catalog.models)
      expect(found).toMatchObject({
        ownedBy: 'us',
        enabled: false,
        listed: false,
        supportedFeatures: ['tools'],
        pricing: [{ prompt: '1', completion: '2' }],
        // A limit for models of any size: the snapshot lowers it to the model's own.
        routes: [{ contextLength: 1_000_000 }],
      })
  })

  const scenarios: [string, string, RegExp][] = [
    [
      'a * in the middle',
      file('openai/*-mini: { routes: [{ upstream: openai, model: x }] }'),
      /:7: models\.openai\/\*-mini: invalid wildcard 'openai\/\*-mini'\./,
    ],
    [
      'a * for the vendor',
      file('"*": { routes: [{ upstream: openai, model: x }] }'),
      /:7: models\.\*: invalid wildcard '\*'\./,
    ],
    [
      'two of them in a route',
      file('openai/*: { routes: [{ upstream: openai, model: "*-*" }] }'),
      /routes\[0\].model: '\*-\*' has more than one \*/,
    ],
    [
      'local routes only',
      file('openai/*: { routes: [{ upstream: here, model: "*" }] }'),
      /:7: models\.openai\/\*: wildcards only cover public models with a known price, and all routes are local\./,
    ],
    [
      'an unknown vendor',
      file('opnai/*: { routes: [{ upstream: openai, model: x }] }'),
      /:7: models\.opnai\/\*: no public models are known of 'opnai' \(did you mean 'openai'\?\) or of its routes' upstreams\./,
    ],
    [
      'a name of object’s own',
      file('constructor/*: { routes: [{ upstream: openai, model: x }] }'),
      /:7: models\.constructor\/\*: no public models are known of 'constructor' or of its routes' upstreams\./,
    ],
    [
      'a prefix that no model has',
      file('openai/gtp*: { routes: [{ upstream: openai, model: "gtp*" }] }'),
      /:7: models\.openai\/gtp\*: no known model of openai starts with 'gtp'\./,
    ],
    [
      'a route with unknown names',
      file('mine/*: { routes: [{ upstream: openai, model: "gtp*" }] }'),
      /:7: models\.mine\/\*: no known model matches its routes\./,
    ],
    [
      'models without a known price',
      file('ollama-cloud/*: { routes: [{ upstream: u2, model: "*" }] }').replace(
        '  here:',
        '  u2: { dialect: openai, base_url: http://h/v1 }\n  here:',
      ),
      /:8: models\.ollama-cloud\/\*: no model it covers has known facts and a known price\./,
    ],
    [
      'a route that asks for names which its upstream does not have',
      file('openai/gpt-4*: { routes: [{ upstream: openai, model: "*" }] }'),
      /:7: models\.openai\/gpt-4\*\.routes\[0\]\.model: openai has no known model such as '\S*'\. In a route, \* means the same text as in openai\/gpt-4\*/,
    ],
    [
      'a name for all',
      file('openai/*: { name: X, routes: [{ upstream: openai, model: "*" }] }'),
      /:7: models\.openai\/\*\.name: a wildcard can't have name, which differs between models: remove it, or list a model by name\./,
    ],
    [
      'a context for all',
      file('openai/*: { context_length: 5, routes: [{ upstream: openai, model: "*" }] }'),
      /:7: models\.openai\/\*\.context_length: a wildcard can't have context_length, which differs between models/,
    ],
    [
      'a missing upstream',
      file('openai/*: { routes: [{ upstream: opnai, model: "*" }] }'),
      /:7: models\.openai\/\*\.routes\[0\]\.upstream: unknown upstream 'opnai' in this file \(did you mean 'openai'\?\)\./,
    ],
    [
      'an alias for all',
      file(EVERY, 'a: openai/*'),
      /:8: aliases\.a: 'openai\/\*' is a wildcard, but an alias needs one model\./,
    ],
    [
      "an alias of a model that it doesn't cover",
      file(EVERY, 'a: openai/gpt-4o-mni'),
      /:8: aliases\.a: openai\/\* doesn't cover 'openai\/gpt-4o-mni': its price is unknown \(did you mean 'openai\/gpt-4o-mini'\?\)\./,
    ],
  ]
  for (const [name, text, problem] of scenarios) {
    test(`reports ${name}, and nothing else`, async () => {
      const problems = await problemsOf(text)
      expect(problems).toHaveLength(1)
      expect(problems[0]).toMatch(problem)
    })
  }
})

test.each(['{ dialect: anthropic, base_url: https://h }', '{ preset: anthropic }'])(
  'a route to %s has the known reasoning settings, unless it sets its own',
  async (upstream) => {
    const { catalog } = await parse(`
version: 1
upstreams:
  anthropic: ${upstream}
  other: { dialect: openai, base_url: https://h/v1 }
models:
  anthropic/claude-haiku-*: { routes: [{ upstream: anthropic, model: "claude-haiku-*" }, { upstream: other, model: "anthropic/claude-haiku-*" }] }
  anthropic/claude-sonnet-5: { routes: [{ upstream: anthropic, model: claude-sonnet-5, thinking: none }] }
`)
    const options = (slug: string) =>
      catalog.models.find((model) => model.slug === slug)?.routes.map((route) => route.options)
    expect(options('anthropic/claude-haiku-4-5')).toEqual([{ thinking: 'budget' }, {}])
    expect(options('anthropic/claude-sonnet-5')).toEqual([{ thinking: 'none' }])
  },
)
