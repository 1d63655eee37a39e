/** Facts match those of local servers, with their real responses, requested without loading a model. */
import { expect, test } from 'bun:test'
import { listModels } from '../../src/server/outward/questions.ts'
import { findPreset } from '../../src/store/presets.ts'
import { toUpstream } from '../../src/store/upstream.ts'
import { ENGINE_FACTS } from '../fixtures/engines/facts.ts'

/** Serves these responses, and records requests. */
function serve(answers: Record<string, unknown>) {
  const asked: string[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const body = request.method === 'POST' ? ` ${await request.text()}` : ''
      const question = `${request.method} ${pathname}${search}${body}`
      asked.push(question)
      const answer = answers[question]
      return answer === undefined ? new Response('<html>', { status: 404 }) : Response.json(answer)
    },
  })
  return { origin: `http://127.0.0.1:${server.port}`, asked, stop: () => server.stop(true) }
}

const toAsked = (preset: string, origin: string) => {
  const { dialect = 'openai', base_url = '' } = findPreset(preset) ?? {}
  const row = { id: 'box', dialect, baseUrl: origin + new URL(base_url).pathname.replace(/\/$/, ''), apiKeyRef: null }
  const made = { enabled: true, deadlines: {}, origin: 'admin' as const, createdMs: 0, updatedMs: 0 }
  return toUpstream({ ...row, ...made, local: true, options: { preset } }, {}, 'here')
}

test.each(ENGINE_FACTS)("the facts of $engine's models are read", async ({ preset, answers, models }) => {
  const engine = serve(answers)
  expect(await listModels(toAsked(preset, engine.origin))).toEqual(models)
  // No request that would load a model: no chat, no generation, no model of a router without `autoload=false`.
  for (const question of engine.asked)
    expect(question).toMatch(
      /^GET \/(v1\/models|props|props\?model=\w+&autoload=false|api\/(tags|ps|v1\/models))$|^POST \/api\/show /,
    )
  engine.stop()
})

test('a list counts even if all other responses are invalid', async () => {
  const engine = serve({
    'GET /api/tags': { models: [{ name: 'a' }, { name: 'b' }] },
    'POST /api/show {"model":"a"}': [1, { capabilities: 'x', model_info: { 'general.architecture': 7 } }],
    'POST /api/show {"model":"b"}': { capabilities: [null], parameters: 7, model_info: { '.context_length': -1 } },
    'GET /api/ps': { models: [null, { name: 'a', context_length: 'many' }] },
  })
  const found = await listModels(toAsked('ollama', engine.origin))
  expect(found.map(({ id, contextLength }) => [id, contextLength])).toEqual([
    ['a', undefined],
    ['b', undefined],
  ])
  engine.stop()
})

test('details are requested only for the first models of a long list', async () => {
  const engine = serve({ 'GET /api/tags': { models: Array.from({ length: 900 }, (_, at) => ({ name: `m${at}` })) } })
  expect((await listModels(toAsked('ollama', engine.origin))).length).toBe(900)
  expect(engine.asked.length).toBeLessThan(110)
  engine.stop()
})
