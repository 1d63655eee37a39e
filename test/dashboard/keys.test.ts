/** Texts of keys, and form values converted for the API. */
import { describe, expect, test } from 'bun:test'
import { toSnippets } from '../../src/dashboard/keys/snippets.ts'
import { KEY_FORM, type Values } from '../../src/dashboard/keys/values.ts'
import {
  filterKeys,
  toBudgetText,
  toDays,
  toLimitsText,
  toShortLimits,
  toShortModels,
} from '../../src/dashboard/keys/words.ts'
import { toSteps } from '../../src/dashboard/start/steps.ts'
import type { KeyDocument } from '../../src/documents/key.ts'

import { toSpentTeams, toStanding } from '../../src/keys/standing.ts'

const { empty: NEW_KEY, toBody, toPatch, toValues } = KEY_FORM
const NOW = Date.UTC(2026, 10, 22, 14, 3)

const key = (changes: Partial<KeyDocument> = {}): KeyDocument => ({
  ...{
    id: '0123456789abcdef',
    revision: '0',
    ceilings: {},
    name: 'ann',
    last_four: 'a1b2',
    status: 'active',
    scope: 'all',
    models: [],
  },
  ...{ rpm: null, tpm: null, concurrency: null, metadata: {}, allowed_ips: [], team_id: null, expires_ms: null },
  ...{
    team: null,
    owner_id: null,
    owner: null,
    hidden: false,
    budget_nano_usd: null,
    budget_period: null,
    spent_nano_usd: null,
  },
  ...{ budget_reset_ms: null, budget_state: null, spent_month_nano_usd: 0, spent_total_nano_usd: 0 },
  ...{ refused_24h: 0, last_refused_ms: null, last_refused_code: null },
  ...{ last_used_ms: null, last_model: null, created_ms: NOW, revoked_ms: null },
  secrets: [{ last_four: 'a1b2', created_ms: NOW, expires_ms: null }],
  ...changes,
})

describe('texts of', () => {
  test('limits', () => {
    expect(toLimitsText(key())).toBe('')
    expect(toLimitsText(key({ rpm: 60, tpm: 100_000, concurrency: 4 }))).toBe(
      '60 requests per minute; 100k tokens per minute; 4 concurrent requests',
    )
    expect(toShortLimits(key({ rpm: 60 }))).toBe('60 rpm')
    expect(toShortLimits(key({ rpm: 60, tpm: 5, concurrency: 1 }))).toBe('60 rpm +2')
  })

  test('models', () => {
    expect(toShortModels(key())).toBe('all models')
    expect(toShortModels(key({ scope: 'local' }))).toBe('local models')
    expect(toShortModels(key({ models: ['openai/*', 'a/b', 'c/d'] }))).toBe('openai/* +2')
  })

  test('budgets', () => {
    const budget = { budget_nano_usd: 20_000_000_000, budget_period: 'month', spent_nano_usd: 12_000_000_000 } as const
    expect(toBudgetText(key(budget))).toBe('$12.00 of $20.00 per month')
    expect(toBudgetText(key({ ...budget, spent_nano_usd: 19_998_000_000 }))).toBe('$19.998 of $20.00 per month')
  })
})

test('a key with a spent budget, its own or its team’s, says so, unless it has ended anyway', () => {
  const spentTeams = toSpentTeams([
    { id: 'r', budget_state: 'spent' },
    { id: 's', budget_state: 'warning' },
  ])
  const standingOf = (fields: Partial<Parameters<typeof toStanding>[0]>) =>
    toStanding({ status: 'active', budget_state: 'ok', team_id: null, ...fields }, spentTeams)
  expect([standingOf({}), standingOf({ team_id: 's' })]).toEqual(['active', 'active'])
  expect(standingOf({ team_id: 'r' })).toBe('team_budget_spent')
  expect(standingOf({ team_id: 'r', budget_state: 'spent' })).toBe('budget_spent')
  expect(standingOf({ budget_state: 'spent', status: 'revoked' })).toBe('revoked')
})

