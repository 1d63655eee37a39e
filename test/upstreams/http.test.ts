/** One call to an upstream over a real socket, whose response is not of the requested kind. */
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/domain/error.ts'
import type { Answer } from '../../src/domain/events.ts'
import type { BackendCall } from '../../src/upstreams/backend.ts'
import type { WireFormat } from '../../src/upstreams/dialects/dialect.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { createHttpBackend } from '../../src/upstreams/http-call.ts'
import { createHttp1Transport } from '../../src/upstreams/http1/transport.ts'
import { forAllTests } from '../support/lifetime.ts'
import { toTarget } from '../support/snapshot.ts'
import { type Script, startUpstream } from '../support/upstream.ts'
import { streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'

const transport = createHttp1Transport()
const upstream = forAllTests(startUpstream)

function ask(
  script: Script,
  stream: boolean,
  dialect: WireFormat = openai,
  target = toTarget({ baseUrl: upstream.url }),
  callId = 'x-1',
  own: Partial<BackendCall> = {},
): Promise<Answer> {
  upstream.script(script)
  const body: BackendCall['body'] = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream }
  const { signal } = new AbortController()
  const { deadlines } = target.upstream
  return createHttpBackend(dialect, transport).call({
    body,
    passthrough: null,
    target,
    signal,
    observer: { sent() {}, left: () => 0 },
    deadlines,
    callId,
    hops: 'a',
    take: () => null,
    inTurn: async (work) => work(),
    ...own,
  })
}

const json = { 'content-type': 'application/json; charset=utf-8' }

test('a whole response to a stream request is a whole response, with its usage', async () => {
  const answer = await ask({ ...wholeAnswer({ tokens: ['a'] }), headers: json }, true)
  expect(answer.rest).toBeNull()
  expect(answer.events).toMatchObject([
    { kind: 'text', choice: 0, text: 'a' },
    { kind: 'finish', choice: 0, reason: 'stop' },
    { kind: 'usage', usage: { prompt: 10, completion: 1 } },
    { kind: 'done' },
  ])
})

test('concurrent calls each have their own headers', async () => {
  const target = toTarget({ baseUrl: upstream.url })
  const script: Script = { ...wholeAnswer({ tokens: ['a'] }), headers: json }
  const expected = Array.from({ length: 20 }, (_, at) => [at, at % 2 ? 'text/event-stream' : 'application/json'])
  await Promise.all(expected.map(([at]) => ask(script, Number(at) % 2 === 1, openai, target, `x-${at}`)))
  const seen = upstream.requests.slice(-20).map(({ headers }) => `${headers['x-client-request-id']} ${headers.accept}`)
  expect(seen.toSorted()).toEqual(expected.map(([at, accept]) => `x-${at} ${accept}`).toSorted())
})

test('a call identifies itself, and requests no compression', async () => {
  await ask(wholeAnswer(), false)
  expect(upstream.requests.at(-1)?.headers).toMatchObject({ 'user-agent': 'tollgate', 'accept-encoding': 'identity' })
})

test("the upstream's request ID is read if its API format has one, and truncated", async () => {
  const headers = { 'x-request-id': 'first', 'request-id': 'a'.repeat(200) }
  for (const script of [wholeAnswer({ headers }), streamAnswer({ headers })]) {
    const idBy = async (dialect: WireFormat) => {
      const { rest, upstreamRequestId } = await ask(script, script.kind === 'stream', dialect)
      rest?.close()
      return upstreamRequestId
    }
    expect(await idBy(openai)).toBe('first')
    expect(await idBy({ ...openai, requestIdHeader: 'request-id' })).toBe('a'.repeat(128))
    expect(await idBy({ ...openai, requestIdHeader: 'not-there' })).toBeNull()
  }
})

test('blank lines before a whole response, and invalid numbers in it, are ignored', async () => {
  const text = `\n\n\n${JSON.stringify(wholeAnswer({ tokens: ['a'] }).body).replace('"logprobs":null', '"logprobs":NaN')}`
  for (const stream of [true, false]) {
    const answer = await ask({ kind: 'whole', headers: json, body: text }, stream)
    expect(answer.events.map(({ kind }) => kind)).toEqual(['text', 'finish', 'usage', 'done'])
    expect(answer.events[0]).not.toHaveProperty('logprobs')
  }
})

