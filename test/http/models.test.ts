/** The model list and single models: what each key sees, and the ways to write a model ID in a URL. */

import { describe, expect, test } from 'bun:test'
import { createTeam } from '../../src/keys/service.ts'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { checkError } from '../support/messages-contract.ts'
import { play } from '../support/scenario.ts'

const gateway = forAllTests(startGateway)

async function idsFor(key: string): Promise<string[]> {
  const text = await play(gateway.app, { name: 'list', url: '/v1/models', status: 200 }, key)
  const list: { object: string; data: { id: string }[] } = JSON.parse(text)
  expect(list.object).toBe('list')
  return list.data.map((model) => model.id)
}

describe('the list', () => {
  test('has every model and alias for an unlimited key, ready or not', async () => {
    expect(await idsFor(gateway.key)).toEqual([
      'a/b',
      'acme/idle',
      'acme/large',
      'acme/single',
      'acme/small',
      'acme/typed',
      'fast',
      'local/tiny',
      'local/typed',
    ])
  })

  test("is one page for clients that read pages, and doesn't describe models to Codex", async () => {
    const list = async (url: string, key = gateway.key) =>
      JSON.parse(await play(gateway.app, { name: url, url, status: 200 }, key))
    expect(await list('/v1/models?limit=1000')).toMatchObject({
      has_more: false,
      first_id: 'a/b',
      last_id: 'local/typed',
    })
    expect(await list('/v1/models')).not.toHaveProperty('models')
    expect(await list('/v1/models?client_version=0.169.0')).toMatchObject({ object: 'list', models: [] })
    const nothing = await list('/v1/models', gateway.app.key({ models: ['none/*'] }))
    expect(nothing).toEqual({ object: 'list', data: [], has_more: false, first_id: null, last_id: null })
  })

  test.each([
    [{ models: ['acme/sm*'] }, ['acme/small']],
    [
      { models: ['acme/*', 'local/tiny'] },
      ['a/b', 'acme/idle', 'acme/large', 'acme/single', 'acme/small', 'acme/typed', 'fast', 'local/tiny'],
    ],
    [{ models: ['fast'] }, []],
    [{ scope: 'local' as const }, ['local/tiny', 'local/typed']],
    [{ scope: 'local' as const, models: ['acme/*'] }, []],
  ])('is reduced to the models that a key of %j may use', async (options, ids) => {
    expect(await idsFor(gateway.app.key(options))).toEqual(ids)
  })

  test.each([
    [{ models: ['acme/*'] }, { models: ['acme/sm*', 'local/*'] }, ['acme/small']],
    [{}, { scope: 'local' as const }, ['local/tiny', 'local/typed']],
  ])('is reduced to the models that a key of %j in a team of %j may use', async (ofKey, ofTeam, ids) => {
    const name = JSON.stringify(ofTeam)
    gateway.app.change((store, by) => createTeam(store, { name, ...ofTeam }, by))
    expect(await idsFor(gateway.app.key({ team: name, ...ofKey }))).toEqual(ids)
  })

  test('has only IDs that the same key can retrieve', async () => {
    const key = gateway.app.key({ models: ['*/s*', 'local/*'] })
    for (const id of await idsFor(key)) {
      await play(gateway.app, { name: id, url: `/v1/models/${id}`, status: 200, contains: [`"id":"${id}"`] }, key)
    }
  })
})

