/** Requests of one key that break an upstream must not take it from other keys; failures of several keys may. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { createTeam } from '../../src/keys/service.ts'
import { answering, endWell, type Several, startSeveral } from '../support/several-upstreams.ts'
import type { Seen } from '../support/upstream.ts'
import { type Behaviour, errorAnswer } from '../support/upstream-answers.ts'

const PARALLEL = 8

let several: Several
let poisoner: string
let bystander: string
async function start(options: Parameters<typeof startSeveral>[0] = {}) {
  several = await startSeveral(options)
  poisoner = several.app.key({ name: 'poisoner' })
  bystander = several.app.key({ name: 'bystander' })
}
async function restart(options: Parameters<typeof startSeveral>[0]) {
  await several.stop()
  await start(options)
}
beforeEach(() => start())
afterEach(() => endWell(several))

const failing = (seen: Seen) => (seen.body.includes('poison') ? errorAnswer(500) : answering('first')(seen))

async function ask(key: string, words: string, body: Record<string, unknown> = {}) {
  const response = await several.chat({ messages: [{ role: 'user', content: words }], ...body }, { key })
  await response.text()
  return { status: response.status, upstream: response.headers.get('x-tollgate-upstream') }
}

const poison = (body = {}) => Promise.all(Array.from({ length: PARALLEL }, () => ask(poisoner, 'poison', body)))

const breakers = async (): Promise<{ breaker: string; open_for_keys: number | null }[]> => {
  const unix = join(several.app.dataFolder, 'control.sock')
  const status: { upstreams: { id: string; targets: { model: string; breaker: string; open_for_keys: number }[] }[] } =
    JSON.parse(await (await fetch('http://localhost/status', { unix })).text())
  const targets = status.upstreams.find(({ id }) => id === 'first')?.targets ?? []
  return targets.filter(({ model }) => model === 'acme/both')
}

test('eight parallel requests of one key that end in 500 leave the upstream to other keys, and only that key fails over', async () => {
  const { first } = several
  first.script(failing)
  for (const { status, upstream } of await poison()) expect([status, upstream]).toEqual([200, 'second'])
  for (let each = 0; each < 10; each++) {
    expect(await ask(bystander, `question ${each}`)).toEqual({ status: 200, upstream: 'first' })
    // Fallback without a call: the breaker is open.
    const before = first.requests.length
    expect(await ask(poisoner, 'poison')).toEqual({ status: 200, upstream: 'second' })
    expect(first.requests.length).toBe(before)
  }
  expect(await breakers()).toMatchObject([{ breaker: 'open', open_for_keys: 1 }])
})

test.each([403, 404, 405])('a %d that one key gets moves only that key to the other route', async (status) => {
  several.first.script((seen) => (seen.body.includes('poison') ? errorAnswer(status) : answering('first')(seen)))
  for (const { status, upstream } of await poison()) expect([status, upstream]).toEqual([200, 'second'])
  expect(await ask(bystander, 'question')).toEqual({ status: 200, upstream: 'first' })
  expect(await ask(poisoner, 'question')).toEqual({ status: 200, upstream: 'second' })
})

/** While eight bad requests are in flight, and afterwards. */
async function expectServed(words: string, only: Record<string, unknown> = {}) {
  const asked = Array.from({ length: 4 }, (_, each) => ask(bystander, `${words} ${each}`, only))
  for (const { status, upstream } of await Promise.all(asked)) expect([status, upstream]).toEqual([200, 'first'])
}

test.each<[string, Behaviour]>([
  ['with 500', errorAnswer(500)],
  ['with something that is no completion', { kind: 'whole', body: 'no' }],
  ['by hanging up', { kind: 'reset' }],
])(
  'with retries, parallel requests of one key that are answered %s cost another key none of its own',
  async (_, answer) => {
    await restart({ config: { retries: 2 } })
    several.first.script((seen) => (seen.body.includes('poison') ? answer : answering('first')(seen)))
    const only = { model: 'acme/only' }
    const poisoned = poison(only)
    for (let round = 0; round < 3; round++) await expectServed(`question ${round}`, only)
    for (const { status } of await poisoned) expect(status).toBeGreaterThan(500)
    await expectServed('question', only)
  },
)

