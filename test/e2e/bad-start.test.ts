/** Starts that must fail: each ends with one clear message that says what to do, and loses nothing. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { createWorkplace, runBinary } from '../support/binary.ts'
import { HELLO, toCatalogue } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'

const place = forEachTest(createWorkplace)

/** Runs `serve`, which must fail; returns its output. */
async function refused(args: string[], code = 1): Promise<string> {
  const ran = await runBinary(['serve', ...args], { cwd: place.folder })
  expect(ran).toMatchObject({ code, stdout: '' })
  expect(ran.stderr).not.toContain('    at ')
  return ran.stderr
}

test('a data folder that is already served', async () => {
  const server = await place.serve()
  const text = await refused(['--port', '0', '--data', join(place.folder, 'data')])
  expect(text).toContain('Another Tollgate server is using')
  expect(text).toContain('--data')
  expect((await fetch(new URL('/readyz', server.baseUrl))).status).toBe(200)
})

test('the status of a server that has stopped', async () => {
  const server = await place.serve()
  server.signal('SIGTERM')
  await server.exited
  const { code, stderr } = await place.run('status')
  expect([code, stderr]).toEqual([1, expect.stringContaining('No server is running. Start it: tollgate serve --data')])
})

test('a port that is in use', async () => {
  const other = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('other') })
  const args = ['--port', String(other.port), '--data', join(place.folder, 'data'), '--first-key']
  const text = await refused(args)
  expect(text).toContain(`127.0.0.1:${other.port} is already in use`)
  expect(text).toContain('--port')
  await other.stop(true)
  // The first key waits for a start with a terminal.
  expect((await place.serve(['--first-key'])).key).toMatch(/^sk-tg-/)
})

test('an address that this machine does not have', async () => {
  expect(await refused(['--host', '203.0.113.1', '--port', '0', '--data', 'data'])).toContain('--host')
  for (const host of ['300.1.1.1', 'nowhere.invalid']) {
    const text = await refused(['--host', host, '--port', '0', '--data', 'data'])
    expect(text).toContain(`Can't listen on ${host}:0. Choose another address`)
    expect(text).toContain('--host')
  }
})

test('a data folder that cannot be written', async () => {
  const file = await place.write('a-file', '')
  for (const folder of [file, join(file, 'below'), '/proc/tollgate']) {
    const text = await refused(['--port', '0', '--data', folder])
    expect(text).toContain(`Can't use ${folder} as the data folder`)
    expect(text).toContain('--data')
  }
})

test('invalid settings, all in one message', async () => {
  const origins = ['--cors-origin', 'https://app.example.com', '--cors-origin', 'page.example.com']
  const text = await refused(['--port', 'many', '--drain', 'soon', ...origins, '--data', 'data'], 2)
  expect(text).toContain("--port must be a number from 0 (any free port) to 65535 (got 'many')")
  expect(text).toContain("--drain must be a duration, e.g. 30s or 2m (got 'soon')")
  expect(text).toContain(
    "--cors-origin must be comma-separated origins, e.g. https://app.example.com, or * (got 'https://app.example.com,page.example.com')",
  )
})

test('a catalog with five mistakes, each with its line', async () => {
  const catalog = await place.write(
    'catalog.yaml',
    `version: 1
upstreams:
  a: { dialect: openia, base_url: http://127.0.0.1:1/v1 }
  b: { dialect: openai, base_url: 127.0.0.1, api_key: sk-the-secret-itself }
models:
  acme/x:
    name: X
    context_length: many
    max_output_length: 10
    input_modalities: [text]
    output_modalities: [text]
    supported_features: []
    pricing: [{ prompt: "1e-6", completion: "0" }]
    routes: [{ upstream: b, model: x }]
`,
  )
  const text = await refused(['--port', '0', '--data', join(place.folder, 'data'), '--catalog', catalog])
  expect(text).toContain('5 problems')
  for (const line of [3, 4, 8, 13]) expect(text).toContain(`catalog.yaml:${line}: `)
  expect(text).toContain("unknown dialect 'openia'")
  expect(text).toContain('tollgate catalog validate')
  expect(text).not.toContain('sk-the-secret-itself')
})

test('a missing catalog', async () => {
  const text = await refused(['--port', '0', '--data', 'data', '--catalog', 'none.yaml'])
  expect(text).toContain(`Can't use ${join(place.folder, 'none.yaml')} as the catalog: file not found`)
})

test('a variable that is not set affects only its upstream, which says so', async () => {
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: 'http://127.0.0.1:1/v1' }))
  const args = ['--first-key', '--probe', 'off', '--catalog', catalog]
  const server = await place.serve(args, { environment: { UPSTREAM_KEY: 'x' } })
  await server.logged('NOBODY_SET_THIS')
  const headers = { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' }
  const ask = (model: string) =>
    fetch(`${server.baseUrl}/chat/completions`, { method: 'POST', headers, body: JSON.stringify({ ...HELLO, model }) })
  const idle = await ask('acme/idle')
  expect(idle.status).toBe(503)
  expect(await idle.json()).toMatchObject({ error: { code: 'model_not_ready' } })
  expect((await ask('acme/large')).status).toBe(502)
})