describe('a single model', () => {
  test('with a similar name is suggested for a wrong one', async () => {
    for (const url of ['large', 'other/large', 'acme/LARGE', 'acme/lagre']) {
      const contains = [`model not found: \`${url}\`. Did you mean \`acme/large\`?`]
      await play(gateway.app, { name: url, url: `/v1/models/${url}`, status: 404, contains }, gateway.key)
    }
  })

  test('has every field of the contract, and no other catalog data', async () => {
    const text = await play(gateway.app, { name: 'one', url: '/v1/models/acme/large', status: 200 }, gateway.key)
    expect(JSON.parse(text)).toEqual({
      id: 'acme/large',
      object: 'model',
      owned_by: 'acme',
      created: gateway.app.clock.nowMs / 1000,
      name: 'Large',
      context_length: 8192,
      max_output_length: 1000,
      input_modalities: ['text', 'image', 'audio', 'video'],
      output_modalities: ['text'],
      supported_features: ['tools'],
      pricing: [{ prompt: '0.000001', completion: '0.000002', input_cache_read: '0.0000001' }],
      type: 'model',
      display_name: 'Large',
      created_at: new Date(gateway.app.clock.nowMs).toISOString(),
      max_input_tokens: 8192,
      max_tokens: 1000,
      lifecycle: 'active',
      ...{ deprecated_at: null, retires_at: null, line: null, capabilities: null, allowed_fallback_models: null },
      is_ready: true,
    })
  })

  test.each([
    ['/v1/models/acme/large', 'acme/large'],
    ['/v1/models/acme%2Flarge', 'acme/large'],
    ['/v1/models/acme%2flarge', 'acme/large'],
    ['/v1/models/fast', 'fast'],
    ['/v1/models/a/b', 'a/b'],
    ['/v1/models/a%2Fb', 'a/b'],
    ['/v1/models/acme/large?after=1', 'acme/large'],
    ['/v1/models/acme/idle', 'acme/idle'],
  ])('GET %s returns %s', async (url, id) => {
    const text = await play(gateway.app, { name: url, url, status: 200 }, gateway.key)
    expect(JSON.parse(text)).toMatchObject({ id, is_ready: id !== 'acme/idle' })
  })

  test.each([
    'acme/none',
    'acme',
    'acme/large/',
    'ACME/large',
    'acme%252Flarge',
    '%E0%A4%A',
    'constructor',
    '__proto__',
  ])('GET /v1/models/%s is not found', async (path) => {
    await play(
      gateway.app,
      {
        name: path,
        url: `/v1/models/${path}`,
        status: 404,
        error: { type: 'invalid_request_error', code: 'model_not_found', param: null },
        contains: ['model not found: `', 'See GET /v1/models for models available to this key.'],
      },
      gateway.key,
    )
  })

  test.each(['key', 'team'])("that a %s may not use gets the same error as one that doesn't exist", async (whose) => {
    const rules = { models: ['acme/small'], scope: 'all' as const }
    if (whose === 'team') gateway.app.change((store, by) => createTeam(store, { name: 'crew', ...rules }, by))
    const key = gateway.app.key(whose === 'team' ? { team: 'crew' } : rules)
    const refusal = async (slug: string) => {
      const scenario = { name: slug, url: `/v1/models/${slug}`, status: 404 }
      return (await play(gateway.app, scenario, key)).replaceAll(slug, 'X')
    }
    expect(await refusal('acme/large')).toBe(await refusal('acme/never'))
    expect(await refusal('fast')).toBe(await refusal('slow'))
    // A similar name doesn't reveal it either.
    expect(await refusal('acme/Large')).toBe(await refusal('acme/Never'))
    const asked = async (model: string) => {
      const body = { model, messages: [{ role: 'user', content: 'Hi' }] }
      const scenario = { name: model, url: '/v1/chat/completions', method: 'POST', body, status: 404 }
      return (await play(gateway.app, scenario, key)).replaceAll(model, 'X')
    }
    expect(await asked('acme/large')).toBe(await asked('acme/never'))
  })
})

describe('a client that sends Anthropic’s API version', () => {
  const ask = (path: string, key: string) =>
    fetch(`${gateway.app.origin}${path}`, { headers: { 'anthropic-version': '2023-06-01', 'x-api-key': key } })

  test.each([
    ['/v1/models', '', 401, 'authentication_error'],
    ['/v1/models/acme/large', 'sk-ant-x', 401, 'authentication_error'],
    ['/v1/models/acme/none', 'its own', 404, 'not_found_error'],
    ['/v1/complete', 'its own', 404, 'not_found_error'],
  ])('gets its rejection at %s in the right error format', async (path, key, status, type) => {
    const response = await ask(path, key === 'its own' ? gateway.key : key)
    const text = await response.text()
    expect({ status: response.status, ...checkError(text) }).toMatchObject({ status, type })
    expect(response.headers.get('request-id')).toBe(JSON.parse(text).request_id)
  })

  test('finds its request ID where it expects it', async () => {
    const { headers } = await ask('/v1/models', gateway.key)
    expect(headers.get('request-id')).toMatch(/^req_[0-9a-f]{32}$/)
    expect(headers.get('request-id')).toBe(headers.get('x-request-id'))
  })

  test('gets OpenAI’s error format at OpenAI’s endpoints', async () => {
    const response = await fetch(`${gateway.app.baseUrl}/chat/completions`, {
      ...{
        method: 'POST',
        headers: { 'anthropic-version': '2023-06-01', 'content-type': 'application/json' },
        body: '{}',
      },
    })
    expect(Object.keys((await response.json()) as object)).toEqual(['error'])
  })
})
