/** Model servers on this machine: which are found, how they are added, and attacks by hostile ones. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { findLocalServers } from '../../src/server/outward/questions.ts'
import { ENGINE_FACTS } from '../fixtures/engines/facts.ts'
import { type Bench, createBench } from './run.ts'

let bench: Bench
let servers: { stop(): void }[] = []
beforeEach(() => {
  bench = createBench()
})
afterEach(() => {
  bench.close()
  for (const server of servers) server.stop()
  servers = []
})

/** Starts a server with these responses, and returns its URL. */
function serve(answer: (question: string) => Response | Promise<Response>, asked: string[] = []): string {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const body = request.method === 'POST' ? ` ${await request.text()}` : ''
      asked.push(`${request.method} ${pathname}${search}${body}`)
      return answer(asked.at(-1) ?? '')
    },
  })
  servers.push({ stop: () => server.stop(true) })
  return `http://127.0.0.1:${server.port}`
}

const engine = (name: string, asked: string[] = []) => {
  const answers = ENGINE_FACTS.find(({ engine }) => engine === name)?.answers ?? {}
  return serve(
    (question) => (question in answers ? Response.json(answers[question]) : new Response('', { status: 404 })),
    asked,
  )
}

test.each([
  ['Ollama', 'ollama', ''],
  ['LM Studio', 'lmstudio', '/v1'],
  ['vLLM', 'vllm', '/v1'],
  ['llama-swap', 'llama-swap', '/v1'],
])('%s is found by what it says, and nothing is loaded', async (name, preset, path) => {
  const asked: string[] = []
  const at = engine(name, asked)
  expect(await findLocalServers({ at: [at] })).toMatchObject([{ preset, baseUrl: at + path }])
  for (const question of asked) expect(question).toMatch(/^GET \/(v1\/models|api\/tags|api\/v1\/models)$/)
})

test('a hostile server harms no one: a page, an endless list, a redirect, silence', async () => {
  const endless = () =>
    new Response(
      new ReadableStream({ pull: (stream) => stream.enqueue(new TextEncoder().encode('{"models":['.repeat(9_000))) }),
    )
  const at = [
    serve(() => new Response('<html>hello</html>')),
    serve(endless),
    serve(() => Response.redirect('http://127.0.0.1:1/api/tags')),
    serve(() => new Promise(() => {})),
    'no address at all',
  ]
  expect(await findLocalServers({ at, ms: 300 })).toEqual([])
})

test("local servers are found despite a proxy, which isn't used: it would respond from its own machine", async () => {
  const asked: string[] = []
  const proxy = engine('LM Studio', asked)
  const at = engine('Ollama')
  const script = `import { findLocalServers } from ${JSON.stringify(join(import.meta.dir, '../../src/server/outward/questions.ts'))}
console.log(JSON.stringify(await findLocalServers({ at: [${JSON.stringify(at)}] })))`
  const env = { ...process.env, http_proxy: proxy, HTTP_PROXY: proxy, NO_PROXY: '', no_proxy: '' }
  const { stdout } = Bun.spawn([process.execPath, '-e', script], { env })
  expect(JSON.parse(await new Response(stdout).text())).toMatchObject([{ preset: 'ollama', baseUrl: at }])
  expect(asked).toEqual([])
})

test('found servers are shown, and added by one option; then they exist, and are shown as added', async () => {
  const at = engine('Ollama')
  const found = await bench.run('upstreams', 'discover', '--url', at)
  expect(found).toMatchObject({ code: 0 })
  expect(found.stdout).toBe(`Ollama at ${at}: add it: tollgate upstreams add ollama --base-url ${at}\n`)
  const list = async () => JSON.parse((await bench.run('upstreams', 'list', '--json')).stdout).upstreams
  expect(await list()).toEqual([])
  expect(
    JSON.parse((await bench.run('upstreams', 'discover', '--url', at, '--enable', '--json')).stdout),
  ).toMatchObject({
    ...{ servers: [{ preset: 'ollama', base_url: at, upstream: null }], added: ['ollama'] },
  })
  expect(await list()).toMatchObject([{ id: 'ollama', base_url: at, local: true }])
  const { models } = JSON.parse((await bench.run('models', 'list', '--json')).stdout)
  // Ollama's cloud models are not among them.
  expect(models.map(({ slug }: { slug: string }) => slug).toSorted()).toEqual([
    ...['local/gemma3:4b', 'local/llama3.2:3b', 'local/loaded:1b', 'local/nomic-embed-text:latest'],
  ])
  expect((await bench.run('upstreams', 'discover', '--url', at)).stdout).toBe(
    `Ollama at ${at}: already added as ollama\n`,
  )
})

test('a provider with a key in the environment is only named', async () => {
  bench.environment = { GROQ_API_KEY: 'a secret of groq' }
  const at = serve(() => new Response(''))
  const found = await bench.run('upstreams', 'discover', '--url', at, '--enable')
  expect(found.stdout).toBe('GROQ_API_KEY is set. Add the provider: tollgate upstreams add groq\n')
  expect(JSON.parse((await bench.run('upstreams', 'list', '--json')).stdout).upstreams).toEqual([])
})

test("a fake model server can't add too many models to the catalog, or invalid names", async () => {
  const list = (names: readonly string[]) => {
    const models = names.map((name) => ({ name, model: name, details: { parameter_size: '\x1b[31m1B' } }))
    const shown = { capabilities: ['completion'], model_info: { 'general.architecture': '\x1b[2J' } }
    return (question: string) => Response.json(question.startsWith('GET /api/tags') ? { models } : shown)
  }
  const many = serve(list(Array.from({ length: 1_001 }, (_, n) => `m${n}:1b`)))
  const refused = await bench.run('upstreams', 'discover', '--url', many, '--enable')
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('lists more than 1000 models')])
  const odd = serve(list(['\x1b]0;mine\x07', '../../admin', 'gpt\u202e4', 'a b', '', 'x'.repeat(300), 'fine:1b']))
  const found = await bench.run('upstreams', 'discover', '--url', odd, '--enable')
  expect(found.code).toBe(0)
  expect(found.stdout + found.stderr + refused.stderr).toMatch(/^[\n\x20-\x7e]*$/)
  const { models } = JSON.parse((await bench.run('models', 'list', '--json')).stdout)
  expect(models.map(({ slug }: { slug: string }) => slug)).toEqual(['local/fine:1b'])
})
