/** Failures of a self-hosted model server in its own words: who gets them, and what is retried. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { ENGINE_ERRORS } from '../fixtures/engines/errors.ts'
import { answering, endWell, type Several, startSeveral } from '../support/several-upstreams.ts'
import type { Seen } from '../support/upstream.ts'
import type { Behaviour } from '../support/upstream-answers.ts'

let several: Several
beforeEach(async () => {
  several = await startSeveral({ config: { retries: 2 } })
})
afterEach(() => endWell(several))

function saying(words: string): Behaviour {
  const found = ENGINE_ERRORS.find(({ said, engine }) => said === words && engine === 'llama-server')
  if (!found) throw new Error(`nobody says: ${words}`)
  return { kind: 'whole', status: found.status, body: found.body }
}

const LOCAL = { model: 'acme/mixed', max_tokens: 100 }

async function ask(words: string, key = several.key) {
  const response = await several.chat({ ...LOCAL, messages: [{ role: 'user', content: words }] }, { key })
  const { error } = (await response.json()) as { error?: { message: string; code: string | null } }
  return { status: response.status, upstream: response.headers.get('x-tollgate-upstream'), error }
}

test('two bad requests of two keys leave the server available to a third', async () => {
  const { first } = several
  const bad = saying('replayed arguments that are no JSON')
  first.script((seen) => (seen.body.includes('poison') ? bad : answering('first')(seen)))
  for (const name of ['one', 'other']) {
    const key = several.app.key({ name })
    for (let each = 0; each < 8; each++) {
      const { status, error } = await ask('poison', key)
      expect(status).toBe(400)
      expect(error?.message).toContain('Failed to parse tool call arguments')
    }
  }
  expect(first.requests.length).toBe(16)
  expect(several.here.requests.length).toBe(0)
  expect(await ask('a question', several.app.key({ name: 'third' }))).toMatchObject({ status: 200, upstream: 'first' })
})

test("an image that one target doesn't support goes to the next, and its breaker stays closed", async () => {
  const { first, here } = several
  first.script((seen) =>
    seen.body.includes('poison') ? saying('a picture and no projector') : answering('first')(seen),
  )
  for (let each = 0; each < 8; each++) expect(await ask('poison')).toMatchObject({ status: 200, upstream: 'here' })
  expect(here.requests.length).toBe(8)
  expect(await ask('a question')).toMatchObject({ status: 200, upstream: 'first' })
})

test('unparsable model output is retried once, and no breaker opens', async () => {
  const { first } = several
  const only = { model: 'acme/only' }
  first.script(saying('a generation that nobody can read'))
  for (let each = 0; each < 4; each++) {
    const response = await several.chat(only)
    expect(response.status).toBe(502)
    await response.text()
  }
  expect(first.requests.length).toBe(8)
  first.script(answering('first'))
  expect((await several.chat(only)).status).toBe(200)
})

test("prompts that don't fit into a shared context together all get responses, a few at a time", async () => {
  const { here } = several
  const isUnderWay = ({ answeredAtMs, abortedAtMs }: Seen) => answeredAtMs === null && abortedAtMs === null
  here.script((seen) => {
    const isCrowded = here.requests.filter(isUnderWay).length > 1
    const answer = isCrowded ? saying('a context that several share') : answering('here')(seen)
    return answer.kind === 'whole' ? { ...answer, delayMs: 20 } : answer
  })
  several.first.script({ kind: 'whole', status: 500, body: {} })
  const keys = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => several.app.key({ name }))
  const answers = await Promise.all(keys.map((key) => ask('a long prompt', key)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200])
})

test('a key whose prompts fill the context gets its turns, and others run several at a time in between', async () => {
  const { here } = several
  const isUnderWay = ({ answeredAtMs, abortedAtMs }: Seen) => answeredAtMs === null && abortedAtMs === null
  const isLarge = ({ body }: Seen) => body.includes('large')
  /** The maximum of answered requests in flight. */
  let most = 0
  here.script((seen) => {
    const all = here.requests.filter(isUnderWay)
    const isCrowded = all.length > 1 && all.some(isLarge)
    if (!isCrowded && here.requests.some(isLarge)) most = Math.max(most, all.length)
    const answer = isCrowded ? saying('a context that several share') : answering('here')(seen)
    return answer.kind === 'whole' ? { ...answer, delayMs: 20 } : answer
  })
  several.first.script({ kind: 'whole', status: 500, body: {} })
  const small = [...'abcdefgh'].map((name) => several.app.key({ name }))
  const large = several.app.key({ name: 'large' })
  const isAnswered = async (words: string, key: string) => (await ask(words, key)).status === 200
  let isOver = false
  const askLarge = async () => {
    let answered = 0
    while (!isOver) answered += Number(await isAnswered('large '.repeat(1_000), large))
    return answered
  }
  const askSmall = async (key: string) => {
    let answered = 0
    for (let each = 0; each < 8; each++) answered += Number(await isAnswered('small', key))
    return answered
  }
  const larger = [askLarge(), askLarge()]
  const smaller = await Promise.all(small.map(askSmall))
  isOver = true
  expect(most).toBeGreaterThan(2)
  // Three failures in a row are reported to the client.
  expect(Math.min(...smaller)).toBeGreaterThan(4)
  expect(Math.min(...(await Promise.all(larger)))).toBeGreaterThan(1)
})
