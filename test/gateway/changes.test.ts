/** Clock jumps and catalog changes while requests run: requests in flight keep the old state. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { applyCatalog } from '../../src/catalog/apply.ts'
import { parseCatalog } from '../../src/catalog/file.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { CREDENTIAL } from '../support/app.ts'
import { toFrames } from '../support/frames.ts'
import { expectEnvelope } from '../support/scenario.ts'
import {
  answering,
  COUNTED,
  costAt,
  expectHonest,
  reading,
  type Several,
  startSeveral,
} from '../support/several-upstreams.ts'
import { errorAnswer, type StreamStep, streamAnswer } from '../support/upstream-answers.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

let several: Several
beforeEach(async () => {
  several = await startSeveral()
})
afterEach(async () => {
  expect(await several.app.logText()).not.toContain('"level":"error"')
  await several.stop()
})

/** The first upstream waits for the gate, before the response or after its first word. */
function hold(): () => void {
  let isOpen = false
  function* steps(isBegun: boolean): Generator<StreamStep> {
    const [role = '', word = '', ...rest] = streamAnswer({ tokens: ['this ', 'is ', 'first'], usage: COUNTED }).steps
    if (isBegun) yield* [role, word]
    while (!isOpen) yield { waitMs: 5 }
    yield* isBegun ? rest : [role, word, ...rest]
  }
  several.first.script(({ index }) => ({ kind: 'stream', steps: steps(index % 2 === 1) }))
  return () => {
    isOpen = true
  }
}

const models = async (): Promise<unknown[]> => {
  const headers = { authorization: `Bearer ${several.key}` }
  const response = await fetch(`${several.app.baseUrl}/models`, { headers })
  return JSON.parse(await response.text()).data
}

describe('a change of the wall clock', () => {
  test.each([
    ['back by an hour', -HOUR_MS],
    ['forward by a day', DAY_MS],
  ])('%s during a request changes neither its duration nor its start', async (_, byMs) => {
    const { app, first, chat } = several
    const beganMs = app.clock.nowMs
    const open = hold()
    const asked = chat({ stream: true })
    await first.waitFor((all) => all.length === 1, 'the call')
    app.clock.nowMs += byMs
    open()
    expect(toFrames(await (await asked).text())).toMatchObject({ done: true, content: 'this is first' })
    const [row] = await app.settled(1)
    expect(row).toMatchObject({ created_ms: beganMs, status: 'ok', cost_nano_usd: costAt('first', 10, 3) })
    const [times] = reading(app, (sqlite) =>
      sqlite.query<Record<string, number>, []>('SELECT first_token_ms, duration_ms FROM requests').all(),
    )
    for (const ms of Object.values(times ?? {})) {
      expect(ms).toBeGreaterThanOrEqual(0)
      expect(ms).toBeLessThan(60_000)
    }
    // The next request and its further call start in a new hour.
    first.script(errorAnswer(500))
    expect(await (await chat()).text()).toContain('second')
    const all = await app.settled(2)
    expect(all.map(({ created_ms: ms }) => ms).sort()).toEqual([beganMs, beganMs + byMs].sort())
    await expectHonest(app)
    app.clock.nowMs = Math.max(beganMs, beganMs + byMs)
    await expectHonest(app)
  })

  test.each([
    ['before 1970', -1_000_000_000_000, 0],
    ['beyond what an id can hold', 2 ** 48 + 5, 2 ** 48 - 1],
  ])('to %s lets requests be served, listed, and recorded', async (_, ms, recordedMs) => {
    const { app, first, chat } = several
    first.script(answering('first'))
    app.clock.nowMs = ms
    expect(await (await chat()).text()).toContain('first')
    expect((await models()).length).toBeGreaterThan(0)
    const [row] = await app.settled(1)
    expect(row).toMatchObject({ created_ms: recordedMs, status: 'ok' })
    await expectHonest(app)
  })

  test('back by two days gives no budget twice, nor does its correction', async () => {
    const { app, first, chat } = several
    first.script(answering('first'))
    const key = app.key({ budget: { nanoUsd: 3 * costAt('second', 30, 3), period: 'day' } })
    const status = async () => {
      const response = await chat({ max_tokens: 3 }, { key })
      await response.text()
      return response.status
    }
    const beganMs = app.clock.nowMs
    expect(await status()).toBe(200)
    while ((await status()) === 200);
    for (const days of [-2, -1, 0]) {
      app.clock.nowMs = beganMs + days * DAY_MS
      expect(await status()).toBe(429)
    }
    app.clock.nowMs = beganMs + DAY_MS
    expect(await status()).toBe(200)
    await expectHonest(app)
  })

  test("doesn't affect rates or breakers, which use their own clock", async () => {
    const { app, first, chat } = several
    const key = app.key({ rpm: 1 })
    const status = async (body = {}) => {
      const response = await chat(body, { key })
      await response.text()
      return response.status
    }
    expect([await status(), await status()]).toEqual([200, 429])
    app.clock.nowMs -= HOUR_MS
    expect(await status()).toBe(429)
    app.clock.monotonicMs += 60_000
    expect([await status(), await status()]).toEqual([200, 429])
    app.clock.nowMs += DAY_MS
    expect(await status()).toBe(429)

    first.script(errorAnswer(500))
    const only = async () => (await chat({ model: 'acme/only' })).status
    for (let i = 0; i < 5; i++) expect(await only()).toBe(502)
    app.clock.nowMs += DAY_MS
    expect(await only()).toBe(503)
    app.clock.nowMs -= 2 * DAY_MS
    app.clock.monotonicMs += 10_000
    first.script(answering('first'))
    expect(await only()).toBe(200)
    await expectHonest(app)
  })
})

