/** Managed model servers as clients see them: real processes behind a real gateway. */
import { afterEach, describe, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { modelServer } from '../support/model-server.ts'
import { until } from '../support/until.ts'

const FACTS = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'

interface Managed {
  options?: string[]
  command?: string[]
  fields?: string
}

function toCatalog(models: Record<string, Managed>, top = ''): string {
  const all = Object.entries(models)
  const upstreams = all.map(([id, { options = [], command = modelServer(...options), fields = '' }]) => {
    return `  ${id}: { dialect: openai, process: ${JSON.stringify(command)}, concurrency: 2, ${fields} }`
  })
  const entries = all.map(
    ([id]) =>
      `  local/${id}: { name: X, ${FACTS}, supported_features: [], routes: [{ upstream: ${id}, model: ${id} }] }`,
  )
  return `version: 1\n${top}\nupstreams:\n${upstreams.join('\n')}\nmodels:\n${entries.join('\n')}\n`
}

let app: TestApp
let key = ''

async function start(models: Record<string, Managed>, { top = '', config = {} } = {}): Promise<void> {
  app = await startApp({ catalog: toCatalog(models, top), config })
  key = app.key()
}

afterEach(async () => {
  await app.stop()
})

const chat = (id: string, content = 'hello', more: Record<string, unknown> = {}, init: RequestInit = {}) =>
  fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: `local/${id}`, messages: [{ role: 'user', content }], ...more }),
    ...init,
  })

const events = async () => (await app.logLines()).map(({ event }) => String(event))
const countOf = async (event: string) => (await events()).filter((one) => one === event).length