test('a list shows active keys, keys of a team or a state, and search results', () => {
  const keys = [
    key({ name: 'ann', team: 'research' }),
    key({ name: 'Batch', models: ['openai/*'] }),
    key({ name: 'gone', status: 'revoked', last_refused_ms: NOW }),
  ]
  const names = (filter: Partial<Parameters<typeof filterKeys>[1]>) =>
    filterKeys(keys, { search: '', team: '', state: '', spentTeams: new Set(), ...filter }).map(({ name }) => name)
  expect(names({})).toEqual(['ann', 'Batch'])
  expect(names({ state: 'all' })).toEqual(['ann', 'Batch', 'gone'])
  expect(names({ state: 'revoked' })).toEqual(['gone'])
  expect(names({ state: 'refused' })).toEqual(['gone'])
  expect(names({ team: 'research' })).toEqual(['ann'])
  expect(names({ state: 'budget_spent' })).toEqual([])
  expect(names({ search: ' OPENAI' })).toEqual(['Batch'])
  expect(names({ search: 'ann Research' })).toEqual(['ann'])
  expect(names({ search: 'ann openai' })).toEqual([])
  expect(names({ search: 'a1b2' })).toEqual(['ann', 'Batch'])
})

describe('form values', () => {
  test('are converted for the API', () => {
    const typed = {
      ...NEW_KEY,
      ...{ name: ' ann ', models: 'openai/*,\n local/x ', rpm: '1,000', budget: '0.50', budget_period: 'day' },
      ...{ expires_ms: '30', allowed_ips: '10.0.0.0/8\n::1', team: 't1', metadata: 'owner=ann b' },
    }
    expect(toBody(typed, NOW)).toEqual({
      ...{ name: 'ann', models: ['openai/*', 'local/x'], scope: 'all', team: 't1', rpm: 1_000, tpm: null },
      ...{ concurrency: null, budget_nano_usd: 500_000_000, budget_period: 'day' },
      ...{ expires_ms: NOW + 30 * 86_400_000, allowed_ips: ['10.0.0.0/8', '::1'] },
      metadata: { owner: 'ann b' },
    })
  })

  test("of a key that is opened and saved don't change it", () => {
    const before = key({
      ...{ models: ['openai/*'], scope: 'local', team_id: 't1', rpm: 60, budget_nano_usd: 1, budget_period: 'total' },
      ...{ expires_ms: NOW + 5, allowed_ips: ['::1/128'] },
    })
    const { expires_ms, ...body } = { expires_ms: undefined, ...toBody(toValues(before), NOW) }
    expect(expires_ms).toBeUndefined()
    expect(body).toEqual({
      ...{ name: 'ann', models: ['openai/*'], scope: 'local', team: 't1', rpm: 60, tpm: null, concurrency: null },
      ...{ budget_nano_usd: 1, budget_period: 'total', allowed_ips: ['::1/128'], metadata: {} },
    })
  })

  test('of an edited key are sent only if changed, and a budget as a whole', () => {
    const before = key({ rpm: 60, budget_nano_usd: 1, budget_period: 'total', models: ['openai/*'], expires_ms: NOW })
    const patch = (typed: Values) => toPatch({ ...toValues(before), ...typed }, before, NOW)
    expect(patch({})).toEqual({})
    expect(patch({ rpm: '', team: 't2' })).toEqual({ rpm: null, team: 't2' })
    expect(patch({ budget: '2' })).toEqual({ budget_nano_usd: 2_000_000_000, budget_period: 'total' })
    expect(patch({ budget_period: 'day' })).toEqual({ budget_nano_usd: 1, budget_period: 'day' })
    expect(patch({ budget: '' })).toEqual({ budget_nano_usd: null })
    expect(patch({ expires_ms: '' })).toEqual({ expires_ms: null })
    const noted = key({ metadata: { owner: 'ann', cost: '7' } })
    expect(toPatch({ ...toValues(noted), metadata: 'owner=bob' }, noted, NOW)).toEqual({
      metadata: { owner: 'bob', cost: null },
    })
    const untypable = key({ metadata: { text: 'two\nlines' }, rpm: 1_000_000_000 })
    expect(toPatch({ ...toValues(untypable), name: 'bob' }, untypable, NOW)).toEqual({ name: 'bob' })
    expect(toPatch({ ...toValues(untypable), metadata: '' }, untypable, NOW)).toEqual({ metadata: { text: null } })
  })

  test.each([
    ['rpm', { rpm: 'many' }],
    ['tpm', { tpm: '-1' }],
    ['budget', { budget: '$$' }],
    ['metadata', { metadata: 'ann' }],
    ['expires_on', { expires_ms: 'on', expires_on: '' }],
  ])('and where %s cannot be read, that field is named', (field, typed) => {
    expect(() => toBody({ ...NEW_KEY, ...typed }, NOW)).toThrow(expect.objectContaining({ field }))
  })

  test("a day ends at its end, in the user's time zone", () => {
    const { expires_ms: ends } = toBody({ ...NEW_KEY, expires_ms: 'on', expires_on: '2027-01-31' }, NOW)
    expect(new Date(ends ?? 0).getDate()).toBe(31)
    expect(new Date((ends ?? 0) + 1).getDate()).toBe(1)
  })
})

