/**
 * On every endpoint: a request interrupted by a shutdown gets an error in its format, is recorded as the server's
 * doing, and is billed as interrupted. `e2e/drain.test.ts` tests the process.
 */
import { expect, test } from 'bun:test'
import { CLIENT_FORMATS, type ClientFormat, hear } from '../support/door-clients.ts'
import { COUNTS, type StreamFormat, UPSTREAM_FORMATS, WORDS } from '../support/door-upstreams.ts'
import { DOORS, type Door, type DoorGateway, type DoorOptions, startDoors, WRITING } from '../support/doors.ts'
import { until } from '../support/until.ts'
import type { Script, Seen } from '../support/upstream.ts'
import type { Behaviour, StreamStep } from '../support/upstream-answers.ts'

const STOPPED = { code: 'server_stopping', says: 'The server stopped before the response completed.' }
const [FIRST] = WORDS

const FORMATS = ['chat', 'messages', 'responses', 'completions', 'gemini'] as const

const toPath = ({ path, pathOf }: ClientFormat) => `/v1${pathOf?.('m-v1', true) ?? path}`

/** The stream format of an upstream path. */
function streamAt({ path }: Seen): StreamFormat {
  const name = FORMATS.find((each) => path === toPath(CLIENT_FORMATS[each]))
  const stream = name && UPSTREAM_FORMATS[name].stream
  if (!stream) throw new Error(`nothing streams at ${path}`)
  return stream
}

const beginning =
  (more: (format: StreamFormat) => StreamStep[], end?: 'hang') =>
  (seen: Seen): Behaviour => {
    const format = streamAt(seen)
    const steps = [...format.head(COUNTS), format.word(FIRST), ...more(format)]
    return { kind: 'stream', steps, end: end ?? format.end }
  }

interface Amid {
  script: Script
  config?: DoorOptions['config']
  stream: boolean
  read: string | null
  during?(): Promise<void>
}

interface Told {
  status: number
  headers: Headers
  text: string
  /** The log line, which matches its row. */
  row: Record<string, unknown> | undefined
}

/** Stops the server without a grace period amid answers on each endpoint. */
async function stopAmid(doors: readonly Door[], amid: Amid): Promise<Told[]> {
  const { script, config = {}, stream, read, during } = amid
  const { app, near, far, ask }: DoorGateway = await startDoors({ config: { drainMs: 0, ...config } })
  near.script(script)
  const clients = doors.map((door) => listen(ask(door, { stream })))
  await near.waitFor((seen) => seen.length === doors.length, 'every call')
  if (read !== null) await until('what is read', async () => clients.every(({ text }) => text.includes(read)))
  const stopped = app.stop()
  await during?.()
  expect(await stopped).toBe(false)
  const answers = await Promise.all(clients.map(({ ended }) => ended))
  await Promise.all([near.stop(), far.stop()])
  const rows = (await app.logLines()).filter(({ event }) => event === 'request_finished')
  return doors.map(({ id }, at) => {
    const { status, headers } = answers[at] ?? {}
    if (status === undefined || headers === undefined) throw new Error(`${id} was not answered`)
    return { status, headers, text: clients[at]?.text ?? '', row: rows.find(({ model }) => model === `${id}/one`) }
  })
}

function listen(asked: Promise<Response>) {
  const client = { text: '', ended: read() }
  async function read(): Promise<Response> {
    const response = await asked
    const utf8 = new TextDecoder()
    for await (const bytes of response.body ?? []) client.text += utf8.decode(bytes, { stream: true })
    return response
  }
  return client
}

