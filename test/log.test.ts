/** The log: a reader that does not keep up costs lines, never memory, however often it stalls. */
import { expect, test } from 'bun:test'
import { createLog, type LogFields, redact } from '../src/log.ts'

const LINE = 'x'.repeat(64 * 1024)
/** 4 MiB of such lines, and the one that goes beyond it. */
const MAX = 65

test('what may wait for a stalled reader is bounded, also after an earlier stall', async () => {
  let gate = Promise.withResolvers<void>()
  let written = ''
  const log = createLog({
    now: () => 0,
    async write(text) {
      await gate.promise
      written += text
    },
  })
  for (const stall of ['first', 'second', 'third']) {
    written = ''
    gate = Promise.withResolvers()
    // Two flushes in flight at a time.
    for (let i = 0; i < 40; i++) log.info('models_listed', LINE)
    void log.flush()
    for (let i = 0; i < 200; i++) log.info('models_listed', LINE)
    void log.flush()
    gate.resolve()
    await log.flush()
    const lines = written.split('\n').length - 1
    expect(`${stall}: ${lines}`).toBe(`${stall}: ${Math.min(lines, MAX)}`)
    expect(lines).toBeGreaterThan(MAX - 5)
  }
})

test('a line begins with its time, its level, its event and its sentence; its fields follow', async () => {
  const written: string[] = []
  const log = createLog({ now: () => 1_000, write: async (text) => void written.push(text.toString()) })
  log.warn('breaker_opened', 'a breaker opened', { upstream: 'a' })
  log.info('ledger_caught_up', 'database accepting ledger rows again')
  await log.flush()
  expect(written.join('').split('\n')).toEqual([
    '{"time":"1970-01-01T00:00:01.000Z","level":"warn","event":"breaker_opened","msg":"a breaker opened","upstream":"a"}',
    '{"time":"1970-01-01T00:00:01.000Z","level":"info","event":"ledger_caught_up","msg":"database accepting ledger rows again"}',
    '',
  ])
})

test("a client's text is cut after a secret in it is masked, and what the server says itself is whole", async () => {
  let written = ''
  const log = createLog({
    now: () => 0,
    write: async (text) => {
      written += text
    },
  })
  const secret = 'sk-tg-0123456789abcdefghij'
  const error = 'at one line of a trace\n'.repeat(100)
  for (const field of ['path', 'method', 'param', 'model', 'endpoint', 'user_agent']) {
    written = ''
    log.error('internal_error', 'failed', { [field]: `${'x'.repeat(190)}/${secret}/${'x'.repeat(12_000)}`, error })
    await log.flush()
    const line = JSON.parse(written)
    expect(line[field]).toHaveLength(201)
    expect(line[field]).not.toContain(secret.slice(0, 8))
    expect(line.error).toBe(error)
  }
})

test('of refusals alike 20 lines are written each minute, and then one line with their count', async () => {
  let written = ''
  const minutes: { ms: number; end(): void }[] = []
  const log = createLog({
    now: () => 0,
    write: async (text) => {
      written += text
    },
    after: (ms, end) => void minutes.push({ ms, end }),
  })
  const lines = () =>
    written
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  const refuse = (times: number, about: LogFields) => {
    for (let i = 0; i < times; i++) log.info('request_refused', 'refused', { id: i, ...about })
  }
  const unknown = { path: '/x', http: 404, code: 'unknown_url' }
  refuse(500, unknown)
  refuse(30, { http: 401, code: 'invalid_api_key' })
  refuse(30, { key: 'a', http: 429, code: 'rate_limit_exceeded' })
  refuse(1, { key: 'b', http: 429, code: 'rate_limit_exceeded' })
  log.info('request_finished', 'request', { key: 'a' })
  expect(minutes.map(({ ms }) => ms)).toEqual([60_000])
  minutes.pop()?.end()
  await log.flush()
  const counted = () => lines().filter(({ event }) => event === 'refusals_collapsed')
  expect(counted().map(({ time, level, event, msg, ...rest }) => rest)).toEqual([
    { http: 404, code: 'unknown_url', count: 480 },
    { http: 401, code: 'invalid_api_key', count: 10 },
    { key: 'a', http: 429, code: 'rate_limit_exceeded', count: 10 },
  ])
  expect(lines()).toHaveLength(20 * 3 + 1 + 1 + 3)

  // The next minute has lines again; what is counted in it is written when the log is flushed, as at a stop.
  written = ''
  refuse(25, unknown)
  await log.flush()
  expect(counted()).toMatchObject([{ count: 5 }])
  expect(lines()).toHaveLength(21)
  expect(minutes).toHaveLength(1)
})

test('lines come out whole and in order, however long they are and whatever their letters', async () => {
  let written = ''
  const log = createLog({
    now: () => 0,
    write: async (lines) => {
      written += lines.toString()
    },
  })
  const texts = Array.from({ length: 300 }, (_, i) => `${i} ${'aä€\u{1F98A}'.repeat((i * 97) % 1_500)}`)
  for (const text of texts) log.info('models_listed', 'some', { text })
  await log.flush()
  const lines = written.trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line).text)).toEqual(texts)
})

test.each([
  ['ours', 'sk-tg-0123456789abcdefghij'],
  ['of OpenAI', 'sk-proj-0123456789abcdefghij'],
  ['of Anthropic', 'sk-ant-api03-0123456789abcdefghij'],
  ['of Groq', 'gsk_0123456789abcdefghij'],
  ['of xAI', 'xai-0123456789abcdefghij'],
  ['of Google, which has no separator', 'AIzaSyA0123456789abcdefghijABCDEFGHIJKLMN'],
  ['of Google, of the newer kind', 'AQ.Ab8RN6Lq0123456789abcdefghij'],
  ['of Google, for an hour', 'ya29.a0Af_0123456789abcdefghij'],
  ['of Amazon', 'AKIAIOSFODNN7EXAMPLE'],
  ['of Cerebras', 'csk-0123456789abcdefghij'],
  ['of Hugging Face', 'hf_0123456789abcdefghij'],
  ['of Replicate', 'r8_0123456789abcdefghij'],
  ['of GitLab', 'glpat-0123456789abcdefghij'],
  ['of GitHub', 'github_pat_0123456789abcdefghij'],
  ['that is a signed token', 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhYmMifQ.c2lnbmF0dXJl'],
])('a key %s is masked wherever it stands in a line', (_, key) => {
  const text = redact(`{"error":"Incorrect key ${key}.","url":"https://example.com/?key=${key}&alt=sse"}`)
  expect(text).not.toContain(key.slice(4, -4))
  expect(text).toContain(`…${key.slice(-4)}.`)
})

test('a bearer header is masked whatever its token looks like, and words that only begin like keys are not', () => {
  expect(redact('authorization: Bearer abc.def')).not.toContain('abc')
  for (const text of [
    'a task-force-of-twenty-people',
    'risk-management-committee',
    'sk-short',
    'AIza is a prefix',
    'Bearer or basic authentication.',
  ])
    expect(redact(text)).toBe(text)
})
