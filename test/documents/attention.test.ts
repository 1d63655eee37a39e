/** Findings: each kind from a state that has it, and none from a healthy one. */
import { describe, expect, test } from 'bun:test'
import { toAlerts } from '../../src/documents/active-alerts.ts'
import { toAttention } from '../../src/documents/attention.ts'
import type { Seen, Spender } from '../../src/documents/findings.ts'
import { toBudgetStatus } from '../../src/keys/spend-status.ts'
import { toUpstreamStatus } from '../support/status.ts'

const HOUR = 3_600_000
const NOW = Date.UTC(2026, 10, 16, 12, 30)
const RESET = Date.UTC(2026, 11, 1)

const target = {
  ...{ model: 'a/b', upstream_model: 'b', breaker: 'closed' as const },
  ...{ open_for_keys: null, failures_in_a_row: 0, retry_in_ms: null, reason: null },
}
const upstream = (id: string, fields: Parameters<typeof toUpstreamStatus>[1] = {}) =>
  toUpstreamStatus(id, { targets: [target], ...fields })
const spends = (name: string, percent: number): Spender => ({
  ...{ type: 'key', id: `0${name}`.padEnd(32, '0'), name },
  budget: toBudgetStatus({ nanoUsd: 20_000_000_000, period: 'month' }, percent * 200_000_000, RESET),
})
const hoursOf = (...all: [hoursAgo: number, requests: number, failed: number][]) =>
  all.map(([ago, requests, failed]) => ({ ms: NOW - 30 * 60_000 - ago * HOUR, requests, failed }))

const WELL: Seen = {
  ...{
    nowMs: NOW,
    spenders: [spends('well', 40)],
    upstreams: [upstream('well')],
    reasons: [],
    unpriced: [],
    pending: [],
  },
  status: { checks: [{ name: 'disk', status: 'ok', message: 'plenty' }], ledger: 'ok', lost: null, disk: null },
  hours: hoursOf([0, 100, 2], [30, 2_000, 40]),
  refused: [],
  unsent: [],
}
const find = (seen: Partial<Seen>, role: 'viewer' | 'editor' | 'owner' = 'owner') =>
  toAttention({ ...WELL, ...seen }, role).findings.map(({ kind, severity, message, action: { label, path } }) => [
    `${kind} ${severity}`,
    message,
    label,
    path,
  ])

test('nothing, if all is well', () => {
  expect(toAttention(WELL, 'owner')).toEqual({ findings: [], problems: 0, warnings: 0 })
})

describe('a budget', () => {
  test("that is spent leads to its field, and for users who can't raise it, to its object", () => {
    const message = 'Key ann has spent its budget of $20/month, so its requests fail. It resets on 2026-12-01.'
    const path = `/keys?key=${spends('ann', 100).id}`
    const spenders = [spends('ann', 100)]
    expect(find({ spenders })).toEqual([['budget_spent problem', message, 'Raise budget', `${path}&edit=budget`]])
    expect(find({ spenders }, 'viewer')).toEqual([['budget_spent problem', message, 'View key', path]])
  })

  test('with too little left for requests says how many were refused', () => {
    const { id, name } = spends('ann', 93)
    const why = { status: 402, code: 'insufficient_quota', meaning: '', lastMs: NOW }
    const refused = [{ ...why, key: { id, name }, refused: 3 }]
    const [[, message] = []] = find({ spenders: [spends('ann', 93)], refused })
    expect(message).toStartWith(
      'Key ann has spent 93% of its budget of $20/month, and the rest was too little for 3 requests in the last hour.',
    )
  })

  test.each([
    [95, /spent 95% of its budget of \$20\/month\. At this pace, it is spent by 2026-11-1/],
    [60, /At this pace, it is spent by 2026-11-2\d \d\d:\d\d UTC\.$/],
  ])('spent to %d%% at half of its period is told of before it is spent', (percent, message) => {
    const [found = []] = find({ spenders: [spends('ann', percent)] })
    expect(found[0]).toBe('budget_near warning')
    expect(found[1]).toMatch(message)
  })
})

