/** Realtime sessions: a client's WebSocket through the gateway to a scripted upstream. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { ServerWebSocket } from 'bun'
import { editKey } from '../../src/keys/service.ts'
import { CREDENTIAL, startApp, type TestApp } from '../support/app.ts'
import { until } from '../support/until.ts'

type Event = Record<string, unknown>

interface Upstream {
  url: string
  headers: Headers
  asked: string
  /** Received events. */
  events: Event[]
  answer(event: Event, send: (event: Event) => void): void
  status: number
  /** The handshake is answered only after this. */
  ready: Promise<void>
  sockets: Set<ServerWebSocket<unknown>>
  opened: number
  stop(): void
}

function startRealtime(): Upstream {
  const upstream = {
    events: [],
    status: 101,
    answer() {},
    sockets: new Set(),
    asked: '',
    opened: 0,
  } as unknown as Upstream
  const server = Bun.serve({
    port: 0,
    async fetch(request, server) {
      upstream.headers = request.headers
      upstream.asked = new URL(request.url).pathname + new URL(request.url).search
      await upstream.ready
      if (upstream.status !== 101) return new Response('no', { status: upstream.status })
      return server.upgrade(request) ? undefined : new Response('no', { status: 400 })
    },
    websocket: {
      // Above what a test sends at once, since Bun drops more.
      backpressureLimit: 1 << 26,
      open(ws) {
        upstream.sockets.add(ws)
        upstream.opened++
        ws.send(JSON.stringify({ type: 'session.created', session: { type: 'realtime', model: 'rt-1' } }))
      },
      message(ws, text) {
        const event = JSON.parse(String(text))
        upstream.events.push(event)
        upstream.answer(event, (answer) => ws.send(JSON.stringify(answer)))
      },
      close: (ws) => void upstream.sockets.delete(ws),
    },
  })
  upstream.url = `http://127.0.0.1:${server.port}/v1`
  upstream.stop = () => void server.stop(true)
  return upstream
}

const USAGE = {
  ...{ total_tokens: 300, input_tokens: 200, output_tokens: 100 },
  input_token_details: {
    ...{ text_tokens: 80, audio_tokens: 120, cached_tokens: 50 },
    cached_tokens_details: { text_tokens: 30, audio_tokens: 20 },
  },
  output_token_details: { text_tokens: 20, audio_tokens: 80 },
}
/** (200 - 50 - 100) text at 4, 50 cached at 0.4, 100 audio at 32, 20 text out at 16, 80 audio out at 64 dollars per million. */
const COST = 50 * 4_000 + 50 * 400 + 100 * 32_000 + 20 * 16_000 + 80 * 64_000

const respond: Upstream['answer'] = ({ type }, send) => {
  if (type !== 'response.create') return
  send({ type: 'response.created', response: { id: 'r1' } })
  send({ type: 'response.output_audio.delta', delta: 'AAAA' })
  send({ type: 'response.done', response: { id: 'r1', usage: USAGE } })
}

const FACTS = 'context_length: 32000, max_output_length: 4096, supported_features: []'

let upstream: Upstream
let app: TestApp

