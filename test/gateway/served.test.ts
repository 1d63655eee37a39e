/** Local servers whose model differs from the catalog. */
import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Status, socketPath } from '../../src/server/protocol.ts'
import { startApp, type TestApp } from '../support/app.ts'
import { modelServer } from '../support/model-server.ts'
import { until } from '../support/until.ts'

const FACTS =
  `name: X, context_length: 8192, max_output_length: 8192, input_modalities: [text], output_modalities: [text]
    supported_features: []`.replace('\n', ',')

let app: TestApp
let key = ''
let stops: (() => unknown)[] = []

async function start(upstream: string, options: Partial<Parameters<typeof startApp>[0]>): Promise<void> {
  const model = `  local/a: { ${FACTS}, routes: [{ upstream: box, model: local/a }] }`
  const catalog = `version: 1\nupstreams:\n  box: ${upstream}\nmodels:\n${model}\n`
  app = await startApp({ catalog, ...options })
  key = app.key()
  stops.push(() => app.stop())
}

afterEach(async () => {
  for (const stop of stops.reverse()) await stop()
  stops = []
})

const authorization = () => ({ authorization: `Bearer ${key}` })
interface Told {
  context_length: number
  is_ready: boolean
  state?: string
  supported_features: string[]
  tokens_per_second?: number | null
}

const told = async (): Promise<Told> =>
  (await fetch(`${app.baseUrl}/models/local/a`, { headers: authorization() })).json() as Promise<Told>
const lengthIs = (length: number) => until('it says so', async () => (await told()).context_length === length)
const differences = async () => (await app.logLines()).filter(({ event }) => event === 'model_facts_mismatch')

const chat = async (content: string, more: object = {}) => {
  const body = JSON.stringify({ model: 'local/a', messages: [{ role: 'user', content }], ...more })
  return fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { ...authorization(), 'content-type': 'application/json' },
    body,
  })
}

/** Some 6,000 tokens. */
const LONG = 'the quick brown fox jumps over the lazy dog '.repeat(600)

test('a local server with less context than declared is offered with its actual context, after each restart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-served-'))
  stops.push(() => rmSync(folder, { recursive: true }))
  const props = join(folder, 'props.json')
  const have = (n_ctx: number) => writeFileSync(props, JSON.stringify({ default_generation_settings: { n_ctx } }))
  have(4_096)
  const process = JSON.stringify(modelServer('--props', props))
  await start(`{ dialect: openai, process: ${process}, concurrency: 2, idle: 1s }`, {})
  expect(await told()).toMatchObject({ context_length: 8_192, state: 'stopped' })
  expect((await chat('hello')).status).toBe(200)
  await lengthIs(4_096)
  expect(await told()).toMatchObject({ max_output_length: 4_096, quantization: 'Q4_K_M', size_bytes: 397_806_592 })
  const refused = await chat(LONG)
  const { error } = (await refused.json()) as { error: { code: string; message: string } }
  expect([refused.status, error.code, error.message]).toEqual([
    400,
    'context_length_exceeded',
    expect.stringContaining("This model's maximum context length is 4096 tokens."),
  ])
  // Each change of the configuration applies it again.
  app.key()
  expect(await differences()).toMatchObject([
    { model: 'local/a', upstream: 'box', catalog: 'context_length 8192', server: '4096 tokens' },
  ])
  await until('it has stopped', async () => (await told()).state === 'stopped')
  have(6_144)
  expect((await chat('hello')).status).toBe(200)
  await lengthIs(6_144)
  expect(await differences()).toHaveLength(2)
})

test('a local upstream that recovers is queried again, and new facts follow', async () => {
  let context = 4_096
  const serve = (port: number) =>
    Bun.serve({
      ...{ port, hostname: '127.0.0.1' },
      routes: {
        '/health': () => Response.json({ status: 'ok' }),
        '/v1/models': () => Response.json({ object: 'list', data: [{ id: 'local/a', owned_by: 'llamacpp' }] }),
        '/props': () => Response.json({ default_generation_settings: { n_ctx: context }, chat_template_caps: CAPS }),
      },
    })
  let server = serve(0)
  const { port = 0 } = server
  stops.push(() => server.stop(true))
  const address = `base_url: "http://127.0.0.1:${port}/v1"`
  await start(`{ dialect: openai, ${address}, preset: llama.cpp, local: true }`, {
    ...{ origin: 'discovered', config: { probeMs: 50 } },
  })
  await lengthIs(4_096)
  expect((await told()).supported_features).toEqual(['tools'])
  await server.stop(true)
  await until('it is down', async () => (await told()).is_ready === false)
  context = 16_384
  server = serve(port)
  await lengthIs(16_384)
  // Restarted, or with another model, between two health checks.
  context = 2_048
  app.pass(120_000)
  await lengthIs(2_048)
  expect(await differences()).toEqual([])
})

test("a local server's output speed is listed after the first response", async () => {
  await start(`{ dialect: openai, process: ${JSON.stringify(modelServer())}, concurrency: 2 }`, {})
  expect((await told()).tokens_per_second).toBeNull()
  expect((await chat('hello')).status).toBe(200)
  expect((await told()).tokens_per_second).toBeNull()
  await (await chat('much', { stream: true })).text()
  expect((await told()).tokens_per_second).toBe(12.3)
  const status = await fetch('http://localhost/status', { unix: socketPath(app.dataFolder) })
  expect(((await status.json()) as Status).upstreams[0]?.served).toEqual([
    {
      ...{ upstream_model: 'local/a', context_length: null, quantization: 'Q4_K_M', size_bytes: 397_806_592 },
      tokens_per_second: 12.3,
    },
  ])
})

const CAPS = { supports_tools: true, supports_tool_calls: true }
