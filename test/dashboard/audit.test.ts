/** Texts of audit log entries. */
import { expect, test } from 'bun:test'
import {
  type AuditEntry,
  GROUPS,
  toActor,
  toChanges,
  toDeed,
  toObject,
  toPlace,
} from '../../src/dashboard/audit/words.ts'
import { AUDIT_ACTIONS } from '../../src/domain/changes.ts'

const entry = (changes: Partial<AuditEntry>): AuditEntry => ({
  ...{ id: '1', at_ms: 0, actor: 'cli', actor_name: null, action: 'keys.edit', subject: '0123456789abcdef' },
  ...{ detail: {}, ...changes },
})

test('every action has a text, and a group to filter by', () => {
  for (const action of AUDIT_ACTIONS) {
    expect([action, toDeed(entry({ action }))]).not.toEqual([action, action])
    expect(GROUPS.map(([group]) => group as string)).toContain(action.split('.')[0] ?? '')
  }
})

test('the subject is shown by name, and links to its page', () => {
  const named = entry({ detail: { name: 'ann' } })
  expect([toObject(named), toPlace(named)]).toEqual(['ann', { path: '/keys?key=0123456789abcdef', least: 'viewer' }])
  expect(toObject(entry({ action: 'settings.edit', subject: 'settings' }))).toBe('')
  const backup = entry({ action: 'backups.create', subject: 'made.sqlite' })
  expect([toObject(backup), toPlace(backup)]).toEqual(['made.sqlite', null])
})

test("fields show old and new values, in their columns' units", () => {
  const before = { rpm: 60, budget_nano_usd: null, expires_ms: Date.UTC(2026, 0, 2), models: ['a/b'], enabled: true }
  const after = { rpm: null, budget_nano_usd: 2_500_000_000, expires_ms: null, models: [], enabled: false }
  expect(toChanges(entry({ detail: { name: 'ann', before, after } }))).toEqual([
    {
      name: null,
      fields: [
        { field: 'rpm', before: '60', after: 'none' },
        { field: 'budget', before: 'none', after: '$2.50' },
        { field: 'expires', before: '2026-01-02 00:00 UTC', after: 'none' },
        { field: 'models', before: 'a/b', after: 'none' },
        { field: 'enabled', before: 'yes', after: 'no' },
      ],
    },
  ])
})

test('a created object shows its values, and those created with it', () => {
  const after = { name: 'bob', role: 'member', team_id: '0123456789abcdef', rpm: null }
  expect(toChanges(entry({ detail: { name: 'bob', before: {}, after, keys_revoked: 2 } }))[0]?.fields).toEqual([
    { field: 'role', before: null, after: 'member' },
    { field: 'team', before: null, after: '…89abcdef' },
    { field: 'keys revoked', before: null, after: '2' },
  ])
  expect(toChanges(entry({ detail: { name: 'bob' } }))).toEqual([])
  const moved = { before: { team_id: null }, after: { team_id: '0123456789abcdef' } }
  expect(toChanges(entry({ detail: moved }), new Map([['0123456789abcdef', 'research']]))[0]?.fields).toEqual([
    { field: 'team', before: 'none', after: 'research' },
  ])
})

test('a setting without a row has its default', () => {
  const detail = { before: { retention: null }, after: { retention: '30d' } }
  expect(toChanges(entry({ action: 'settings.edit', detail }))[0]?.fields).toEqual([
    { field: 'retention', before: 'the default', after: '30d' },
  ])
})

test('the actor has a name, if it is a user', () => {
  expect(toActor(entry({ actor: '0123', actor_name: 'ann' }))).toBe('ann')
  expect(toActor(entry({ actor: 'cli' }))).toBe('the command line')
})

test('a change of the catalog is shown by row', () => {
  const detail = {
    before: { 'models.a/b': { context_length: 1000 } },
    after: { 'models.a/b': { context_length: 2000 }, 'upstreams.local': { local: true } },
  }
  expect(toChanges(entry({ action: 'catalog.apply', detail }))).toEqual([
    { name: 'model a/b', fields: [{ field: 'context length', before: '1,000', after: '2,000' }] },
    { name: 'upstream local', fields: [{ field: 'local', before: null, after: 'yes' }] },
  ])
})