describe('a model whose server Tollgate starts', () => {
  test('is started by its first request, and responds whole and streamed', async () => {
    await start({ a: { options: ['--load', '200'] } })
    const whole = await chat('a')
    expect(whole.status).toBe(200)
    expect(await whole.text()).toContain('I am local/a')
    const streamed = await (await chat('a', 'hello', { stream: true })).text()
    expect(streamed).toContain('data: [DONE]')
    expect(await countOf('process_started')).toBe(1)
    const rows = await app.settled(2)
    expect(
      rows.map(({ upstream, status, completion_tokens, cost_nano_usd }) => [
        upstream,
        status,
        completion_tokens,
        cost_nano_usd,
      ]),
    ).toEqual([
      ['a', 'ok', 3, 0],
      ['a', 'ok', 3, 0],
    ])
  })

  test('is started once for fifty waiting requests, and all get responses', async () => {
    await start({ a: { options: ['--load', '400'] } })
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => chat('a', `hello ${i}`, { stream: i % 2 === 0 })),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 50 }, () => 200))
    await Promise.all(answers.map((answer) => answer.text()))
    expect(await countOf('process_started')).toBe(1)
  })

  test('reports its queue position to a waiting stream', async () => {
    await start({ a: { options: ['--load', '1500'] } }, { config: { heartbeatMs: 100 } })
    const text = await (await chat('a', 'hello', { stream: true })).text()
    expect(text).toContain(': waiting, 1st of 1, loading\n\n')
    expect(text).toContain('data: [DONE]')
  })

  test('has three models respond one after the other if two fit', async () => {
    const fields = 'memory: 4G'
    await start({ a: { fields }, b: { fields }, c: { fields } }, { top: 'memory: 10G' })
    for (const id of ['a', 'b', 'c', 'a']) {
      const answer = await chat(id)
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining(`I am local/${id}`)])
    }
    expect(await countOf('process_started')).toBe(4)
    expect(await countOf('process_stopped')).toBe(2)
  })

  test('frees memory only on its own device', async () => {
    const on = (device: string) => ({ fields: `memory: 4G, device: ${device}` })
    const top = 'memory: { CUDA0: 5G, CUDA1: 5G }'
    await start({ c: on('CUDA1'), a: on('CUDA0'), b: on('CUDA0') }, { top })
    for (const id of ['c', 'a', 'b', 'c']) expect((await chat(id)).status).toBe(200)
    expect([await countOf('process_started'), await countOf('process_stopped')]).toEqual([3, 1])
  })

  test('is stopped once it is idle, and started by the next request', async () => {
    await start({ a: { fields: 'idle: 50ms' } })
    expect((await chat('a')).status).toBe(200)
    await until('it has stopped', async () => (await countOf('process_stopped')) === 1)
    expect((await chat('a')).status).toBe(200)
    expect(await countOf('process_started')).toBe(2)
  })

  test('that crashes within a stream interrupts it, and is restarted for the next request', async () => {
    await start({ a: {} }, { config: { retries: 2 } })
    const cut = await (await chat('a', 'crash', { stream: true })).text()
    expect(cut).toContain('I am ')
    expect(cut).toContain('"error"')
    expect(cut).not.toContain('[DONE]')
    await until('it has been noticed', async () => (await countOf('process_failed')) === 1)
    const answer = await chat('a')
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('I am local/a')])
  })

  test("that exits at its start fails with the contract's error, and gives the operator the reason", async () => {
    await start({ a: { options: ['--die'] } })
    const answer = await chat('a')
    expect(answer.status).toBe(502)
    expect(await answer.json()).toMatchObject({
      error: {
        message: 'Upstream `a` failed to start its model server.',
        type: 'server_error',
        code: 'upstream_failed',
      },
    })
    const failed = (await app.logLines()).find(({ event }) => event === 'process_failed')
    expect(failed).toMatchObject({
      upstream: 'a',
      reason: 'its process exited with 1 before it was ready; see its log (tollgate upstreams logs ID)',
    })
  })

  test("whose command doesn't exist tells the operator what to do", async () => {
    await start({ a: { command: ['/opt/nowhere/llama-server', '--port', '{port}'] } })
    const answer = await chat('a')
    const text = await answer.text()
    expect(answer.status).toBe(502)
    expect(text).not.toContain('nowhere')
    expect(await app.logText()).toContain(
      "program /opt/nowhere/llama-server doesn't exist or isn't executable by this user; correct",
    )
  })

  test('that never becomes healthy is given up in time', async () => {
    await start({ a: { options: ['--ill'], fields: 'deadlines: { start: 300ms }' } })
    const answer = await chat('a')
    expect(answer.status).toBe(504)
    expect(await answer.json()).toMatchObject({
      error: {
        message: "Upstream `a` took too long: model server didn't start within 0.3 s.",
        code: 'upstream_timeout',
      },
    })
    expect(await app.logText()).toContain('if it is just slow, raise deadlines.start')
    expect((await app.settled(1)).map(({ completion_tokens }) => completion_tokens)).toEqual([0])
  })

  test('that needs more memory than available is rejected at once', async () => {
    await start({ a: { fields: 'memory: 30G' } }, { top: 'memory: 22G' })
    const answer = await chat('a')
    expect(answer.status).toBe(502)
    expect(await answer.text()).toContain('needs more memory than is available for models')
    expect(await app.logText()).toContain('needs 30.0 GiB')
  })

  test('that hangs is restarted after a few requests without a timely response', async () => {
    await start({ a: { fields: 'deadlines: { total_whole: 200ms }' } })
    const first = await (await chat('a')).text()
    for (let i = 0; i < 3; i++) expect((await chat('a', 'hang')).status).toBe(504)
    await until('it has been stopped', async () => (await countOf('process_stopped')) === 1)
    const second = await until2(() => chat('a'))
    expect(second).toContain('I am local/a')
    expect(second).not.toBe(first)
  })

  test("whose slots are taken keeps a request queued up to a limit, which doesn't count against any upstream", async () => {
    await start({ a: { fields: 'deadlines: { total_whole: 300ms }' } })
    const clients = [new AbortController(), new AbortController()]
    const holding = clients.map(({ signal }) => chat('a', 'hang', { stream: true }, { signal }).catch(() => null))
    await until('both slots are taken', async () => (await countOf('process_ready')) === 1)
    for (let each = 0; each < 6; each++) {
      const answer = await chat('a')
      expect([answer.status, Number(answer.headers.get('retry-after')) >= 1]).toEqual([503, true])
      expect(await answer.json()).toMatchObject({
        error: {
          message:
            'Tollgate queued the request for upstream `a`, and no slot became free within 0.3 s. The request was not sent to the model. Try again later.',
          code: 'server_is_overloaded',
        },
      })
    }
    expect(await events()).not.toContain('breaker_opened')
    for (const client of clients) client.abort()
    await Promise.all(holding)
    const rows = (await app.settled(8)).filter(({ error_code }) => error_code === 'server_is_overloaded')
    expect(rows.map(({ cost_nano_usd }) => cost_nano_usd)).toEqual([0, 0, 0, 0, 0, 0])
  })

  test("isn't called for a disconnected client", async () => {
    await start({ a: { options: ['--load', '600'] } })
    const client = new AbortController()
    const left = chat('a', 'hello', {}, { signal: client.signal }).catch(() => 'left')
    await until('it is started', async () => (await countOf('process_started')) === 1)
    client.abort()
    expect(await left).toBe('left')
    const [row] = await app.settled(1)
    expect([row?.status, row?.completion_tokens]).toEqual(['cut', 0])
  })

  test('reports whether it is loaded, and is ready unless its server has just failed', async () => {
    await start({ a: {}, b: { options: ['--die'] } })
    const told = async () => {
      const answer = await fetch(`${app.baseUrl}/models`, { headers: { authorization: `Bearer ${key}` } })
      const { data } = (await answer.json()) as { data: { id: string; is_ready: boolean; state?: string }[] }
      return data.map(({ id, is_ready, state }) => [id, is_ready, state])
    }
    expect(await told()).toEqual([
      ['local/a', true, 'stopped'],
      ['local/b', true, 'stopped'],
    ])
    await chat('a')
    await chat('b')
    expect(await told()).toEqual([
      ['local/a', true, 'ready'],
      ['local/b', false, 'failed'],
    ])
    await until('it may be tried again', async () => (await told())[1]?.[2] === 'stopped')
  })

  test('makes embeddings, and is started for them as for chats', async () => {
    const text = toCatalog({ a: { options: ['--load', '100'] } }).replace(
      'output_modalities: [text]',
      'output_modalities: [embeddings]',
    )
    app = await startApp({
      catalog: text.replace('max_output_length: 1000, ', '').replace('supported_features: [], ', ''),
    })
    const answer = await fetch(`${app.baseUrl}/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${app.key()}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'local/a', input: 'hello' }),
    })
    expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ object: 'list' })])
  })

  test('is preloaded', async () => {
    await start({ a: { fields: 'preload: true' } })
    await until('it is ready', async () => (await countOf('process_ready')) === 1)
  })
})

/** Waits for a 200, since a breaker may have to close first. */
async function until2(ask: () => Promise<Response>): Promise<string> {
  let text = ''
  await until('an answer', async () => {
    const answer = await ask()
    text = await answer.text()
    return answer.status === 200
  })
  return text
}
