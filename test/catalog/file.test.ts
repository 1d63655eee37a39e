/** Parses the catalog file, and reports all errors at once, with line and field. */
import { describe, expect, test } from 'bun:test'
import { parse, problemsOf } from './parsing.ts'

const FACTS = `name: X, context_length: 10, max_output_length: 5, input_modalities: [text], output_modalities: [text], supported_features: []`
const withUpstream = (upstream: string) => `version: 1\nupstreams:\n  u: ${upstream}\nmodels:\n`
const withModel = (model: string, slug = 'v/m') =>
  `version: 1\nupstreams:\n  u: { dialect: openai, base_url: http://h/v1 }\n  here: { dialect: demo, local: true }\nmodels:\n  ${slug}: ${model}\n`
const priced = (pricing: string) => withModel(`{ ${FACTS}, pricing: ${pricing}, routes: [{ upstream: u, model: m }] }`)

const DESIGN_EXAMPLE = `version: 1
upstreams:
  openai:  { dialect: openai, base_url: https://api.openai.com/v1/, api_key: \${OPENAI_API_KEY}, deadlines: { headers: 90s, total_whole: 1000ms } }
  ollama:  { dialect: openai, base_url: http://127.0.0.1:11434/v1, local: true }
  demo:    { dialect: demo, local: true, pace_ms: 5 }
models:
  openai/gpt-4o-mini:
    name: GPT-4o mini
    context_length: 128000
    max_output_length: 16384
    input_modalities: [text, image]
    output_modalities: [text]
    supported_features: [tools, json_mode, structured_outputs]
    pricing: [{ prompt: "0.00000015", completion: "0.0000006", input_cache_read: "0.000000075" }]
    routes: [{ upstream: openai, model: gpt-4o-mini, priority: 0, weight: 1 }]
aliases: { fast: openai/gpt-4o-mini }
`