test('a stream in flight ends in a failure, is recorded as interrupted by the server, and is billed for its output', async () => {
  const told = await stopAmid(WRITING, { stream: true, read: FIRST, script: beginning(() => [], 'hang') })
  for (const [at, door] of WRITING.entries()) {
    const { text, row } = told[at] as Told
    const heard = hear(door.client, text)
    expect({ door: door.name, ...heard }).toMatchObject({
      ...{ door: door.name, text: FIRST, end: 'failure', looksWhole: false },
      failure: { message: expect.stringContaining(STOPPED.says) },
    })
    if (heard.failure?.code != null) expect(heard.failure.code).toBe(STOPPED.code)
    else expect(heard.failure?.type).toBe('overloaded_error')
    if (door.lane === 'translated') door.client.check.stream(text)
    expect({ door: door.name, ...row }).toMatchObject({
      ...{ door: door.name, status: 'cut', http: 200, code: STOPPED.code, estimated: true },
      ...{ prompt_tokens: expect.any(Number), completion_tokens: 2 },
    })
  }
}, 30_000)

test('usage that its upstream reports within two more seconds is its cost', async () => {
  const gate = Promise.withResolvers<void>()
  const told = await stopAmid(WRITING, {
    ...{ stream: true, read: FIRST, config: { disconnectGraceMs: 60_000 } },
    script: beginning((format) => [{ until: gate.promise }, ...format.tail([FIRST], COUNTS)]),
    async during() {
      await Bun.sleep(300)
      gate.resolve()
    },
  })
  for (const [at, { client, name }] of WRITING.entries()) {
    const { text, row } = told[at] as Told
    expect({ name, ...hear(client, text) }).toMatchObject({ name, text: FIRST, end: 'failure', looksWhole: false })
    expect({ name, ...row }).toMatchObject({
      ...{ name, status: 'cut', code: STOPPED.code, estimated: false },
      ...{ prompt_tokens: COUNTS.prompt, completion_tokens: COUNTS.completion },
    })
  }
}, 30_000)

test('a stream with keep-alives but no content ends in a failure', async () => {
  const config = { heartbeatMs: 20 }
  const told = await stopAmid(WRITING, { stream: true, read: ': keep-alive', config, script: { kind: 'silent' } })
  for (const [at, { client, name, lane }] of WRITING.entries()) {
    const { status, text, row } = told[at] as Told
    expect({ name, status, ...hear(client, text) }).toMatchObject({ name, status: 200, text: '', end: 'failure' })
    if (lane === 'translated') client.check.stream(text)
    expect({ name, ...row }).toMatchObject({ name, status: 'failed', http: 200, code: STOPPED.code })
  }
}, 30_000)

test.each([
  ['a whole answer', false, DOORS],
  ['a stream', true, WRITING],
] as const)(
  '%s that has not begun is a 503 that says when to try again',
  async (_, stream, doors) => {
    const told = await stopAmid(doors, { stream, read: null, script: { kind: 'silent' } })
    for (const [at, { client, name }] of doors.entries()) {
      const { status, headers, text, row } = told[at] as Told
      expect({ name, status }).toEqual({ name, status: client.endpoint === 'messages' ? 529 : 503 })
      expect(headers.get('retry-after')).toBe('1')
      expect(headers.get('x-should-retry')).toBeNull()
      expect(client.refusal(new Response(null, { status, headers }), text).message).toContain(STOPPED.says)
      expect({ name, ...row }).toMatchObject({ name, status: 'failed', http: 503, code: STOPPED.code })
    }
  },
  30_000,
)

test('a whole response that arrives while the server stops still reaches its client', async () => {
  const gate = Promise.withResolvers<void>()
  const chat = DOORS.filter(({ id }) => id === 'chat-chat')
  const body = JSON.stringify(UPSTREAM_FORMATS.chat.whole(WORDS, COUNTS).body)
  const headers = { 'content-type': 'application/json' }
  const [told] = await stopAmid(chat, {
    ...{ stream: false, read: null, config: { disconnectGraceMs: 60_000 } },
    script: { kind: 'stream', headers, steps: [body], end: 'eof', after: gate.promise },
    async during() {
      await Bun.sleep(300)
      gate.resolve()
    },
  })
  expect(CLIENT_FORMATS.chat.whole(told?.text ?? '').text).toBe(WORDS.join(''))
  expect(told?.row).toMatchObject({ status: 'ok', http: 200, completion_tokens: COUNTS.completion })
}, 30_000)