test('two keys of one team count as one', async () => {
  const { app, first } = several
  app.change((store, by) => createTeam(store, { name: 'crew' }, by))
  const keys = ['one', 'two'].map((name) => app.key({ name, team: 'crew' }))
  first.script(failing)
  for (let round = 0; round < 3; round++) {
    await Promise.all(keys.flatMap((key) => Array.from({ length: PARALLEL }, () => ask(key, 'poison'))))
    await expectServed('question')
    app.pass(10_000)
  }
})

test('two keys of different teams take an upstream away for ten seconds, and not again', async () => {
  const { app, first } = several
  const keys = [poisoner, app.key({ name: 'accomplice' })]
  const poisonAll = () => Promise.all(keys.flatMap((key) => Array.from({ length: PARALLEL }, () => ask(key, 'poison'))))
  first.script(failing)
  await poisonAll()
  expect((await ask(bystander, 'question')).upstream).toBe('second')
  app.pass(10_000)
  await ask(bystander, 'question')
  for (let round = 0; round < 5; round++) {
    await poisonAll()
    await expectServed('question')
    app.pass(10_000)
  }
})

test('without another upstream, only that key is rejected', async () => {
  several.first.script(failing)
  const only = { model: 'acme/only' }
  for (const { status } of await poison(only)) expect(status).toBe(502)
  for (let each = 0; each < 10; each++) {
    expect((await ask(bystander, `question ${each}`, only)).status).toBe(200)
    expect((await ask(poisoner, 'poison', only)).status).toBe(503)
  }
})

test('a poisoner returns every ten seconds with one request, and harms no one', async () => {
  const { app, first } = several
  first.script(failing)
  await poison()
  for (let round = 0; round < 5; round++) {
    app.pass(10_000)
    const before = first.requests.length
    await poison()
    expect(first.requests.length).toBe(before + 1)
    expect(await ask(bystander, `question ${round}`)).toEqual({ status: 200, upstream: 'first' })
  }
})

test('an upstream that fails for a second key, too, is skipped by all', async () => {
  const { first } = several
  first.script(errorAnswer(500))
  await poison()
  expect((await ask(bystander, 'question')).upstream).toBe('second')
  const before = first.requests.length
  for (const key of [poisoner, bystander, several.key, several.app.key({ name: 'new' })]) {
    expect(await ask(key, 'question')).toEqual({ status: 200, upstream: 'second' })
  }
  expect(first.requests.length).toBe(before)
  expect(await breakers()).toMatchObject([{ breaker: 'open', open_for_keys: null }])
})

test("a poisoner doesn't keep a breaker open for all", async () => {
  const { app, first } = several
  first.script(errorAnswer(500))
  await poison()
  await ask(bystander, 'question')
  first.script(failing)
  app.pass(10_000)
  await poison()
  expect((await ask(poisoner, 'poison')).upstream).toBe('second')
  app.pass(10_000)
  expect(await ask(bystander, 'question')).toEqual({ status: 200, upstream: 'first' })
  expect(await ask(several.key, 'question')).toEqual({ status: 200, upstream: 'first' })
})

test('a request counts once, whatever its retries', async () => {
  await restart({ config: { retries: 2 } })
  const { first, chat } = several
  first.script(errorAnswer(500))
  const status = async () => {
    const response = await chat({ model: 'acme/only' })
    await response.text()
    return response.status
  }
  for (let each = 0; each < 4; each++) expect(await status()).toBe(502)
  expect(first.requests).toHaveLength(12)
  first.script(answering('first'))
  expect(await status()).toBe(200)
})