test('snippets have the URL, the key, and the model, and work in a shell', () => {
  const access = { baseUrl: 'http://127.0.0.1:4000/v1', secret: 'sk-tg-x', model: "it's/odd" }
  for (const { title, text } of toSnippets(access)) {
    expect([title, text.includes('http://127.0.0.1:4000')]).toEqual([title, true])
    expect([title, text.includes(access.secret)]).toEqual([title, true])
  }
  const [curl] = toSnippets(access)
  const words = Bun.spawnSync(['sh', '-c', String(curl?.text).replace(/^curl/, "printf '%s\\n'")]).stdout.toString()
  expect(words.trimEnd().split('\n').at(-1)).toBe(
    JSON.stringify({ model: access.model, messages: [{ role: 'user', content: 'Hello' }], stream: true }),
  )
})

test('the steps of a first run are completed by the user, and by the demo only if selected', () => {
  const demo = { slug: 'tollgate/demo', is_ready: true, reason: null }
  const other = { slug: 'a/b', is_ready: false, reason: 'it has no credential' }
  const upstreams = [{ dialect: 'demo' }]
  const used = key({ last_used_ms: NOW, last_model: 'tollgate/demo' })
  const tried = key({ hidden: true, last_used_ms: NOW, last_model: 'a/b' })
  const keys = [key({ status: 'revoked' }), used, tried]
  expect(toSteps(keys, [other, demo], upstreams, false)).toEqual({
    ...{ ready: [], hasProvider: false, hasDemo: true, unready: 'it has no credential', keys: 1, first: null },
  })
  expect(toSteps(keys, [other, demo], upstreams, true)).toMatchObject({
    ...{ ready: ['tollgate/demo'], hasProvider: true },
    first: { id: used.id, name: 'ann', atMs: NOW, model: 'tollgate/demo' },
  })
  expect(toSteps([], [demo], [...upstreams, { dialect: 'openai' }], false).hasProvider).toBe(true)
  expect(toSteps([], [{ ...other, is_ready: true }], null, false)).toMatchObject({ hasProvider: true, keys: 0 })
})

test("a key's usage by day has every day, and none before the period", () => {
  const today = Date.UTC(2026, 10, 22)
  const row = (ms: number, requests: number) => ({ key_id: 'k', day_ms: ms, requests, cost_nano_usd: requests * 10 })
  const days = toDays([row(today, 3), row(today - 29 * 86_400_000, 1), row(today - 30 * 86_400_000, 9)], NOW).get('k')
  expect(days?.map(({ requests }) => requests)).toEqual([1, ...Array(28).fill(0), 3])
  expect(days?.at(-1)).toEqual({ ms: today, requests: 3, costNanoUsd: 30 })
  expect(toDays([], NOW).size).toBe(0)
})
