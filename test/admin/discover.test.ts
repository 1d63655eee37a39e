/** Discovery of local model servers, on real ports: owners only. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { createLocalLook } from '../../src/server/outward/questions.ts'
import { ENGINE_FACTS } from '../fixtures/engines/facts.ts'
import { createFixture, type Fixture } from './fixture.ts'

const SECRET = 'gsk-never-told-0123456789'
const ANSWERS = ENGINE_FACTS.find(({ engine }) => engine === 'Ollama')?.answers ?? {}

let fixture: Fixture
let asked: string[]
let ollama: ReturnType<typeof Bun.serve>
let at: string
beforeEach(() => {
  asked = []
  ollama = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1' },
    async fetch(request) {
      const body = request.method === 'POST' ? ` ${await request.text()}` : ''
      const question = `${request.method} ${new URL(request.url).pathname}${body}`
      asked.push(question)
      return question in ANSWERS ? Response.json(ANSWERS[question]) : new Response('', { status: 404 })
    },
  })
  at = `http://127.0.0.1:${ollama.port}`
  fixture = createFixture()
  fixture.environment.GROQ_API_KEY = SECRET
  fixture.environment.OPENAI_API_KEY = ''
  fixture.localAt.push(at)
})
afterEach(async () => {
  fixture.close()
  await ollama.stop(true)
})

test('an owner sees found servers and set variables, never their values; discovery loads and adds nothing', async () => {
  const owner = await fixture.signIn('owner')
  const { status, text, body } = await owner.ask('POST', '/upstreams/discover')
  expect(status).toBe(200)
  expect(body).toEqual({
    servers: [{ preset: 'ollama', name: 'Ollama', base_url: at, upstream: null, id: 'ollama' }],
    providers: [{ preset: 'groq', name: 'Groq', variable: 'GROQ_API_KEY' }],
  })
  expect(text).not.toContain(SECRET)
  for (const question of asked) expect(question).toStartWith('GET ')
  expect((await fixture.store.readCatalog()).upstreams).toEqual([])
})

test('a found server is added like any upstream, and is shown as one afterwards', async () => {
  const owner = await fixture.signIn('owner')
  const discover = async () => (await owner.ask('POST', '/upstreams/discover')).body
  const [{ id, preset, base_url }] = (await discover()).servers
  const added = await owner.ask('POST', '/upstreams', { body: { id, preset, base_url, local: true } })
  expect(added.status).toBe(200)
  const { body } = await owner.ask('POST', `/upstreams/${id}/models`, { body: { models: [] } })
  expect(body.upstream).toMatchObject({ id: 'ollama', local: true })
  const { models } = await fixture.store.readCatalog()
  expect(models.map(({ slug }) => slug)).toContain('local/gemma3:4b')
  expect((await discover()).servers).toMatchObject([{ upstream: 'ollama', id: 'ollama' }])
})

test('a second server of a kind gets a different name', async () => {
  const owner = await fixture.signIn('owner')
  await owner.ask('POST', '/upstreams', { body: { id: 'ollama', preset: 'ollama', local: true } })
  const { servers } = (await owner.ask('POST', '/upstreams/discover')).body
  expect(servers).toMatchObject([{ upstream: null, id: `ollama-${ollama.port}` }])
})

test('only an owner can start discovery, and not by a link', async () => {
  for (const role of ['editor', 'viewer'] as const) {
    const browser = await fixture.signIn(role)
    expect((await browser.ask('POST', '/upstreams/discover')).body.error.kind).toBe('role_too_small')
  }
  const headers = await fixture.tokenHeaders('write')
  expect((await fixture.createBrowser().ask('POST', '/upstreams/discover', { headers })).status).toBe(403)
  const owner = await fixture.signIn('owner')
  expect((await owner.ask('GET', '/upstreams/discover')).body.error.kind).toBe('upstream_not_found')
  expect(asked).toEqual([])
})

test('all requests during a discovery share its result', async () => {
  let looks = 0
  const { promise, resolve } = Promise.withResolvers<[]>()
  const look = createLocalLook(() => {
    looks++
    return promise
  })
  const both = Promise.all([look(), look()])
  resolve([])
  expect(await both).toEqual([[], []])
  await look()
  expect(looks).toBe(2)
})