test.each([
  ['an error with 200', { kind: 'whole', headers: json, body: { error: { message: 'm' } } }, true, 'm'],
  [
    'something else to a stream',
    { kind: 'whole', headers: { 'content-type': 'text/html' }, body: '<h1>' },
    true,
    'returned text/html',
  ],
  ['JSON that is no completion', { kind: 'whole', headers: json, body: {} }, true, 'an invalid completion'],
  ['a stream that nobody asked for', streamAnswer(), false, 'a stream that was not requested'],
] as [string, Script, boolean, string][])('%s is a failure', async (_, script, stream, message) => {
  await expect(ask(script, stream)).rejects.toThrow(message)
})

describe('a long whole response', () => {
  const token = { token: 'x', logprob: -1, bytes: [120] }
  const content = Array(1_000).fill({ ...token, top_logprobs: Array(20).fill(token) })
  const whole: Script = {
    kind: 'whole',
    headers: json,
    body: { choices: [{ message: { content: 'x' }, logprobs: { content } }] },
  }
  const logprobs: BackendCall['body'] = {
    ...{ model: 'm', messages: [{ role: 'user', content: 'Hi' }], logprobs: true },
  }
  const askLong = (own: Partial<BackendCall>) => ask(whole, false, openai, undefined, 'x-1', { body: logprobs, ...own })

  test('is parsed in slices, and takes memory for parsed data', async () => {
    let [turns, bytes] = [0, 0]
    const { events } = await askLong({
      inTurn: async (work) => {
        turns++
        return work()
      },
      take: (more) => {
        bytes += more
        return null
      },
    })
    expect(events[0]).toMatchObject({ kind: 'text', logprobs: { content } })
    const length = JSON.stringify(whole.body).length
    expect(turns).toBeGreaterThan(length / 200_000)
    expect(bytes).toBeGreaterThan(3 * length)
  })

  test('is abandoned between two slices if there is no memory for more', async () => {
    let [turns, bytes] = [0, 0]
    const full = new GatewayError('overloaded', 'full')
    const asking = askLong({
      inTurn: async (work) => {
        turns++
        return work()
      },
      take: (more) => {
        bytes += more
        return bytes > JSON.stringify(whole.body).length + 500_000 ? full : null
      },
    })
    await expect(asking).rejects.toBe(full)
    expect(turns).toBe(1)
  })

  test('is abandoned before its next slice once the call has ended', async () => {
    const ending = new AbortController()
    let turns = 0
    const asking = askLong({
      signal: ending.signal,
      inTurn: async (work) => {
        turns++
        ending.abort('superseded')
        await Bun.sleep(200)
        return work()
      },
    })
    await expect(asking).rejects.toMatchObject({ kind: 'aborted', end: 'superseded' })
    expect(turns).toBe(1)
  })
})

test('without free file descriptors, a call waits for one, and then reports the shortage: nothing was sent', async () => {
  upstream.script(wholeAnswer({ tokens: ['a'] }))
  const before = upstream.requests.filter(({ method }) => method === 'POST').length
  const script = `
    import { closeSync, openSync } from 'node:fs'
    import { createAllBackends } from './src/server/backends.ts'
    import { toTarget } from './test/support/snapshot.ts'
    const target = toTarget({ baseUrl: '${upstream.url}' })
    const { deadlines } = target.upstream
    const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
    const observer = { sent() {}, left: () => 0 }
    const call = ({ signal } = new AbortController()) =>
      createAllBackends()
        .openai.call({ body, passthrough: null, target, signal, observer, deadlines, callId: 'x-1', hops: 'a', take: () => null, inTurn: async (work) => work() })
        .then(({ events }) => events[0].kind, ({ name, kind }) => name + ' ' + kind)
    await createAllBackends().openai.probe(target.upstream, new AbortController().signal)
    const files = []
    try { for (;;) files.push(openSync('/dev/null', 'r')) } catch {}
    const none = await call()
    const leaving = new AbortController()
    const left = call(leaving)
    setTimeout(() => leaving.abort('superseded'), 110)
    const asked = call()
    setTimeout(() => { for (const file of files.splice(0, 10)) closeSync(file) }, 150)
    console.log(none + ', ' + (await left) + ', ' + (await asked))
    process.exit(0)`
  const command = ['sh', '-c', 'ulimit -n 100; exec "$0" -e "$1"', process.execPath, script]
  const child = Bun.spawn(command, { cwd: `${import.meta.dir}/../..`, stdout: 'pipe' })
  expect((await new Response(child.stdout).text()).trim()).toBe('GatewayError overloaded, UpstreamError aborted, text')
  expect(upstream.requests.filter(({ method }) => method === 'POST').length).toBe(before + 1)
})