describe('a valid catalog', () => {
  test('becomes plain values, and keeps references as references', async () => {
    const { catalog } = await parse(DESIGN_EXAMPLE)
    expect(catalog.upstreams[0]).toEqual({
      id: 'openai',
      dialect: 'openai',
      baseUrl: 'https://api.openai.com/v1',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference is text
      apiKeyRef: '${OPENAI_API_KEY}',
      local: false,
      enabled: true,
      deadlines: { headers: 90_000, totalWhole: 1_000 },
      options: {},
    })
    expect(catalog.upstreams[2]?.options).toEqual({ pace_ms: 5 })
    expect(catalog.models[0]).toMatchObject({
      slug: 'openai/gpt-4o-mini',
      ownedBy: 'openai',
      createdMs: null,
      enabled: true,
    })
    expect(catalog.aliases).toEqual([{ alias: 'fast', model: 'openai/gpt-4o-mini', listed: true }])
  })

  test("is accepted with a warning about a variable that isn't set", async () => {
    expect((await parse(DESIGN_EXAMPLE)).warnings).toEqual([
      'catalog.yaml:3: upstreams.openai: OPENAI_API_KEY is not set here. Until the server has it, this upstream is unavailable.',
    ])
    expect((await parse(DESIGN_EXAMPLE, { OPENAI_API_KEY: 'x' })).warnings).toEqual([])
  })

  test('may be JSON', async () => {
    const json = JSON.stringify({ version: 1, upstreams: { d: { dialect: 'demo', local: true } }, models: {} }, null, 2)
    expect((await parse(json)).catalog.upstreams).toHaveLength(1)
  })

  test('takes missing facts and prices from the known ones', async () => {
    const { catalog } = await parse(
      withModel('{ max_output_length: 100, routes: [{ upstream: u, model: any }] }', 'openai/gpt-4o-mini'),
    )
    expect(catalog.models[0]).toMatchObject({ name: 'GPT-4o mini', contextLength: 128_000, maxOutputLength: 100 })
    expect(catalog.models[0]?.pricing[0]?.prompt).toBe('0.00000015')
  })

  test('needs no price if all routes are local', async () => {
    const { catalog } = await parse(withModel(`{ ${FACTS}, routes: [{ upstream: here, model: m }] }`))
    expect(catalog.models[0]?.pricing).toEqual([{ prompt: '0', completion: '0', input_cache_read: '0' }])
  })

  test('keeps the fields of a route, and the limits of an upstream', async () => {
    const { catalog } = await parse(`version: 1
upstreams: { u: { dialect: demo, local: true, rpm: 60, tpm: 90000, concurrency: 4 } }
models:
  v/m: { ${FACTS.replace('features: []', 'features: [tools, reasoning]')}, routes: [
    { upstream: u, model: a, context_length: 10, max_output_length: 5, supported_features: [] },
    { upstream: u, model: b } ] }
`)
    expect(catalog.upstreams[0]?.options).toEqual({ rpm: 60, tpm: 90_000, concurrency: 4 })
    expect(catalog.models[0]?.routes).toMatchObject([
      { upstreamModel: 'a', contextLength: 10, maxOutputLength: 5, supportedFeatures: [] },
      { upstreamModel: 'b', contextLength: null, maxOutputLength: null, supportedFeatures: null },
    ])
  })

  test('is the built-in one', async () => {
    const shipped = await Bun.file(new URL('../../catalog.yaml', import.meta.url)).text()
    const { catalog, warnings } = await parse(shipped)
    expect(warnings).toEqual([])
    expect(catalog.models.map(({ slug }) => slug)).toEqual(['tollgate/demo', 'tollgate/demo-embeddings'])
  })

  test('is the built-in one with all examples uncommented', async () => {
    const shipped = await Bun.file(new URL('../../catalog.yaml', import.meta.url)).text()
    const { catalog } = await parse(
      shipped.replace(
        /^( *)# (?=( *)(openai: \{|ollama: \{|\S+\/\S+:$|aliases:|fast:|routes:|name:|\w+_\w+:))/gm,
        '$1',
      ),
    )
    const written = catalog.models.filter((model) => !model.fromWildcard)
    expect(written.map(({ slug }) => slug)).toEqual([
      ...['tollgate/demo', 'tollgate/demo-embeddings', 'openai/gpt-4o-mini', 'local/llama3.2'],
    ])
    expect(catalog.models.length).toBeGreaterThan(written.length)
    expect(catalog.aliases).toHaveLength(1)
  })
})

