/**
 * A first start next to a model server at its usual port on this machine: its models are added automatically, unless
 * discovery is off.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { ENGINE_FACTS } from '../fixtures/engines/facts.ts'
import { createWorkplace, type Workplace } from '../support/binary.ts'
import { until } from '../support/until.ts'

const ANSWERS = ENGINE_FACTS.find(({ engine }) => engine === 'LM Studio')?.answers ?? {}

let place: Workplace
let studio: { stop(isNow: boolean): unknown } | null = null
beforeEach(() => {
  place = createWorkplace()
  try {
    studio = Bun.serve({
      ...{ port: 1234, hostname: '127.0.0.1' },
      fetch(request) {
        const found = ANSWERS[`${request.method} ${new URL(request.url).pathname}`]
        return found ? Response.json(found) : new Response('', { status: 404 })
      },
    })
  } catch {
    console.warn('left out: something is at port 1234 of this machine')
  }
})
afterEach(async () => {
  studio?.stop(true)
  studio = null
  await place.close()
})

async function upstreams(): Promise<{ id: string; local: boolean }[]> {
  const { stdout } = await place.run('upstreams', 'list', '--json')
  return JSON.parse(stdout).upstreams.filter(({ id }: { id: string }) => id !== 'demo')
}

test('an empty installation has its models within moments', async () => {
  if (studio === null) return
  const server = await place.serve([], {
    environment: { TOLLGATE_DISCOVER: 'on', OPENAI_API_KEY: 'sk-not-to-be-used' },
  })
  await until('the server of this machine', async () => (await upstreams()).length > 0)
  expect(await upstreams()).toMatchObject([{ id: 'lmstudio', local: true }])
  const { stdout } = await place.run('models', 'list', '--json')
  expect(JSON.parse(stdout).models.map(({ slug }: { slug: string }) => slug)).toContain('google/gemma-3-4b')
  // A removed upstream stays removed: the next start isn't of an empty installation.
  await place.run('upstreams', 'remove', 'lmstudio')
  server.signal('SIGKILL')
  await server.exited
  await place.serve([], { environment: { TOLLGATE_DISCOVER: 'on' } })
  await Bun.sleep(1_500)
  expect(await upstreams()).toEqual([])
})

test('--no-discover turns discovery off', async () => {
  if (studio === null) return
  await place.serve(['--no-discover'], { environment: { TOLLGATE_DISCOVER: 'on' } })
  await Bun.sleep(1_500)
  expect(await upstreams()).toEqual([])
})