const catalog = () => `
version: 1
upstreams:
  talk: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY} }
  slow: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}, rpm: 1 }
  other: { dialect: anthropic, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY} }
models:
  acme/talk: { ${FACTS}, name: T, input_modalities: [text, audio], output_modalities: [text, audio],
    pricing: [{ prompt: "0.000004", completion: "0.000016", input_cache_read: "0.0000004", audio: "0.000032", audio_completion: "0.000064" }],
    routes: [{ upstream: talk, model: rt-1 }] }
  acme/slow: { ${FACTS}, name: S, input_modalities: [text, audio], output_modalities: [text, audio], pricing: [{ prompt: "0", completion: "0" }], routes: [{ upstream: slow, model: rt-1 }] }
  acme/live: { ${FACTS}, name: L, input_modalities: [text, audio], output_modalities: [text, audio, realtime],
    pricing: [{ prompt: "0", completion: "0" }], routes: [{ upstream: talk, model: rt-2 }] }
  acme/speak: { ${FACTS}, name: P, input_modalities: [text], output_modalities: [speech],
    pricing: [{ prompt: "0", completion: "0" }], routes: [{ upstream: talk, model: tts-1 }] }
  acme/hear: { ${FACTS}, name: H, input_modalities: [audio], output_modalities: [transcription],
    pricing: [{ prompt: "0.0000025", completion: "0.00001", audio: "0.000006" }], routes: [{ upstream: talk, model: hear-1 }] }
  acme/claude: { ${FACTS}, name: C, input_modalities: [text], output_modalities: [text, realtime],
    pricing: [{ prompt: "0.000004", completion: "0.000016" }], routes: [{ upstream: other, model: c }] }
`
beforeAll(async () => {
  upstream = startRealtime()
  app = await startApp({ config: { disconnectGraceMs: 300 }, catalog: catalog() })
})
beforeEach(async () => {
  await until('no session of an earlier test', () => upstream.sockets.size === 0)
  upstream.events.length = 0
  upstream.status = 101
  upstream.answer = respond
})
const opened: WebSocket[] = []
afterEach(() => {
  for (const socket of opened.splice(0)) socket.terminate()
})
afterAll(async () => {
  await app.stop()
  upstream.stop()
})

interface Client {
  socket: WebSocket
  events: Event[]
  closed: Promise<{ code: number; reason: string }>
  send(event: Event): void
  got(type: string): Promise<Event>
}

function connect({
  key,
  query = '?model=acme/talk',
  protocols,
  origin = app.origin,
}: {
  origin?: string
  key?: string
  query?: string
  protocols?: string[]
}) {
  const url = `${origin.replace('http', 'ws')}/v1/realtime${query}`
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const socket = new WebSocket(url, { headers, ...(protocols && { protocols }) } as never)
  const events: Event[] = []
  opened.push(socket)
  socket.onmessage = ({ data }) => void events.push(JSON.parse(String(data)))
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.onclose = ({ code, reason }) => resolve({ code, reason })
  })
  const got = async (type: string) => {
    await until(type, () => events.some((event) => event.type === type))
    return events.find((event) => event.type === type) ?? {}
  }
  const ready = new Promise<void>((resolve) => socket.addEventListener('open', () => resolve()))
  const send = (event: Event) => void ready.then(() => socket.send(JSON.stringify(event)))
  return { socket, events, closed, got, send } satisfies Client
}

const latest = async (count: number) => (await app.settled(count)).at(-1)
let before = 0
let lastId = ''
beforeEach(async () => {
  before = await app.count()
  lastId = app.rows().at(-1)?.id ?? ''
})

