/** Which key may use which model. `test/http` and `test/gateway` test the HTTP responses. */
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/domain/error.ts'
import type { CatalogModel, Key, Snapshot, Target, Team } from '../../src/domain/snapshot.ts'
import { mayUse } from '../../src/domain/snapshot.ts'
import { matches } from '../../src/domain/text.ts'
import { visibleModel } from '../../src/routing/access.ts'
import { resolve } from '../../src/routing/route.ts'
import { toKey, toModel, toSnapshot, toTarget, toTeam } from '../support/snapshot.ts'

describe('a pattern', () => {
  test.each([
    ['acme/large', 'acme/large', true],
    ['acme/large', 'acme/larger', false],
    ['acme/large', 'xacme/large', false],
    ['*', 'acme/large', true],
    ['*', '', true],
    ['', 'acme/large', false],
    ['acme/*', 'acme/large', true],
    ['acme/*', 'acme/', true],
    ['acme/*', 'acmes/large', false],
    ['*/large', 'acme/deep/large', true],
    ['*large', 'large', true],
    ['a*e', 'a/e', true],
    ['a*e', 'ae', true],
    ['ab*ba', 'aba', false],
    ['a*b*c', 'a--b--c', true],
    ['a*b*c', 'a--c--b', false],
    ['a*bc*bc', 'abc', false],
    ['**', 'x', true],
    ['a.c', 'abc', false],
    ['ACME/*', 'acme/large', false],
  ])('%j over %j: %p', (pattern, slug, expected) => {
    expect(matches(pattern, slug)).toBe(expected)
  })

  test("with many stars can't keep the server busy", () => {
    expect(matches('*a'.repeat(1_000), `${'a'.repeat(100_000)}b`)).toBe(false)
  })
})

const hosted = toTarget({ id: 'hosted', local: false })
const local = toTarget({ id: 'local', local: true })
const down = toTarget({ id: 'down', local: false, notReady: 'the variable X is not set on the server' })

const resolveIn = (targets: Target[], key: Key, asked = 'acme/large', team?: Team): string | string[] => {
  const models: CatalogModel[] = [toModel('acme/large', targets)]
  const teams = new Map(team && [[team.id, team]])
  const snapshot: Snapshot = { ...toSnapshot(models, { fast: 'acme/large' }), teams }
  const decision = resolve(snapshot, key, asked)
  if (decision instanceof GatewayError) return decision.kind
  return decision.targets.map((target) => target.upstream.id)
}

describe('the targets of a model', () => {
  test.each([
    ['in the order of the snapshot', [hosted, local], toKey(), ['hosted', 'local']],
    ['without those that are not ready', [down, hosted], toKey(), ['hosted']],
    ['none ready', [down], toKey(), 'model_not_ready'],
    ['none at all', [], toKey(), 'model_not_ready'],
    ['for a local key, without the paid ones', [hosted, local], toKey({ scope: 'local' }), ['local']],
    ['for a local key, of a paid model', [hosted], toKey({ scope: 'local' }), 'model_not_found'],
    ['for a key with another allow-list', [hosted], toKey({ models: ['acme/s*'] }), 'model_not_found'],
    ['for a key whose list names the alias', [hosted], toKey({ models: ['fast'] }), 'model_not_found'],
  ] as [string, Target[], Key, string | string[]][])('are %s', (_, targets, key, expected) => {
    expect(resolveIn(targets, key)).toEqual(expected)
    expect(resolveIn(targets, key, 'fast')).toEqual(expected)
  })

  test.each([
    ['of any team', { models: ['acme/s*', 'acme/l*'] }, {}, ['hosted', 'local']],
    ['whose team may not use it', {}, { models: ['acme/s*'] }, 'model_not_found'],
    ['that may not use it, though its team may', { models: ['acme/s*'] }, { models: ['acme/*'] }, 'model_not_found'],
    ['of a local team', {}, { scope: 'local' }, ['local']],
    ['of a local team that may use others', {}, { scope: 'local', models: ['acme/s*'] }, 'model_not_found'],
    ['of local scope, whose team has any', { scope: 'local' }, { scope: 'all' }, ['local']],
  ] as [string, Partial<Key>, Partial<Team>, string | string[]][])(
    'for a key %s are what both may use',
    (_, ofKey, ofTeam, expected) => {
      const key = toKey({ teamId: 't1', ...ofKey })
      const team = toTeam({ id: 't1', ...ofTeam })
      for (const asked of ['acme/large', 'fast']) expect(resolveIn([hosted, local], key, asked, team)).toEqual(expected)
    },
  )

  test("aren't found for an unknown name or a pattern", () => {
    for (const asked of ['acme/none', '', '*', '__proto__', 'ACME/LARGE'])
      expect(resolveIn([hosted], toKey(), asked)).toBe('model_not_found')
  })
})

test('a model without a route is visible to a key that may use it, and not to a key with local scope', () => {
  const snapshot = toSnapshot([toModel('acme/large', [])])
  expect(visibleModel(snapshot, toKey(), 'acme/large')).not.toBeNull()
  expect(visibleModel(snapshot, toKey({ scope: 'local' }), 'acme/large')).toBeNull()
})

test('an empty allow-list allows everything, another one only its matches', () => {
  expect(mayUse(toKey(), 'any/thing')).toBe(true)
  expect(mayUse(toKey({ models: ['a/*', 'b/c'] }), 'b/c')).toBe(true)
  expect(mayUse(toKey({ models: ['a/*', 'b/c'] }), 'b/d')).toBe(false)
})
