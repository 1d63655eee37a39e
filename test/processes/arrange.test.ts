/** Which models are in memory together. */
import { describe, expect, test } from 'bun:test'
import { type LoadStep, planLoad, type Resident, type Wanted } from '../../src/processes/arrange.ts'

const loaded = (id: string, needBytes: number, fields: Partial<Resident> = {}): Resident => ({
  ...{ id, needBytes, isPinned: false, phase: 'ready', answering: 0, waiting: 0, lastUsedMs: 0, keptUntilMs: 0 },
  ...fields,
})

const NOW = 100_000

const plan = (
  residents: Resident[],
  { budgetBytes = 10, ...wanted }: Partial<Wanted> & { budgetBytes?: number | null } = {},
): LoadStep =>
  planLoad({ id: 'new', needBytes: 4, sinceMs: NOW, ...wanted }, residents, {
    ...{ budgetBytes, nowMs: NOW, patienceMs: 20_000 },
  })

const CASES: [name: string, residents: Resident[], wanted: Parameters<typeof plan>[1], expected: LoadStep][] = [
  ['starts what fits beside the others', [loaded('a', 6)], {}, { kind: 'start' }],
  ['starts anything where nothing is said of memory', [loaded('a', 60)], { budgetBytes: null }, { kind: 'start' }],
  [
    'stops what was used longest ago, and no more than that',
    [loaded('a', 4, { lastUsedMs: 2 }), loaded('b', 4, { lastUsedMs: 1 })],
    {},
    { kind: 'evict', ids: ['b'] },
  ],
  [
    'leaves a small one that would not help',
    [loaded('a', 1, { lastUsedMs: 1 }), loaded('b', 8, { lastUsedMs: 2 })],
    {},
    { kind: 'evict', ids: ['b'] },
  ],
  [
    'never stops one that is answering, and takes another',
    [loaded('a', 5, { answering: 1 }), loaded('b', 5, { lastUsedMs: 9 })],
    {},
    { kind: 'evict', ids: ['b'] },
  ],
  [
    'has those go first who wait for what is loaded, up to a bound',
    [loaded('a', 10, { waiting: 2 })],
    { sinceMs: NOW - 5_000 },
    { kind: 'wait', atMs: NOW + 15_000, hold: [] },
  ],
  [
    'has the loaded one begin nothing more once that bound has passed',
    [loaded('a', 10, { waiting: 2, answering: 1 })],
    { sinceMs: NOW - 20_000 },
    { kind: 'wait', atMs: null, hold: ['a'] },
  ],
  [
    'stops it then, once its answers have ended',
    [loaded('a', 10, { waiting: 2 })],
    { sinceMs: NOW - 20_000 },
    { kind: 'evict', ids: ['a'] },
  ],
  [
    'leaves one that has just been loaded for a while, whoever is impatient',
    [loaded('a', 10, { keptUntilMs: NOW + 3_000 })],
    { sinceMs: NOW - 60_000 },
    { kind: 'wait', atMs: NOW + 3_000, hold: [] },
  ],
  [
    'waits for one that is stopping already',
    [loaded('a', 10, { phase: 'stopping' })],
    {},
    { kind: 'wait', atMs: null, hold: [] },
  ],
  [
    'does not stop one that is loading',
    [loaded('a', 10, { phase: 'loading' })],
    { sinceMs: NOW - 60_000 },
    { kind: 'wait', atMs: null, hold: [] },
  ],
  ['refuses what is larger than the machine', [], { needBytes: 11 }, { kind: 'never', mostBytes: 10 }],
  [
    'refuses what the pinned ones leave no room for',
    [loaded('a', 7, { isPinned: true })],
    {},
    { kind: 'never', mostBytes: 3 },
  ],
  [
    'gives one of unknown size all that the pinned ones leave',
    [loaded('a', 2, { isPinned: true }), loaded('b', 1)],
    { needBytes: null },
    { kind: 'evict', ids: ['b'] },
  ],
  ['starts one of unknown size where nothing else is loaded', [], { needBytes: null }, { kind: 'start' }],
]

describe('the plan of memory', () => {
  test.each(CASES)('%s', (_, residents, wanted, expected) => {
    expect(plan(residents, wanted)).toEqual(expected)
  })
})