describe('a session', () => {
  test("passes events with the catalog's model name, and charges each response by its usage", async () => {
    const client = connect({ key: app.key() })
    expect(await client.got('session.created')).toMatchObject({ session: { model: 'acme/talk' } })
    expect(upstream.asked).toBe('/v1/realtime?model=rt-1')
    expect(upstream.headers.get('authorization')).toBe(`Bearer ${CREDENTIAL}`)
    client.send({ type: 'session.update', session: { type: 'realtime', model: 'acme/talk', instructions: 'Be kind.' } })
    client.send({ type: 'response.create' })
    expect(await client.got('response.done')).toMatchObject({ response: { usage: USAGE } })
    expect(upstream.events[0]).toMatchObject({ session: { model: 'rt-1', instructions: 'Be kind.' } })
    expect(await latest(before + 1)).toMatchObject({
      ...{ status: 'ok', endpoint: 'realtime', model: 'acme/talk', prompt_tokens: 200, cached_tokens: 50 },
      ...{ completion_tokens: 100, cost_nano_usd: COST, estimated: 0, stream: 1 },
    })
    client.send({ type: 'response.create' })
    await app.settled(before + 2)
    client.socket.close(1_000)
    await until('upstream closed', () => upstream.sockets.size === 0)
    expect(await app.count()).toBe(before + 2)
  })

  test('is the only use of a realtime model', async () => {
    await connect({ key: app.key(), query: '?model=acme/live' }).got('session.created')
    const headers = { authorization: `Bearer ${app.key()}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'acme/live', messages: [{ role: 'user', content: 'Hi' }] })
    expect(
      await (await fetch(`${app.baseUrl}/chat/completions`, { method: 'POST', headers, body })).json(),
    ).toMatchObject({
      error: { code: 'unsupported_endpoint', message: expect.stringContaining('Use /v1/realtime') },
    })
    const listed = await (await fetch(`${app.origin}/v1beta/models`, { headers })).text()
    expect([listed.includes('acme/talk'), listed.includes('acme/live')]).toEqual([true, false])
  })

  test('without turns costs nothing and has no row', async () => {
    const client = connect({ key: app.key() })
    await client.got('session.created')
    client.socket.close(1_000)
    await client.closed
    expect(await app.count()).toBe(before)
  })

  test('accepts the key as a subprotocol, returns another, and logs neither', async () => {
    const key = app.key()
    const client = connect({ protocols: ['realtime', `openai-insecure-api-key.${key}`] })
    await client.got('session.created')
    expect(client.socket.protocol).toBe('realtime')
    client.send({ type: 'response.create' })
    await client.got('response.done')
    client.socket.close()
    expect(await app.logText()).not.toContain(key)
    expect(upstream.headers.get('sec-websocket-protocol') ?? '').not.toContain(key)
  })

  test('charges transcriptions at the price of their own model, which the key must be able to use', async () => {
    upstream.answer = ({ type, session }, send) => {
      if (type === 'session.update') send({ type: 'session.updated', session })
      if (type === 'input_audio_buffer.commit')
        send({
          type: 'conversation.item.input_audio_transcription.completed',
          usage: {
            type: 'tokens',
            input_tokens: 100,
            output_tokens: 10,
            input_token_details: { audio_tokens: 90, text_tokens: 10 },
          },
        })
      respond({ type }, send)
    }
    const client = connect({ key: app.key() })
    const update = (model: string) =>
      client.send({ type: 'session.update', session: { audio: { input: { transcription: { model } } } } })
    update('nobody/hears')
    expect(await client.got('error')).toMatchObject({ error: { message: expect.stringContaining('nobody/hears') } })
    update('acme/hear')
    const named = (model: string) => ({ session: { audio: { input: { transcription: { model } } } } })
    expect(await client.got('session.updated')).toMatchObject(named('acme/hear'))
    expect(upstream.events).toMatchObject([named('hear-1')])
    client.send({ type: 'input_audio_buffer.append', audio: 'A'.repeat(64_000) })
    client.send({ type: 'input_audio_buffer.commit' })
    client.send({ type: 'response.create' })
    await client.got('response.done')
    expect(await latest(before + 1)).toMatchObject({ cost_nano_usd: COST + 10 * 2_500 + 90 * 6_000 + 10 * 10_000 })
  })

  describe('that only transcribes', () => {
    const TOKENS = { input_tokens: 90, output_tokens: 10, input_token_details: { audio_tokens: 90 } }
    const say = (client: Client) => {
      client.send({ type: 'input_audio_buffer.append', audio: Buffer.alloc(48_000).toString('base64') })
      client.send({ type: 'input_audio_buffer.commit' })
    }

    test.each(['', '&model=acme/hear'])('names its model in its settings, and is charged by that: %s', async (more) => {
      upstream.answer = ({ type, session }, send) => {
        if (type === 'session.update') send({ type: 'session.updated', session })
        if (type !== 'input_audio_buffer.commit') return
        send({ type: 'input_audio_buffer.committed', item_id: 'i' })
        for (let at = 0; at < 2; at++)
          send({ type: 'conversation.item.input_audio_transcription.completed', item_id: 'i', usage: TOKENS })
      }
      const client = connect({ key: app.key(), query: `?intent=transcription${more}` })
      const transcription = { model: 'acme/hear' }
      client.send({ type: 'session.update', session: { type: 'transcription', audio: { input: { transcription } } } })
      expect(await client.got('session.updated')).toMatchObject({ session: { audio: { input: { transcription } } } })
      say(client)
      await client.got('conversation.item.input_audio_transcription.completed')
      expect(upstream.asked).toBe('/v1/realtime?intent=transcription')
      expect(upstream.events[0]).toMatchObject({
        session: { audio: { input: { transcription: { model: 'hear-1' } } } },
      })
      expect(await latest(before + 1)).toMatchObject({ cost_nano_usd: 90 * 6_000 + 10 * 10_000, model: 'acme/hear' })
      client.socket.close()
    })

    test('costs an estimate if its client disconnects before the transcription arrives', async () => {
      upstream.answer = ({ type }, send) => {
        if (type === 'input_audio_buffer.commit') send({ type: 'input_audio_buffer.committed', item_id: 'i' })
      }
      const client = connect({ key: app.key(), query: '?intent=transcription' })
      say(client)
      await client.got('input_audio_buffer.committed')
      client.socket.close()
      const row = await latest(before + 1)
      expect(row).toMatchObject({ status: 'cut', estimated: 1, prompt_tokens: 10, cost_nano_usd: 10 * 16_000 })
      expect(upstream.events.map(({ type }) => type)).not.toContain('response.cancel')
    })
  })

  test('holds nothing while idle, even in a turn that began', async () => {
    const client = connect({ key: app.key({ concurrency: 1 }) })
    client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content: [] } })
    client.send({ type: 'input_audio_buffer.append', audio: 'AAAA' })
    await until('both arrived', () => upstream.events.length === 2)
    app.pass(10_001)
    expect(await latest(before + 1)).toMatchObject({ status: 'ok', cost_nano_usd: 0 })
  })

  test('settles a response whose transcription never comes, even while audio is sent', async () => {
    upstream.answer = (event, send) => {
      const input = { transcription: { model: 'hear-1' } }
      if (event.type === 'input_audio_buffer.commit') {
        send({ type: 'session.updated', session: { audio: { input } } })
        send({ type: 'input_audio_buffer.committed', item_id: 'i' })
      }
      respond(event, send)
    }
    const client = connect({ key: app.key() })
    for (const type of ['input_audio_buffer.commit', 'response.create']) client.send({ type })
    await client.got('response.done')
    app.pass(10_001)
    client.send({ type: 'input_audio_buffer.append', audio: 'AAAA' })
    await until('the response is settled', async () => {
      await app.flushed()
      return app.rows().some(({ id, status }) => status === 'ok' && id > lastId)
    })
    expect(app.rows().find(({ id }) => id > lastId)).toMatchObject({ cost_nano_usd: COST })
  })

  test('takes a server slot for a turn, and none while idle', async () => {
    const small = await startApp({ catalog: catalog(), config: { maxInFlight: 1 } })
    const other = { authorization: `Bearer ${small.key()}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'acme/talk', messages: [{ role: 'user', content: 'Hi' }] })
    const ask = async () =>
      (await fetch(`${small.baseUrl}/chat/completions`, { method: 'POST', headers: other, body })).text()
    const held = Promise.withResolvers<void>()
    upstream.answer = async (event, send) => {
      await held.promise
      respond(event, send)
    }
    const client = connect({ key: small.key(), origin: small.origin })
    await client.got('session.created')
    expect(await ask()).not.toContain('overloaded')
    client.send({ type: 'response.create' })
    await until('the turn', () => upstream.events.length > 0)
    expect(await ask()).toContain('server_is_overloaded')
    held.resolve()
    await client.got('response.done')
    expect(await ask()).not.toContain('overloaded')
    client.socket.close()
    await small.stop()
  })

  test('charges a response once, even if its end is reported twice', async () => {
    upstream.answer = ({ type }, send) => {
      if (type !== 'response.create') return
      for (const each of ['created', 'done', 'done'])
        send({ type: `response.${each}`, response: { id: 'r', ...(each === 'done' && { usage: USAGE }) } })
      send({ type: 'end' })
    }
    const client = connect({ key: app.key() })
    client.send({ type: 'response.create' })
    await client.got('end')
    expect(await latest(before + 1)).toMatchObject({ cost_nano_usd: COST })
  })

  test('reserves in its row the maximum charge after a crash: each response, and input during one', async () => {
    const held: ((event: Event) => void)[] = []
    upstream.answer = ({ type }, send) => {
      if (type !== 'response.create') return
      send({ type: 'response.created', response: { id: `r${held.length}` } })
      held.push(send)
    }
    const client = connect({ key: app.key() })
    const rowWith = (tokens: number) =>
      until('the reserve', async () => {
        await app.flushed()
        const row = app.rows().at(-1)
        return (
          row?.status === 'open' && row.reserved_prompt_tokens >= tokens && row.reserved_prompt_tokens < tokens + 999
        )
      })
    client.send({ type: 'response.create' })
    await rowWith(4_096)
    client.send({ type: 'response.create' })
    await rowWith(2 * 4_096)
    expect(app.rows().at(-1)?.reserved_completion_tokens).toBe(2 * 4_096)
    client.send({ type: 'conversation.item.create', item: { content: 'x'.repeat(40_000) } })
    await rowWith(2 * (4_096 + 10_000))
    for (const [at, send] of held.entries()) send({ type: 'response.done', response: { id: `r${at}`, usage: USAGE } })
    await app.settled(before + 1)
    client.send({ type: 'response.create' })
    await rowWith(10_000 + 300 + 4_096)
  })

  test('rejects a response while its upstream is at its limit, and continues', async () => {
    const client = connect({ key: app.key(), query: '?model=acme/slow' })
    client.send({ type: 'response.create' })
    await client.got('response.done')
    client.send({ type: 'response.create', event_id: 'e1' })
    expect(await client.got('error')).toMatchObject({ error: { code: 'upstream_rate_limited', event_id: 'e1' } })
    app.pass(60_000)
    client.send({ type: 'response.create' })
    await app.settled(before + 2)
  })

  test('ends with an error event once its budget is spent, and all of it is recorded', async () => {
    const key = app.key({ budget: { nanoUsd: 600_000_000, period: 'total' } })
    upstream.answer = ({ type }, send) => {
      if (type !== 'response.create') return
      send({ type: 'response.created', response: {} })
      send({
        type: 'response.done',
        response: {
          usage: { input_tokens: 2_000, output_tokens: 4_000, output_token_details: { audio_tokens: 4_000 } },
        },
      })
    }
    const client = connect({ key })
    client.send({ type: 'response.create' })
    await client.got('response.done')
    client.send({ type: 'response.create' })
    expect(await client.got('error')).toMatchObject({ error: { code: 'insufficient_quota' } })
    expect(await client.closed).toMatchObject({ code: 1_008 })
    expect(await latest(before + 1)).toMatchObject({ status: 'ok', cost_nano_usd: 2_000 * 4_000 + 4_000 * 64_000 })
    await until('upstream closed', () => upstream.sockets.size === 0)
  })

  test('whose client disconnects during a response costs the spoken part', async () => {
    upstream.answer = ({ type }, send) => {
      if (type !== 'response.create') return
      send({ type: 'response.created', response: {} })
      send({ type: 'response.output_audio.delta', delta: Buffer.alloc(48_000).toString('base64') })
    }
    const client = connect({ key: app.key() })
    client.send({ type: 'response.create' })
    await client.got('response.output_audio.delta')
    client.socket.close()
    const row = await latest(before + 1)
    expect(row).toMatchObject({ status: 'cut', estimated: 1, completion_tokens: 20 })
    expect(row?.cost_nano_usd).toBeGreaterThanOrEqual(20 * 64_000)
  })

  test('of a model that its key may no longer use ends', async () => {
    const key = app.key()
    const client = connect({ key })
    await client.got('session.created')
    app.change((store, by) => editKey(store, key.slice(-4), { models: ['acme/hear'] }, by))
    client.send({ type: 'response.create' })
    expect(await client.got('error')).toMatchObject({ error: { code: 'model_not_found' } })
    expect(await client.closed).toMatchObject({ code: 1_008 })
  })

  test('of a revoked key ends', async () => {
    const key = app.key()
    const client = connect({ key })
    await client.got('session.created')
    app.revoke(key)
    client.send({ type: 'response.create' })
    expect(await client.got('error')).toMatchObject({ error: { code: 'invalid_api_key' } })
    expect(await client.closed).toMatchObject({ code: 1_008 })
    expect(await app.count()).toBe(before)
  })

  test('ends when its upstream ends it, with the usage so far', async () => {
    upstream.answer = ({ type }, send) => {
      if (type === 'response.create') send({ type: 'response.created', response: {} })
      for (const socket of upstream.sockets) socket.close(1_001, 'session too long')
    }
    const client = connect({ key: app.key() })
    client.send({ type: 'response.create' })
    expect(await client.closed).toMatchObject({ code: 1_001, reason: 'session too long' })
    expect(await latest(before + 1)).toMatchObject({ status: 'cut', error_code: 'upstream_failed' })
  })

  test.each([
    ['not JSON', '{', 'JSON object'],
    ['of an unknown type', '{"type":"session.delete"}', 'session.delete'],
    ['that names another model', '{"type":"session.update","session":{"model":"acme/hear"}}', 'chosen in its URL'],
    ['with a tool of the provider', '{"type":"response.create","response":{"tools":[{"type":"mcp"}]}}', 'function'],
    [
      'with such a tool behind a session',
      '{"type":"response.create","session":{},"response":{"tools":[{"type":"mcp"}]}}',
      'function',
    ],
    ['with a stored prompt', '{"type":"session.update","session":{"prompt":{"id":"p"}}}', 'instructions'],
  ])('rejects an event %s, and continues', async (_, text, said) => {
    const client = connect({ key: app.key() })
    await client.got('session.created')
    client.socket.send(text)
    expect(await client.got('error')).toMatchObject({ error: { message: expect.stringContaining(said) } })
    expect(upstream.events).toEqual([])
    client.send({ type: 'response.create' })
    await client.got('response.done')
  })
})

