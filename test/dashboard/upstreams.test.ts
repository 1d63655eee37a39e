/** Texts of upstreams. */
import { describe, expect, test } from 'bun:test'
import {
  filterUpstreams,
  toAddedText,
  toBreaker,
  toBreakers,
  toCredential,
  toCredentialOfSeveral,
  toNewServers,
  toServer,
  toStrip,
  toTestText,
} from '../../src/dashboard/upstreams/words.ts'
import type { ShownUpstream } from '../../src/documents/upstream.ts'

type Target = ShownUpstream['targets'][number]

const target = (changes: Partial<Target> = {}): Target => ({
  ...{ model: 'v/m', upstream_model: 'm', breaker: 'closed', open_for_keys: null },
  ...{ failures_in_a_row: 0, retry_in_ms: null, reason: null },
  ...changes,
})

const upstream = (changes: Partial<ShownUpstream> = {}): ShownUpstream => ({
  ...{
    id: 'openai',
    revision: '0',
    dialect: 'openai',
    preset: null,
    base_url: 'https://api.openai.com/v1',
    local: false,
    enabled: true,
  },
  ...{ state: 'healthy', reason: null, last_ok_ms: null, last_error: null, targets: [], origin: 'file' },
  deadlines: { headers_ms: 1, first_token_ms: 1, idle_ms: 1, total_ms: 1, total_whole_ms: 1 },
  limits: { rpm: null, tpm: null, concurrency: null },
  credential: null,
  process: null,
  served: [],
  credentials: [],
  ...changes,
})

describe('texts of', () => {
  test('a breaker: for which keys it is open, and when it retries', () => {
    expect(toBreaker(target())).toEqual({ kind: 'good', word: 'closed' })
    expect(toBreaker(target({ breaker: 'half_open' }))).toEqual({ kind: 'warn', word: 'half-open' })
    expect(toBreaker(target({ breaker: 'open', retry_in_ms: 12_400 })).word).toBe('open, retry in 12.4 s')
    expect(toBreaker(target({ breaker: 'open', open_for_keys: 1 }))).toEqual({ kind: 'warn', word: 'open for 1 key' })
  })

  test('all breakers of an upstream: an error only if every request is blocked', () => {
    expect(toBreakers([])).toBeNull()
    expect(toBreakers([target(), target()])).toEqual({ kind: 'good', word: 'closed' })
    expect(toBreakers([target(), target({ breaker: 'open' })])).toEqual({ kind: 'bad', word: '1 of 2 open' })
    expect(toBreakers([target({ breaker: 'half_open' })])).toEqual({ kind: 'warn', word: 'half-open' })
    expect(toBreakers([target({ breaker: 'open', open_for_keys: 3 })])).toEqual({ kind: 'warn', word: 'open' })
  })

  test.each([
    [null, 'not needed'],
    [{ variable: 'OPENAI_API_KEY', sealed: false, status: 'set' }, 'set, from OPENAI_API_KEY'],
    [{ variable: 'OPENAI_API_KEY', sealed: false, status: 'not_set' }, 'OPENAI_API_KEY is not set'],
    [{ variable: null, sealed: true, status: 'set' }, 'set, stored encrypted'],
    [{ variable: null, sealed: true, status: 'not_set' }, 'not set'],
  ] as const)('the credential %j', (credential, word) => {
    expect(toCredential(credential).word).toBe(word)
  })

  test.each([
    [{ status: 'set', retry_in_ms: null }, 'good', '2, from TWO'],
    [{ status: 'not_set', retry_in_ms: null }, 'bad', '2, from TWO: not set'],
    [{ status: 'suspended', retry_in_ms: 1_500 }, 'warn', '2, from TWO: suspended, retry in 1.50 s'],
    [{ status: 'set', retry_in_ms: null, from: 'typed_in', name: null }, 'good', '2, stored encrypted'],
  ] as const)('one credential of several: %j', (changes, kind, word) => {
    const credential = { number: 2, from: 'variable', name: 'TWO', reason: null, ...changes } as const
    expect(toCredentialOfSeveral(credential)).toEqual({ kind, word })
  })

  test('a managed model server, and the number of its processes', () => {
    const server = { state: 'ready', reason: null, pid: 1, answering: 2, queued: 3, memory_bytes: null } as const
    expect(toServer(server)).toEqual({ kind: 'good', word: 'ready, 2 in flight, 3 queued' })
    expect(toServer({ ...server, state: 'stopped', answering: 0, queued: 0 })).toEqual({
      kind: 'off',
      word: 'stopped',
    })
  })

  test('the result of a test', () => {
    const told = (state: string, reason: string | null = null, ms: number | null = null) =>
      toTestText({ id: 'u', state, reason, ms }).word
    expect(told('ready', null, 213)).toBe('OK after 213 ms.')
    expect(told('down', 'connection refused', 2)).toBe('Unreachable after 2 ms: connection refused')
    expect(told('of another version')).toBe('of another version.')
  })
})

test('a list filters by state, by need for attention, and by search', () => {
  const upstreams = [
    upstream(),
    upstream({ id: 'broken', targets: [target({ breaker: 'open' })] }),
    upstream({ id: 'ollama', state: 'down', base_url: 'http://127.0.0.1:11434/v1' }),
    upstream({ id: 'old', state: 'disabled' }),
  ]
  const ids = (search: string, state: string) => filterUpstreams(upstreams, { search, state }).map(({ id }) => id)
  expect(ids('', '')).toEqual(['openai', 'broken', 'ollama', 'old'])
  expect(ids('', 'unwell')).toEqual(['broken', 'ollama'])
  expect(ids('', 'disabled')).toEqual(['old'])
  expect(ids(' 11434 ', '')).toEqual(['ollama'])
})

test('a day has every hour, including those without requests, and shows which failed', () => {
  const hour = 3_600_000
  const strip = toStrip(
    [
      { ms: 8 * hour, requests: 4, errors: 0 },
      { ms: 9 * hour, requests: 4, errors: 2 },
      { ms: 10 * hour, requests: 4, errors: 3 },
      { ms: 3 * hour, requests: 9, errors: 9 },
    ],
    10 * hour + 5,
    hour,
    4,
  )
  expect(strip.map(({ ms, kind, word }) => [ms / hour, kind, word])).toEqual([
    [7, 'off', 'no requests'],
    [8, 'good', 'none failed'],
    [9, 'warn', '2 of 4 failed'],
    [10, 'bad', '3 of 4 failed'],
  ])
})

test('discovered servers that are already upstreams are not offered again', () => {
  const servers = [
    { id: 'ollama', upstream: 'ollama' },
    { id: 'vllm', upstream: null },
  ]
  expect(toNewServers(servers).map(({ id }) => id)).toEqual(['vllm'])
  expect([toAddedText('vllm', 1), toAddedText('ollama', 1_284)]).toEqual([
    'Added vllm with 1 model.',
    'Added ollama with 1,284 models.',
  ])
})
