/** `tollgate ask`, through a server in this process: it prints words and usage, and records both. */
import { afterEach, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { costOf, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { obliging } from '../support/upstream.ts'
import { errorAnswer, streamAnswer, toDelta } from '../support/upstream-answers.ts'
import { type Bench, createBench } from './run.ts'

// The counting thread takes time to start during other work.
setDefaultTimeout(60_000)

let bench: Bench
const gateway = forAllTests(startGateway)
beforeEach(() => {
  gateway.upstream.script(obliging)
  bench = createBench()
})
afterEach(() => bench.close())

const ask = (...argv: string[]) => bench.run('ask', '--data', gateway.app.dataFolder, ...argv)
const lastRow = async () => (await gateway.app.settled(await gateway.app.count())).at(-1)
const asked = () => gateway.upstream.requests.at(-1)?.json

test('the owner of the data folder needs no key, and is metered as `system`', async () => {
  const { code, stdout, stderr } = await ask('--model', 'fast', 'Hello', 'there!')
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'tok0 tok1 tok2 tok3 tok4 \n' })
  expect(stderr).toMatch(/^\[acme\/large: 10 input, 5 output, \$0.00002, \d+\.\d s\]\n$/)
  expect(asked()).toMatchObject({ messages: [{ role: 'user', content: 'Hello there!' }], stream: true })
  expect(await lastRow()).toMatchObject({ key_id: 'system', status: 'ok', cost_nano_usd: costOf(10, 5) })
})

test('a refused request of the owner counts as `system`, too', async () => {
  expect(await ask('Hello', '--model', 'acme/none')).toMatchObject({ code: 1 })
  const refused = async () =>
    JSON.parse(
      (await bench.run('usage', '--refusals', '--key', 'system', '--json', '--data', gateway.app.dataFolder)).stdout,
    )
  expect(await refused()).toMatchObject({ total: 1, refusals: [{ key_id: 'system', code: 'model_not_found' }] })
})

test("with a key it is a normal client, with the key's permissions", async () => {
  const key = gateway.app.key({ models: ['acme/small'] })
  expect((await ask('Hello', '--key', key)).stderr).toContain('[acme/small: ')
  expect((await lastRow())?.key_id).not.toBe('system')
  const refused = await ask('Hello', '--model', 'acme/large', '--key', key)
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toContain('error: model not found: `acme/large`.')
})

test('without a model, the cheapest ready one is used', async () => {
  expect((await ask('Hello')).stderr).toContain('[local/tiny: ')
})

test('piped input follows the question', async () => {
  bench.piped = 'one\ntwo\n'
  await ask('Count', 'the lines:')
  expect(asked()).toMatchObject({ messages: [{ content: 'Count the lines:\n\none\ntwo' }] })
  await ask()
  expect(asked()).toMatchObject({ messages: [{ content: 'one\ntwo' }] })
})

test('--json is one document, with the ID in log and ledger', async () => {
  const { stdout, stderr } = await ask('Hello', '--model', 'acme/large', '--json')
  const row = await lastRow()
  expect(JSON.parse(stdout)).toEqual({
    id: `req_${row?.id}`,
    model: 'acme/large',
    text: 'tok0 tok1 tok2 tok3 tok4 ',
    finish_reason: 'stop',
    prompt_tokens: 10,
    completion_tokens: 5,
    cost_nano_usd: costOf(10, 5),
    duration_ms: expect.any(Number),
  })
  expect(stderr).toBe('')
})

test('no response can control the terminal', async () => {
  gateway.upstream.script(() => streamAnswer({ tokens: ['a\u001b[2Jb', '\u0007\n\tc'] }))
  expect((await ask('Hello')).stdout).toBe('a[2Jb\n\tc\n')
})

test.each([false, true])(
  'nor can an error of its upstream, whose line breaks are not ours (in the stream: %p)',
  async (isLate) => {
    const message = 'no\r\nerror: run \u001b[31mthis\u0007\u2028now'
    const failed = { error: { message, type: 'server_error', code: 'x', param: null } }
    gateway.upstream.script(
      isLate ? { kind: 'stream', steps: [toDelta({ content: 'a' }), failed] } : errorAnswer(400, message),
    )
    const { code, stderr } = await ask('Hello', '--model', 'acme/large')
    expect(code).toBe(1)
    expect(stderr.replace(/\n$/, '')).toMatch(/^error: \P{Cc}+$/u)
    if (!isLate) expect(stderr).toContain('no error: run ?[31mthis? now')
  },
)

test('a reasoning model says so, and its reasoning is not in the output', async () => {
  gateway.upstream.script({
    kind: 'stream',
    steps: [toDelta({ reasoning_content: 'Hm. ' }), toDelta({ reasoning_content: 'Ah. ' }), ...streamAnswer().steps],
  })
  const { stdout, stderr } = await ask('Hello')
  expect(stdout).toBe('tok0 tok1 tok2 tok3 tok4 \n')
  expect(stderr).toStartWith('[thinking …]\n[local/tiny: ')
})

test('an interrupted response is a failure, after the words that arrived', async () => {
  // Only once the words are out: a broken connection loses buffered ones.
  const printed = Promise.withResolvers<void>()
  bench.onStdout = () => printed.resolve()
  const steps = [...streamAnswer({ finish: null, usage: null }).steps, { until: printed.promise }]
  gateway.upstream.script({ kind: 'stream', steps, end: 'cut' })
  const { code, stdout, stderr } = await ask('Hello')
  expect(code).toBe(1)
  expect(stdout).toStartWith('tok0 ')
  expect(stderr).toMatch(/^error: [^\n]+\n$/)
})

test.each<[what: string, argv: string[], code: number, says: RegExp]>([
  ['no question', [], 2, /The prompt is missing\. Pass one, e\.g\. tollgate ask "Hello"/],
  ['an address without a key', ['x', '--url', 'http://127.0.0.1:1/v1'], 2, /--url requires a key/],
  ['no address', ['x', '--key', 'k', '--url', 'here'], 2, /--url must be an http or https URL, .*\(got 'here'\)/],
  [
    'nobody there',
    ['x', '--key', 'k', '--url', 'http://127.0.0.1:1'],
    1,
    /Can't reach http:\/\/127.0.0.1:1\/v1: connection refused\. Start the server, or pass --url\.$/m,
  ],
  ['a wrong key', ['x', '--key', 'sk-tg-no'], 1, /Incorrect API key provided.*\(Key from --key\.\)/],
  ['no server', ['x', '--data', '/nowhere'], 1, /No server is running on \/nowhere.*tollgate serve --data \/nowhere/],
])('%s is told in a sentence', async (_, argv, code, says) => {
  const ran = await ask(...argv)
  expect(ran).toMatchObject({ code, stdout: '' })
  expect(ran.stderr).toMatch(/^error: [^\n]+\n$/)
  expect(ran.stderr).toMatch(says)
})