const ofTalk = (usage?: object) => ({ type: 'response.done', response: { id: 'r', ...(usage && { usage }) } })

/** A client that controls when it reads and writes after the upgrade; earlier writes would be lost. Reads nothing more. */
async function connectRaw(key: string) {
  const upgraded = Promise.withResolvers<void>()
  const client = await Bun.connect({
    hostname: '127.0.0.1',
    port: Number(new URL(app.origin).port),
    socket: {
      data(socket) {
        socket.pause()
        upgraded.resolve()
      },
    },
  })
  const lines = [
    ...['GET /v1/realtime?model=acme/talk HTTP/1.1', 'host: x', `authorization: Bearer ${key}`, 'upgrade: websocket'],
    ...['connection: Upgrade', 'sec-websocket-version: 13', 'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==', '', ''],
  ]
  client.write(lines.join('\r\n'))
  await upgraded.promise
  return client
}

/** Masked with zeros. */
const toFrame = (first: number, text: string) =>
  Buffer.concat([Buffer.from([first, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)])

describe('a session that goes wrong', () => {
  test("because its client disconnects during a response reads that response's usage", async () => {
    upstream.answer = ({ type }, send) => {
      if (type === 'response.create') send({ type: 'response.created', response: {} })
      if (type === 'response.cancel') send(ofTalk(USAGE))
    }
    const client = connect({ key: app.key() })
    client.send({ type: 'response.create' })
    await client.got('response.created')
    client.socket.close()
    expect(await latest(before + 1)).toMatchObject({ status: 'ok', cost_nano_usd: COST, estimated: 0 })
    await until('upstream closed', () => upstream.sockets.size === 0)
  })

  test('because its client disconnects while its turn begins holds nothing afterwards', async () => {
    const key = app.key({ concurrency: 1 })
    for (let at = 0; at < 5; at++) {
      const client = await connectRaw(key)
      // In the same write as the closing frame.
      client.write(Buffer.concat([toFrame(0x81, '{"type":"response.create"}'), toFrame(0x88, '')]))
      await until('upstream closed', () => upstream.sockets.size === 0)
    }
    const client = connect({ key })
    client.send({ type: 'response.create' })
    await client.got('response.done')
    const rows = await app.settled(await app.count())
    expect(rows.every(({ status }) => status !== 'open')).toBe(true)
  })

  test("reserves each of several requested responses, and rejects only those that the budget can't cover", async () => {
    const key = app.key({ budget: { nanoUsd: 600_000_000, period: 'total' } })
    const held: ((event: Event) => void)[] = []
    upstream.answer = ({ type }, send) => {
      if (type !== 'response.create') return
      send({ type: 'response.created', response: {} })
      held.push(send)
    }
    const client = connect({ key })
    for (let at = 0; at < 3; at++) client.send({ type: 'response.create' })
    expect(await client.got('error')).toMatchObject({ error: { code: 'insufficient_quota' } })
    for (const send of held) send(ofTalk(USAGE))
    await client.got('response.done')
    expect(held).toHaveLength(1)
    expect(await latest(before + 1)).toMatchObject({ status: 'ok', cost_nano_usd: COST })
  })

  test('reserves output beyond its own cap, if a response may have more', async () => {
    const key = app.key({ budget: { nanoUsd: 200_000_000, period: 'total' } })
    upstream.answer = (event, send) => {
      if (event.type === 'session.update') send({ type: 'session.updated', session: event.session })
      respond(event, send)
    }
    const client = connect({ key })
    client.send({ type: 'session.update', session: { type: 'realtime', max_output_tokens: 10 } })
    await client.got('session.updated')
    client.send({ type: 'response.create' })
    await client.got('response.done')
    client.send({ type: 'response.create', response: { max_output_tokens: 'inf' } })
    expect(await client.got('error')).toMatchObject({ error: { code: 'insufficient_quota' } })
  })

  test("because its client doesn't read is ended", async () => {
    upstream.answer = ({ type }, send) => {
      if (type !== 'response.create') return
      send({ type: 'response.created', response: {} })
      for (let at = 0; at < 40; at++) send({ type: 'response.output_audio.delta', delta: 'A'.repeat(1 << 20) })
    }
    const client = await connectRaw(app.key())
    client.write(toFrame(0x81, '{"type":"response.create"}'))
    await until('upstream closed', () => upstream.sockets.size === 0)
    expect(await latest(before + 1)).toMatchObject({ status: 'cut', error_code: 'slow_reader' })
    client.terminate()
  })

  test('passes a long upstream error completely, and a rejected response ends its turn', async () => {
    const message = 'x'.repeat(900)
    upstream.answer = (_, send) => send({ type: 'error', error: { message, code: 'no', hint: 'y'.repeat(900) } })
    const client = connect({ key: app.key() })
    client.send({ type: 'response.create' })
    expect(await client.got('error')).toMatchObject({ error: { message, code: 'no' } })
    expect(await latest(before + 1)).toMatchObject({ status: 'ok', cost_nano_usd: 0 })
  })

  test('charges by the spoken audio if its upstream reports no usage', async () => {
    upstream.answer = ({ type }, send) => {
      if (type !== 'response.create') return
      send({ type: 'response.created', response: {} })
      send({ type: 'response.output_audio.delta', delta: Buffer.alloc(48_000).toString('base64') })
      send(ofTalk())
    }
    const client = connect({ key: app.key() })
    client.send({ type: 'response.create' })
    await client.got('response.done')
    expect(await latest(before + 1)).toMatchObject({ status: 'ok', completion_tokens: 20, counted_by: 'text' })
  })
})

describe('no session', () => {
  const ask = async (query: string, { key, upgrade = true }: { key?: string; upgrade?: boolean } = {}) => {
    const socket = upgrade
      ? {
          connection: 'Upgrade',
          upgrade: 'websocket',
          'sec-websocket-version': '13',
          'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
        }
      : {}
    const response = await fetch(`${app.origin}/v1/realtime${query}`, {
      headers: { ...(key && { authorization: `Bearer ${key}` }), ...socket },
    })
    return { status: response.status, body: await response.json() }
  }

  test('is opened without a key, a model, a WebSocket, or a realtime API', async () => {
    const key = app.key()
    expect(await ask('?model=acme/talk')).toMatchObject({ status: 401 })
    expect(await ask('', { key })).toMatchObject({ status: 400, body: { error: { param: 'model' } } })
    expect(await ask('?model=acme/none', { key })).toMatchObject({ status: 404 })
    const unable = "The model `acme/claude` has no upstream with OpenAI's realtime API. Use another model."
    expect(await ask('?model=acme/claude', { key })).toMatchObject({
      body: { error: { code: 'unsupported_endpoint', message: unable } },
    })
    upstream.asked = ''
    expect(await ask('?model=acme/speak', { key })).toMatchObject({
      status: 400,
      body: {
        error: {
          code: 'unsupported_endpoint',
          message: expect.stringContaining('Use /v1/audio/speech, or a model whose'),
        },
      },
    })
    expect(upstream.asked).toBe('')
    expect(await ask('?model=acme/talk', { key, upgrade: false })).toMatchObject({ status: 426 })
    expect(await app.count()).toBe(before)
  })

  test('is opened if the upstream refuses, and its credential stays hidden', async () => {
    upstream.status = 403
    const { status, body } = await ask('?model=acme/talk', { key: app.key() })
    expect(status).toBeGreaterThanOrEqual(400)
    expect(JSON.stringify(body)).not.toContain(CREDENTIAL)
    app.pass(10 * 60_000)
  })

  test.each([
    [200, 'Upstream `talk` returned 200 instead of a WebSocket; it may have no realtime API.'],
    [400, 'The provider refused the WebSocket with status 400.'],
  ])('is opened if the upstream gives %d, as the error says', async (status, message) => {
    upstream.status = status
    expect(await ask('?model=acme/talk', { key: app.key() })).toMatchObject({ body: { error: { message } } })
  })

  test('stays open if its client disconnected before it began', async () => {
    const ready = Promise.withResolvers<void>()
    upstream.ready = ready.promise
    upstream.asked = ''
    upstream.opened = 0
    const client = connect({ key: app.key() })
    await until('upstream asked', () => upstream.asked !== '')
    client.socket.terminate()
    await Bun.sleep(50)
    ready.resolve()
    await until('upstream open', () => upstream.opened > 0)
    await until('upstream closed', () => upstream.sockets.size === 0)
  })

  test('is available by a client secret', async () => {
    const response = await fetch(`${app.origin}/v1/realtime/client_secrets`, { method: 'POST' })
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ error: { message: expect.stringContaining('WebRTC') } })
  })
})
