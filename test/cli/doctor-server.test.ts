/** Checks of a running server's status, upstreams, and models by `doctor`. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { checkTransport } from '../../src/cli/doctor/server.ts'
import type { UpstreamStatus } from '../../src/documents/upstream.ts'
import type { Status } from '../../src/server/protocol.ts'
import { toTarget } from '../support/snapshot.ts'
import { toUpstreamStatus } from '../support/status.ts'
import { type Clinic, NOW, openClinic } from './doctor-bench.ts'

let clinic: Clinic
beforeEach(async () => {
  clinic = await openClinic()
})
afterEach(() => clinic.end())

const UPSTREAMS = [toUpstreamStatus('here'), toUpstreamStatus('keyed')]

describe('a server', () => {
  test.each<[what: string, fields: Partial<Status>, code: number, trouble: RegExp]>([
    ['is of another version', { version: '0.0.9' }, 0, /^version: warning: .* version 0\.0\.9, .* Restart the server/],
    [
      'is degraded',
      { readiness: 'degraded', reasons: ['Requests are refused.', 'A disk is full.'] },
      0,
      /^readiness: warning: Accepting requests with problems: Requests are refused\. A disk is full\.$/,
    ],
    ['is starting', { readiness: 'starting' }, 0, /^readiness: warning: Starting; not accepting/],
    [
      'is draining',
      { readiness: 'draining', in_flight: 2 },
      0,
      /^readiness: warning: Shutting down, with 2 requests in progress/,
    ],
    [
      'may open few files',
      { files: { limit: 256, max_in_flight: 96, wanted_in_flight: 4_096 } },
      0,
      /^files: warning: .* limit is 256,.* only 96 are accepted/,
    ],
    [
      'has lost its database',
      { readiness: 'ledger_unavailable', lost: 'database' },
      1,
      /^readiness: problem: .* Its database was removed/,
    ],
    [
      'is behind a proxy that it does not trust',
      { untrusted_proxy: '10.0.0.9' },
      0,
      /^proxy: warning: .*--trusted-proxy 10.0.0.9/,
    ],
    ['has no ledger', { readiness: 'ledger_unavailable' }, 1, /^readiness: problem: Rejecting all requests/],
  ])('that %s is told so', async (_, fields, code, trouble) => {
    clinic.serve({ upstreams: UPSTREAMS, ...fields })
    expect(await clinic.examine()).toMatchObject({ code, troubles: [expect.stringMatching(trouble)] })
  })
})

describe('an upstream', () => {
  const last_error = { message: 'connection refused', at_ms: NOW - 4_000 }
  const target: UpstreamStatus['targets'][number] = {
    model: 'local/a',
    upstream_model: 'a',
    breaker: 'open',
    open_for_keys: null,
    failures_in_a_row: 5,
    retry_in_ms: 7_000,
    reason: null,
  }
  const down = toUpstreamStatus('here', { state: 'down', reason: 'connection refused', last_error })

  test('that is down is a warning while another model is available', async () => {
    clinic.serve({ upstreams: [down, toUpstreamStatus('keyed')] })
    const { code, troubles, of } = await clinic.examine()
    expect(code).toBe(0)
    expect(troubles).toEqual([
      'upstream here: warning: Down: connection refused (4 s ago). URL: http://127.0.0.1:1/v1.',
      'models: warning: local/a: upstream here: connection refused.',
    ])
    expect(of('models')).toStartWith('ok: 2 of 3 models')
  })

  test('that is down with all others is a problem: no model is available', async () => {
    const reason = 'the variable KEYED is not set on the server'
    const keyless = toUpstreamStatus('keyed', { state: 'not_ready', reason, credential: 'not_set' })
    clinic.serve({ upstreams: [down, keyless] })
    const { code, of } = await clinic.examine()
    expect(code).toBe(1)
    expect(of('upstream keyed')).toBe(`warning: Not ready: ${reason}.`)
    expect(of('models').split('\n')).toEqual([
      'problem: No model is ready.',
      'warning: local/a: upstream here: connection refused.',
      `warning: local/b, local/c: upstream keyed: ${reason}.`,
    ])
  })

  test('with a breaker open is a warning, and so is its model', async () => {
    clinic.serve({
      upstreams: [toUpstreamStatus('here', { last_error, targets: [target] }), toUpstreamStatus('keyed')],
    })
    expect((await clinic.examine()).troubles).toEqual([
      'upstream here: warning: Circuit breakers: 1 of 1 not closed: local/a open for 7s. Last error: connection refused (4 s ago).',
      'models: warning: local/a: upstream here: 5 consecutive failures; circuit breaker open.',
    ])
  })

  test.each([
    [0, 'half-open'],
    [7_000, 'half-open, test request running'],
  ])('whose half-open breaker lets a call through in %d ms is %s, and can be asked', async (retry_in_ms, phase) => {
    const targets: UpstreamStatus['targets'] = [{ ...target, breaker: 'half_open', retry_in_ms }]
    clinic.serve({ upstreams: [toUpstreamStatus('here', { targets }), toUpstreamStatus('keyed')] })
    const { of } = await clinic.examine()
    expect(of('upstream here')).toStartWith(`warning: Circuit breakers: 1 of 1 not closed: local/a ${phase}.`)
    expect(of('models')).toBe('ok: 3 of 3 models ready.')
  })

  test('that refuses its credential is a warning, as is a model with no other upstream', async () => {
    const reason = 'returned 401: missing or invalid api_key'
    const refused = (id: string) => toUpstreamStatus(id, { state: 'refused', reason })
    clinic.serve({ upstreams: [refused('here'), toUpstreamStatus('keyed')] })
    expect(await clinic.examine()).toMatchObject({
      code: 0,
      troubles: [
        `upstream here: warning: Credential rejected: ${reason}.`,
        `models: warning: local/a: upstream here: ${reason}.`,
      ],
    })
  })

  test('with a suspended credential is a warning that names which, why, and until when', async () => {
    const one = { number: 1, from: 'variable', name: 'ONE', status: 'set', reason: null, retry_in_ms: null } as const
    const reason = 'returned 402: payment required on the provider account, or quota exceeded'
    const two = { ...one, number: 2, name: 'TWO', status: 'suspended', reason, retry_in_ms: 250_000 } as const
    clinic.serve({ upstreams: [toUpstreamStatus('here'), toUpstreamStatus('keyed', { credentials: [one, two] })] })
    expect((await clinic.examine()).troubles).toEqual([
      `upstream keyed: warning: In use, but credential 2 (TWO) is suspended: ${reason}; retry in 5m.`,
    ])
    expect((await clinic.run('upstreams', 'list')).stdout).toMatch(/keyed +healthy +1 of 2 in use/)
  })

  test('that is degraded, or whose model is refused, is a warning, and can still be called', async () => {
    const degraded = toUpstreamStatus('here', { state: 'degraded', reason: '/models returned 503' })
    const refused: UpstreamStatus['targets'] = [
      { ...target, breaker: 'closed', failures_in_a_row: 0, retry_in_ms: null, reason: 'returned 404' },
    ]
    clinic.serve({ upstreams: [degraded, toUpstreamStatus('keyed', { targets: refused })] })
    const { code, troubles, of } = await clinic.examine()
    expect([code, of('models')]).toEqual([0, 'ok: 3 of 3 models ready.'])
    expect(troubles).toEqual([
      'upstream here: warning: Degraded: /models returned 503.',
      'upstream keyed: warning: Deprioritized: local/a: returned 404.',
    ])
  })

  test('that has recovered is healthy, and its last error is shown', async () => {
    clinic.serve({ upstreams: [toUpstreamStatus('here', { last_error }), toUpstreamStatus('keyed')] })
    const { troubles, of } = await clinic.examine()
    expect(troubles).toEqual([])
    expect(of('upstream here')).toBe('ok: Healthy. Last error: connection refused (4 s ago).')
  })

  test('cannot control the terminal with its messages', async () => {
    const message = 'bad\u001b[2J\nok       all is well'
    clinic.serve({
      upstreams: [toUpstreamStatus('here', { last_error: { message, at_ms: NOW } }), toUpstreamStatus('keyed')],
    })
    const { stdout } = await clinic.run('doctor')
    expect(stdout).toContain('bad?[2J?ok       all is well')
  })
})

test('upstreams called with `fetch` are reported, with their concurrency limit', () => {
  const { upstream } = toTarget()
  const byFetch = { ...upstream, options: { ...upstream.options, transport: 'fetch' as const } }
  expect(checkTransport([upstream], {})).toEqual([])
  expect(checkTransport([upstream, byFetch], {})).toMatchObject([
    { status: 'ok', message: expect.stringContaining(`at most 200 concurrent calls together: ${byFetch.id}.`) },
  ])
  expect(checkTransport([byFetch], { BUN_CONFIG_MAX_HTTP_REQUESTS: '1056' })).toMatchObject([
    { message: expect.stringContaining('at most 1000 concurrent calls') },
  ])
  expect(checkTransport([upstream], { HTTPS_PROXY: 'http://proxy:3128' })).toMatchObject([
    { message: expect.stringContaining('called through a proxy') },
  ])
})
