/** Names in the model list without an entry of their own, from wildcards and aliases, and what hides them. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { startApp } from '../support/app.ts'
import { forAllTests } from '../support/lifetime.ts'
import { play } from '../support/scenario.ts'

const CATALOG = `
version: 1
upstreams:
  openai: { dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: \${UPSTREAM_KEY} }
  mistral: { dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: \${NOBODY_SET_THIS} }
  here: { dialect: demo, local: true }
models:
  openai/gpt-4o*: { routes: [{ upstream: openai, model: "gpt-4o*" }] }
  openai/gpt-4.1*: { listed: false, routes: [{ upstream: openai, model: "gpt-4.1*" }] }
  mistral/mistral-large*: { routes: [{ upstream: mistral, model: "mistral-large*" }] }
  mistral/mistral-small-latest: { routes: [{ upstream: mistral, model: mistral-small-latest }] }
  local/own:
    { name: Own, context_length: 9000, max_output_length: 900, input_modalities: [text], output_modalities: [text],
      supported_features: [], listed: false, routes: [{ upstream: here, model: own }] }
aliases:
  fast: openai/gpt-4o-mini
  team/own: local/own
  secret: { model: openai/gpt-4o, listed: false }
`

let everything: string
const app = forAllTests(() => startApp({ catalog: CATALOG }))
beforeAll(() => {
  everything = app.key()
})

interface Listed {
  id: string
  alias_of?: string
  is_ready: boolean
}

async function listFor(key: string): Promise<Listed[]> {
  const list: { data: Listed[] } = JSON.parse(await play(app, { name: 'list', url: '/v1/models', status: 200 }, key))
  return list.data
}
const idsFor = async (key: string) => (await listFor(key)).map(({ id }) => id)
const retrieve = async (id: string, key = everything): Promise<Listed> =>
  JSON.parse(await play(app, { name: id, url: `/v1/models/${id}`, status: 200 }, key))

describe('the list', () => {
  test('has the models of a wildcard, in order, next to models with their own entries', async () => {
    const ids = await idsFor(everything)
    expect(ids).toEqual(expect.arrayContaining(['openai/gpt-4o', 'openai/gpt-4o-mini', 'mistral/mistral-small-latest']))
    expect(ids).toEqual(ids.toSorted())
  })

  test("omits a wildcard's models if its upstream lacks the credential", async () => {
    expect((await idsFor(everything)).filter((id) => id.startsWith('mistral/'))).toEqual([
      'mistral/mistral-small-latest',
    ])
  })

  test('has aliases with their models, even hidden ones', async () => {
    const aliases = (await listFor(everything)).filter(({ alias_of }) => alias_of !== undefined)
    expect(aliases).toMatchObject([
      { id: 'fast', alias_of: 'openai/gpt-4o-mini', name: 'GPT-4o mini', owned_by: 'openai', is_ready: true },
      { id: 'team/own', alias_of: 'local/own', name: 'Own' },
    ])
  })

  test.each(['local/own', 'secret', 'openai/gpt-4.1', 'mistral/mistral-large-latest'])(
    'hides %s, which can still be retrieved',
    async (id) => {
      expect(await idsFor(everything)).not.toContain(id)
      expect((await retrieve(id)).id).toBe(id)
    },
  )

  test.each([
    [{ models: ['openai/gpt-4o-mini'] }, ['fast', 'openai/gpt-4o-mini']],
    [{ models: ['fast', 'secret'] }, []],
    [{ scope: 'local' as const }, ['team/own']],
  ])('is reduced to the models that a key of %j may use', async (options, ids) => {
    expect(await idsFor(app.key(options))).toEqual(ids)
  })

  test('has the same data for each model as its retrieval', async () => {
    const key = app.key({ models: ['*/*o*'] })
    const listed = await listFor(key)
    expect(listed.length).toBeGreaterThan(5)
    for (const model of listed) {
      expect(await retrieve(model.id, key)).toEqual(model)
      expect(await retrieve(encodeURIComponent(model.id), key)).toEqual(model)
    }
  })
})

test('a name in the list can always be retrieved', async () => {
  const key = app.key({ scope: 'local' })
  for (const id of await idsFor(key)) {
    const body = { model: id, messages: [{ role: 'user', content: 'Hello' }] }
    const url = '/v1/chat/completions'
    const text = await play(app, { name: id, method: 'POST', url, body, status: 200, ledgerRows: 1 }, key)
    expect(JSON.parse(text)).toMatchObject({ model: 'local/own' })
  }
})