test.each([
  ['down', 'upstream problem', 'Check upstream', '/upstreams?upstream=paid'],
  ['failing', 'upstream problem', 'Check upstream', '/upstreams?upstream=paid'],
  ['degraded', 'upstream warning', 'Check upstream', '/upstreams?upstream=paid'],
  ['refused', 'credential problem', 'Set credential', '/upstreams?upstream=paid&edit=api_key'],
] as const)('an upstream that is %s', (state, kind, label, path) => {
  const found = find({ upstreams: [upstream('paid', { state, reason: 'returned 500' })] })
  expect(found).toEqual([[kind, expect.stringMatching(/^Upstream paid .*: returned 500\.$/), label, path]])
})

test('an upstream lacks its credential; one without a route is ignored', () => {
  const lacks = { state: 'not_ready', credential: 'not_set', reason: 'KEY is not set' } as const
  const found = find({ upstreams: [upstream('paid', lacks), upstream('idle', { ...lacks, targets: [] })] })
  expect(found.map(([, message]) => message)).toEqual(['Upstream paid is not ready: KEY is not set.'])
})

test.each([
  [
    'above normal',
    hoursOf([0, 100, 30], [30, 2_000, 40]),
    '30 of 100 requests failed since 2026-11-16 12:00 UTC (30%, usually 2%).',
  ],
  [
    'of few requests with those of the hour before',
    hoursOf([0, 4, 4], [1, 10, 8]),
    '12 of 14 requests failed since 2026-11-16 11:00 UTC (85.7%).',
  ],
  ['that are usual', hoursOf([0, 100, 30], [30, 2_000, 600]), null],
  ['of two requests', hoursOf([0, 2, 1]), null],
])('errors %s', (_, hours, message) => {
  expect(find({ hours }).map(([, told]) => told)).toEqual(message === null ? [] : [message])
})

test('a full disk, a ledger that accepts no requests, and a failed backup', () => {
  const checks = [
    { name: 'backup', status: 'warning' as const, message: 'The last scheduled backup failed.' },
    { name: 'disk', status: 'problem' as const, message: 'The disk is full.' },
    { name: 'readiness', status: 'problem' as const, message: 'Rejecting all requests.' },
  ]
  expect(find({ status: { checks, ledger: 'unavailable', lost: null, disk: null } })).toEqual([
    ['ledger problem', 'Rejecting all requests.', 'View server', '/settings/server'],
    ['disk problem', 'The disk is full.', 'View server', '/settings/server'],
    ['backup warning', 'The last scheduled backup failed.', 'Create backup', '/settings/backups'],
  ])
})

const refused = (code: string, status: number, times: number, minutesAgo = 1) => ({
  ...{ key: { id: '4f9a21c8'.padEnd(32, '0'), name: 'ann' }, status, code, meaning: `It was ${code}.` },
  ...{ refused: times, lastMs: NOW - minutesAgo * 60_000 },
})

test.each([
  ['an unknown model and a rate', [refused('model_not_found', 404, 15), refused('request_limit', 429, 7)], 22],
  ['its rate alone', [refused('request_limit', 429, 20)], 20],
  ['a few times', [refused('model_not_found', 404, 19)], null],
  ['a spent budget, which has its own finding', [refused('insufficient_quota', 429, 90)], null],
  ['but no longer', [refused('invalid_key', 401, 90, 61)], null],
])('a key that is refused for %s', (_, all, total) => {
  const most = all.length > 1 ? ', most of them' : ''
  const message = `${total} requests of key ann refused since 2026-11-16 11:00 UTC${most}: It was ${all[0]?.code}.`
  const path = `/keys?key=${all[0]?.key.id}`
  expect(find({ refused: all })).toEqual(total === null ? [] : [['refusals warning', message, 'View key', path]])
})

test('usage without a price, and settings that need a restart', () => {
  const unpriced = [
    { model: 'a/b', requests: 3 },
    { model: null, requests: 7 },
  ]
  expect(find({ unpriced, pending: ['retention'] })).toEqual([
    ['unpriced warning', expect.stringMatching(/^3 requests to a\/b /), 'Set price', '/models?model=a%2Fb&edit=prompt'],
    ['restart warning', expect.stringMatching(/: retention\.$/), 'View settings', '/settings'],
    ['unpriced warning', expect.stringMatching(/^7 requests to other models /), 'View models', '/models'],
  ])
})