describe('an invalid catalog', () => {
  test('with five errors names five lines', async () => {
    const problems = await problemsOf(`version: 1
upstreams:
  openai:
    dialect: openai
    base_url: ftp://api.openai.com
    api_key: sk-proj-hidden
models:
  openai/gpt-4o-mini:
    contxt_length: 5
    routes: [{ upstream: opnai, model: gpt-4o-mini }]
aliases:
  fast: openai/gpt-5-nothing
`)
    expect(problems.map((line) => line.split(':').slice(0, 3).join(':'))).toEqual([
      'catalog.yaml:5: upstreams.openai.base_url',
      'catalog.yaml:6: upstreams.openai.api_key',
      'catalog.yaml:9: models.openai/gpt-4o-mini.contxt_length',
      'catalog.yaml:10: models.openai/gpt-4o-mini.routes[0].upstream',
      'catalog.yaml:12: aliases.fast',
    ])
    expect(problems.join()).not.toContain('hidden')
    expect(problems[2]).toContain("did you mean 'context_length'?")
    expect(problems[3]).toContain("did you mean 'openai'?")
  })

  const scenarios: [string, string, RegExp][] = [
    [
      'a file of something else',
      'root:x:0:0:root\n',
      /:1: this is not a catalog, which has version, upstreams, and models\./,
    ],
    [
      'a misspelt public model',
      DESIGN_EXAMPLE.replace('models:', 'models:\n  openai/gpt-4o-mni: { routes: [{ upstream: openai, model: x }] }'),
      /openai\/gpt-4o-mni: name, .* are missing: no public facts are known \(did you mean 'openai\/gpt-4o-mini'\?\)\. Set them on the model/,
    ],
    ['an empty file', '# nothing\n', /:\d: the file is empty/],
    ["text that isn't YAML", 'version: 1\nupstreams: [\n', /:\d: not valid YAML/],
    ['a duplicate name', `${DESIGN_EXAMPLE}aliases: {}\n`, /:17: duplicate key: aliases\./],
    ['another version', 'version: 2\nupstreams:\nmodels:\n', /:1: version: Invalid value: 2. Supported values are: 1/],
    ['a missing section', 'version: 1\nmodels:\n', /:1: upstreams is missing/],
    ['an unknown dialect', withUpstream('{ dialect: soap }'), /:3: upstreams\.u\.dialect: unknown dialect 'soap'\./],
    [
      "an API version that isn't a date",
      withUpstream('{ dialect: anthropic, base_url: https://h, api_version: v1 }'),
      /:3: upstreams\.u\.api_version: must be an API version, which is a date such as "2023-06-01"\./,
    ],
    [
      'betas in one text',
      withUpstream('{ dialect: anthropic, base_url: https://h, betas: ["a,b"] }'),
      /:3: upstreams\.u\.betas\[0\]: must be one beta name, such as files-api-2025-04-14\./,
    ],
    [
      'a path without a slash',
      withUpstream('{ dialect: anthropic, base_url: https://h, path: messages }'),
      /:3: upstreams\.u\.path: must be a path that starts with \/, such as \/v1\/messages\./,
    ],
    [
      'a setting of another dialect',
      withUpstream('{ dialect: openai, base_url: https://h, betas: [x] }'),
      /:3: upstreams.u.betas: only the 'anthropic' dialect has betas/,
    ],
    ['no base_url', withUpstream('{ dialect: openai }'), /:3: upstreams.u: base_url is missing/],
    [
      'a password in the base_url',
      withUpstream('{ dialect: openai, base_url: "https://a:b@h/v1" }'),
      /:3: upstreams\.u\.base_url: must not contain a user or password\./,
    ],
    [
      'pace_ms on another dialect',
      withUpstream('{ dialect: openai, base_url: http://h, pace_ms: 1 }'),
      /:3: upstreams.u.pace_ms: only the 'demo'/,
    ],
    [
      'a deadline of nothing',
      withUpstream('{ dialect: demo, deadlines: { idle: 0 } }'),
      /:3: upstreams\.u\.deadlines\.idle: must be a duration, such as 500ms, 60s, 5m or 1h, at most 24 days\./,
    ],
    [
      'a deadline beyond any timer',
      withUpstream('{ dialect: demo, deadlines: { idle: 900h } }'),
      /:3: upstreams\.u\.deadlines\.idle: must be a duration, such as 500ms, 60s, 5m or 1h, at most 24 days\./,
    ],
    [
      'a too long disconnect grace',
      withUpstream('{ dialect: openai, base_url: http://h, disconnect_grace: 6m }'),
      /:3: upstreams\.u\.disconnect_grace: must be a duration, such as 500ms, 60s, 5m at most, or off\./,
    ],
    [
      'a deadline without a unit',
      withUpstream('{ dialect: demo, deadlines: { idle: 30 } }'),
      /:3: upstreams\.u\.deadlines\.idle: 30 needs a unit: write 30s for seconds or 30ms for milliseconds\./,
    ],
    [
      'an invalid field in pass',
      withUpstream('{ dialect: openai, base_url: http://h, pass: [provider, "*"] }'),
      /:3: upstreams\.u\.pass\[1\]: invalid field '\*'\./,
    ],
    [
      'a field in pass that is always forwarded',
      withUpstream('{ dialect: openai, base_url: http://h, pass: ["mock_*", top_k] }'),
      /:3: upstreams\.u\.pass\[1\]: top_k is sent to every upstream anyway\./,
    ],
    [
      'a process command',
      withUpstream('{ dialect: demo, command: [x] }'),
      /:3: upstreams\.u\.command: unknown field\./,
    ],
    [
      'a price as a number',
      priced('[{ prompt: 0.1, completion: "0" }]'),
      /:6: models.v\/m.pricing\[0\].prompt: .*in quotes/,
    ],
    [
      'a price with an exponent',
      priced('[{ prompt: "1e-7", completion: "0" }]'),
      /:6: models\.v\/m\.pricing\[0\]\.prompt: invalid price '1e-7'\./,
    ],
    [
      'a negative price',
      priced('[{ prompt: "-1", completion: "0" }]'),
      /:6: models\.v\/m\.pricing\[0\]\.prompt: invalid price '-1'\./,
    ],
    [
      'a price of 19 decimals',
      priced('[{ prompt: "0.0000000000000000001", completion: "0" }]'),
      /:6: models\.v\/m\.pricing\[0\]\.prompt: invalid price '0\.0000000000000000001'\./,
    ],
    [
      "a price per prompt image, which isn't supported",
      priced('[{ prompt: "1", completion: "0", image: "0.01" }]'),
      /:6: models\.v\/m\.pricing\[0\]\.image: the price of an image in the prompt is not supported\./,
    ],
    [
      'a condition on the first price',
      priced('[{ prompt: "1", completion: "0", min_prompt_tokens: 5 }]'),
      /:6: models.v\/m.pricing\[0\]: the first price/,
    ],
    [
      'a cost at no path',
      withUpstream(
        '{ dialect: openai, base_url: "http://h/v1", local: true, cost: { path: "usage[cost]", unit: usd } }',
      ),
      /:3: upstreams\.u\.cost\.path: invalid path 'usage\[cost\]'\./,
    ],
    [
      'a cost in an unknown unit',
      withUpstream(
        '{ dialect: openai, base_url: "http://h/v1", local: true, cost: { path: usage.cost, unit: cents } }',
      ),
      /:3: upstreams.u.cost/,
    ],
    [
      'a cost for a dialect without costs',
      withUpstream('{ dialect: demo, local: true, cost: off }'),
      /:3: upstreams\.u\.cost: only the 'openai' dialect has cost\./,
    ],
    [
      'a mode on the first price',
      priced('[{ prompt: "1", completion: "0", mode: flex }]'),
      /:6: models.v\/m.pricing\[0\]: the first price/,
    ],
    [
      'a further price without a condition',
      priced('[{ prompt: "1", completion: "0" }, { prompt: "2", completion: "0" }]'),
      /:6: models\.v\/m\.pricing\[1\]: min_prompt_tokens is missing: every price after the first needs min_prompt_tokens, mode, size, or quality\./,
    ],
    [
      'a mode under another name than it will be served by',
      priced('[{ prompt: "1", completion: "0" }, { prompt: "2", completion: "0", mode: ON_DEMAND_FLEX }]'),
      /:6: models\.v\/m\.pricing\[1\]\.mode: invalid mode 'ON_DEMAND_FLEX': write 'flex'\./,
    ],
    [
      'an invalid mode',
      priced('[{ prompt: "1", completion: "0" }, { prompt: "2", completion: "0", mode: default }]'),
      /:6: models\.v\/m\.pricing\[1\]\.mode: invalid mode 'default': such calls cost the price without a mode\./,
    ],
    [
      'a mode with a price only for long prompts',
      priced('[{ prompt: "1", completion: "0" }, { prompt: "2", completion: "0", mode: flex, min_prompt_tokens: 9 }]'),
      /:6: models\.v\/m\.pricing\[1\]: mode flex also needs a price without min_prompt_tokens, for shorter prompts\./,
    ],
    [
      'two prices for the same',
      priced(
        '[{ prompt: "1", completion: "0" }, { prompt: "2", completion: "0", mode: flex }, { prompt: "3", completion: "0", mode: flex }]',
      ),
      /:6: models\.v\/m\.pricing\[2\]: duplicate price: another one has the same conditions\./,
    ],
    [
      "a fee that isn't a decimal",
      priced('[{ prompt: "1", completion: "0", web_search: "1c" }]'),
      /:6: models\.v\/m\.pricing\[0\]\.web_search: invalid price '1c'\./,
    ],
    [
      'a price of a second with a sixteenth decimal, of which a ms would have none',
      withModel(
        `{ ${FACTS}, routes: [{ upstream: here, model: m, pricing: [{ prompt: "0", completion: "0", second: "0.0000000000000001" }] }] }`,
      ),
      /:6: models\.v\/m\.routes\[0\]\.pricing\[0\]\.second: invalid price '0\.0000000000000001'\./,
    ],
    [
      'an invalid price per second',
      withModel(
        `{ ${FACTS}, routes: [{ upstream: here, model: m, pricing: [{ prompt: "1", completion: "0", second: "1s" }] }] }`,
      ),
      /:6: models\.v\/m\.routes\[0\]\.pricing\[0\]\.second: invalid price '1s'\./,
    ],
    [
      'a price of a second of a provider',
      withModel(
        `{ ${FACTS}, routes: [{ upstream: u, model: m, pricing: [{ prompt: "1", completion: "0", second: "1" }] }] }`,
      ),
      /:6: models\.v\/m\.routes\[0\]\.pricing: a price per second is only for local upstreams\./,
    ],
    [
      'a price of a second that a provider would have of its model',
      priced('[{ prompt: "1", completion: "0", second: "1" }]'),
      /:6: models\.v\/m\.routes\[0\]\.pricing: a price per second is only for local upstreams\./,
    ],
    [
      'a paid route without a price',
      withModel(`{ ${FACTS}, routes: [{ upstream: u, model: m }] }`),
      /:6: models.v\/m: pricing is missing/,
    ],
    [
      'missing facts',
      withModel('{ routes: [{ upstream: here, model: m }] }'),
      /:6: models.v\/m: name, context_length, .* are missing/,
    ],
    [
      'a name without a vendor',
      withModel(`{ ${FACTS}, routes: [{ upstream: here, model: m }] }`, 'm'),
      /:6: models\.m: invalid model ID 'm'\./,
    ],
    [
      'a limit of nothing',
      withUpstream('{ dialect: demo, local: true, rpm: 0 }'),
      /:3: upstreams\.u\.rpm: expected a value >= 1, but got 0 instead\./,
    ],
    [
      "a limit that isn't a whole number",
      withUpstream('{ dialect: demo, local: true, concurrency: 1.5 }'),
      /:3: upstreams.u.concurrency: .*an integer/,
    ],
    [
      'a route with more context than its model',
      withModel(`{ ${FACTS}, routes: [{ upstream: here, model: m, context_length: 11 }] }`),
      /:6: models\.v\/m\.routes\[0\]\.context_length: 11 is more than the model's 10\./,
    ],
    [
      'a route that writes more than its model',
      withModel(`{ ${FACTS}, routes: [{ upstream: here, model: m, max_output_length: 6 }] }`),
      /:6: models\.v\/m\.routes\[0\]\.max_output_length: 6 is more than the model's 5\./,
    ],
    [
      'a route that writes more than its own context holds',
      withModel(`{ ${FACTS}, routes: [{ upstream: here, model: m, context_length: 3, max_output_length: 4 }] }`),
      /:6: models\.v\/m\.routes\[0\]\.max_output_length: 4 is more than context_length \(3\)\./,
    ],
    [
      'a route with a feature that its model lacks',
      withModel(`{ ${FACTS}, routes: [{ upstream: here, model: m, supported_features: [tools] }] }`),
      /:6: models\.v\/m\.routes\[0\]\.supported_features: the model lacks 'tools'\./,
    ],
    [
      'a route beyond what is known of its model',
      withModel('{ routes: [{ upstream: u, model: m, context_length: 128001 }] }', 'openai/gpt-4o-mini'),
      /:6: models\.openai\/gpt-4o-mini\.routes\[0\]\.context_length: 128001 is more than the model's 128000\./,
    ],
    [
      'a * in the route of one model',
      withModel(`{ ${FACTS}, routes: [{ upstream: here, model: "*" }] }`),
      /:6: models\.v\/m\.routes\[0\]\.model: '\*' contains \*, which is only for wildcards such as openai\/\*\./,
    ],
    [
      'a * without quotes',
      withModel('{ routes: [{ upstream: u, model: * }] }', 'openai/*'),
      /:6: not valid YAML: Alias cannot be an empty string\./,
    ],
    [
      'a name with a * and without quotes',
      withModel('{ routes: [{ upstream: u, model: *-latest }] }', 'openai/*'),
      /:1: not valid YAML: Unresolved alias \(the anchor must be set before the alias\): -latest\./,
    ],
    [
      'an output longer than the context',
      priced('[{ prompt: "1", completion: "0" }]').replace('_length: 5', '_length: 50'),
      /max_output_length: 50 is more/,
    ],
    [
      'a duplicate route',
      withModel(`{ ${FACTS}, routes: [{ upstream: here, model: m }, { upstream: here, model: m }] }`),
      /:6: models\.v\/m\.routes\[1\]: duplicate route: same upstream and model\./,
    ],
    [
      'an alias that hides a model',
      `${DESIGN_EXAMPLE.replace('fast:', 'openai/gpt-4o-mini:')}`,
      /:16: aliases\.openai\/gpt-4o-mini: a model has this name\./,
    ],
    [
      'an alias with fields, of a missing model',
      DESIGN_EXAMPLE.replace('fast: openai/gpt-4o-mini', 'fast: { model: openai/gpt-4o-mni, listed: false }'),
      /:16: aliases\.fast\.model: unknown model 'openai\/gpt-4o-mni' in this file \(did you mean 'openai\/gpt-4o-mini'\?\)\./,
    ],
    [
      'an alias with an unknown field',
      DESIGN_EXAMPLE.replace('fast: openai/gpt-4o-mini', 'fast: { model: openai/gpt-4o-mini, listd: false }'),
      /:16: aliases\.fast\.listd: unknown field \(did you mean 'listed'\?\)\./,
    ],
  ]
  for (const [name, text, problem] of scenarios) {
    test(`reports ${name}, and nothing else`, async () => {
      const problems = await problemsOf(text)
      expect(problems).toHaveLength(name.startsWith('text') ? problems.length : 1)
      expect(problems[0]).toMatch(problem)
    })
  }
})

test('reading a large catalog lets the server respond to other requests', async () => {
  const facts = 'context_length: 8, max_output_length: 1, input_modalities: [text], output_modalities: [text]'
  const models = Array.from(
    { length: 2_000 },
    (_, index) => `  v/m${index}: { name: M, ${facts}, supported_features: [], routes: [{ upstream: u, model: m }] }\n`,
  )
  let turns = 0
  const count = () => {
    turns++
    next = setImmediate(count)
  }
  let next = setImmediate(count)
  const { catalog } = await parse(
    `version: 1\nupstreams: { u: { dialect: demo, local: true } }\nmodels:\n${models.join('')}`,
  )
  clearImmediate(next)
  expect([catalog.models.length, turns > 5]).toEqual([2_000, true])
})

test('a text of several documents is refused', async () => {
  expect(await problemsOf('version: 1\nupstreams: {}\nmodels: {}\n---\nversion: 1\n')).toEqual([
    'catalog.yaml:4: not valid YAML: the file has several YAML documents; a catalog is one.',
  ])
})