describe('a catalog that another process applies', () => {
  const facts = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'

  /** One model moves to the second upstream at another price; the other models are removed. */
  async function apply() {
    const text = `
version: 1
upstreams:
  second: { dialect: openai, base_url: "${several.second.url}", api_key: \${UPSTREAM_KEY} }
models:
  acme/both: { name: both, ${facts}, supported_features: [], pricing: [{ prompt: "0.000007", completion: "0.000008" }], routes: [{ upstream: second, model: moved }] }
`
    const environment = { UPSTREAM_KEY: CREDENTIAL }
    const { catalog } = await parseCatalog(text, { name: 'changed', environment })
    const sqlite = openDatabase(databasePath(several.app.dataFolder), { busyMs: 5_000 })
    const how = { origin: 'file', actor: 'test', subject: 'test', digest: 'e', prune: true } as const
    await applyCatalog(createConfigStore(sqlite), catalog, { ...how, nowMs: several.app.clock.nowMs })
    sqlite.close()
  }

  test('lets fifty running streams end on their target and at their price', async () => {
    const { app, first, second, chat } = several
    const open = hold()
    const running = Array.from({ length: 50 }, (_, i) =>
      chat({ model: i < 25 ? 'acme/both' : 'acme/only', stream: true }),
    )
    await first.waitFor((all) => all.length === 50, 'fifty calls')
    await apply()
    while ((await models()).length > 1) await Bun.sleep(5)

    const gone = await chat({ model: 'acme/only' })
    expect(gone.status).toBe(404)
    expectEnvelope(gone, await gone.text(), { code: 'model_not_found', param: 'model' })
    const moved = await chat()
    expect(JSON.parse(await moved.text())).toMatchObject({ usage: { cost_nano_usd: 10 * 7_000 + 3 * 8_000 } })
    expect(second.requests.map(({ json }) => json?.model)).toEqual(['moved'])

    open()
    for (const response of await Promise.all(running)) {
      expect(toFrames(await response.text())).toMatchObject({ done: true, content: 'this is first' })
      expect(response.headers.get('x-tollgate-upstream')).toBe('first')
    }
    const rows = (await app.settled(51)).filter(({ upstream }) => upstream === 'first')
    expect(rows).toHaveLength(50)
    for (const row of rows) {
      expect(row).toMatchObject({ status: 'ok', cost_nano_usd: costAt('first', 10, 3), estimated: 0 })
    }
    expect(first.requests).toHaveLength(50)
    await expectHonest(app)
  })
})

test('an upstream with a dialect of a newer version is skipped', async () => {
  const { app, first, second, chat } = several
  const sqlite = openDatabase(databasePath(app.dataFolder), { busyMs: 5_000 })
  sqlite.run(
    `UPDATE catalog_entries SET fields = json_set(fields, '$.dialect', 'unheard-of') WHERE kind = 'upstreams' AND name = 'first'`,
  )
  sqlite.run("UPDATE settings SET value = CAST(value AS INTEGER) + 1 WHERE key = 'config_revision'")
  sqlite.close()
  while (!(await app.logText()).includes('upstream_not_ready')) await Bun.sleep(5)

  const only = await chat({ model: 'acme/only' })
  expect(only.status).toBe(503)
  const text = await only.text()
  expectEnvelope(only, text, { code: 'model_not_ready' })
  expect(text).toContain(
    "upstream `first` is unavailable: this version of Tollgate doesn't support the API format 'unheard-of'",
  )
  expect(await (await chat()).text()).toContain('second')
  expect([first.requests.length, second.requests.length]).toEqual([0, 1])
  expect(await app.settled(1)).toMatchObject([{ status: 'ok', upstream: 'second' }])
})