test('the first of each kind comes before the second of any', () => {
  const upstreams = ['a', 'b'].map((id) => upstream(id, { state: 'down' }))
  const found = find({ upstreams, spenders: [spends('ann', 100)] })
  expect(found.map(([kind]) => kind)).toEqual(['upstream problem', 'budget_spent problem', 'upstream problem'])
})

test('many similar findings are one that leads to their list, for each role', () => {
  const times = <T>(make: (at: number) => T) => Array.from({ length: 12 }, (_, at) => make(at))
  const seen = {
    spenders: times((at) => spends(`k${at}`, 100)),
    upstreams: times((at) => upstream(`u${at}`, { state: 'down' })).concat(upstream('slow', { state: 'degraded' })),
    refused: times((at) => ({
      ...refused('invalid_key', 401, 90),
      key: { id: `${at}`.padStart(32, '0'), name: `r${at}` },
    })),
    unpriced: times((at) => ({ model: `m/${at}`, requests: 1 })),
  }
  const few = (name: string) => expect.stringMatching(new RegExp(`^12 ${name}.* and \\d+ more\\.$`))
  expect(find(seen, 'viewer')).toEqual([
    ['upstream problem', few('upstreams are not working: u0'), 'View upstreams', '/upstreams?state=unwell'],
    ['budget_spent problem', few('keys have spent'), 'View keys', '/keys?state=budget_spent&sort=-budget'],
    ['refusals warning', few('keys had many'), 'View keys', '/keys?state=refused'],
    ['unpriced warning', few('models had usage'), 'View models', '/models'],
    ['upstream warning', expect.stringMatching(/^Upstream slow /), 'View upstream', '/upstreams?upstream=slow'],
  ])
  expect(toAttention({ ...WELL, ...seen }, 'owner')).toMatchObject({ problems: 24, warnings: 25 })
})

describe('alerts', () => {
  const sent = (seen: Partial<Seen>) =>
    [...toAlerts({ ...WELL, ...seen }).found.values()]
      .map(({ toAlert }) => toAlert())
      .map(({ id, severity, message }) => [id, severity, message])

  test('start for a budget at 50, 80, and 100%, before the dashboard shows it', () => {
    const spenders = [spends('a', 49), spends('b', 50), spends('c', 80), spends('d', 100)]
    expect(sent({ spenders, nowMs: RESET - HOUR })).toEqual([
      [`budget:key:${spends('b', 0).id}`, 'info', expect.stringContaining('has spent 50% of its budget')],
      [`budget:key:${spends('c', 0).id}`, 'warning', expect.stringContaining('has spent 80% of its budget')],
      [`budget:key:${spends('d', 0).id}`, 'problem', expect.stringContaining('so its requests fail')],
    ])
    expect(find({ spenders: spenders.slice(0, 3), nowMs: RESET - HOUR })).toEqual([])
  })

  test('keep their ID while the state lasts, and two of the server have different IDs', () => {
    const down = (reason: string) => ({ upstreams: [upstream('a', { state: 'down', reason })] })
    expect(sent(down('connection refused'))[0]?.[0]).toBe('upstream:upstream:a')
    expect(sent(down('timed out'))[0]?.[0]).toBe('upstream:upstream:a')
    const about = [
      { about: 'overload', text: 'Full.' },
      { about: 'configuration', text: 'Unread.' },
    ] as const
    const reasons = [...about, { about: 'shutdown', text: 'The server is shutting down.' } as const]
    expect(sent({ reasons }).map(([id]) => id)).toEqual(['server:overload', 'server:configuration'])
  })

  test('whose state could not be read are unknown; pending settings and undelivered alerts are not sent', () => {
    expect([...toAlerts({ ...WELL, spenders: null, unpriced: null }).unknown]).toEqual(['budget', 'unpriced'])
    const upstreams = [upstream('a', { state: 'unknown' }), upstream('unused', { state: 'unknown', targets: [] })]
    expect([...toAlerts({ ...WELL, upstreams }).unknown]).toEqual(['upstream:upstream:a', 'credential:upstream:a'])
    const own = { pending: ['port'], unsent: [{ name: 'chat', error: 'status 404', sinceMs: NOW }] }
    expect(sent(own)).toEqual([])
    expect(find(own).map(([kind, message]) => [kind, message])).toContainEqual([
      'alerts warning',
      'Alerts to chat are not delivered: status 404.',
    ])
  })
})
