/** An upstream with several credentials: which is sent, and what happens to a refused one. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Status } from '../../src/server/protocol.ts'
import { startApp, type TestApp } from '../support/app.ts'
import { reading } from '../support/several-upstreams.ts'
import { type ScriptedUpstream, type Seen, startUpstream } from '../support/upstream.ts'
import { type Behaviour, errorAnswer, wholeAnswer } from '../support/upstream-answers.ts'

const KEYS = ['one-of-three~aaaaaaaaaa', 'two-of-three~bbbbbbbbbb', 'three-of-three~cccccccc'] as const
const QUOTA = 'You exceeded your current quota, please check your plan and billing details.'
const COUNTED = { prompt_tokens: 10, completion_tokens: 3 }

let folder: string
let upstream: ScriptedUpstream
let app: TestApp
let refused: Map<string, Behaviour>
beforeEach(async () => {
  refused = new Map()
  folder = mkdtempSync(join(tmpdir(), 'tollgate-credentials-'))
  writeFileSync(join(folder, 'three'), `${KEYS[2]}\n`, { mode: 0o400 })
  upstream = await startUpstream((seen) => refused.get(credentialOf(seen)) ?? wholeAnswer({ usage: COUNTED }))
  const facts = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'
  app = await startApp({
    environment: { ONE: KEYS[0], TWO: KEYS[1], CREDENTIALS_DIRECTORY: folder },
    catalog: `
version: 1
upstreams:
  many: { dialect: openai, base_url: "${upstream.url}", api_key: [\${ONE}, \${TWO}, 'file:\${CREDENTIALS_DIRECTORY}/three'] }
models:
  acme/m: { ${facts}, name: m, supported_features: [], pricing: [{ prompt: "0.000001", completion: "0.000002" }], routes: [{ upstream: many, model: m }] }
`,
  })
  app.secrets.push(KEYS[2])
})
afterEach(async () => {
  const log = await app.logText()
  for (const key of KEYS) expect(log).not.toContain(key)
  await app.stop()
  await upstream.stop()
  rmSync(folder, { recursive: true })
})

const credentialOf = ({ headers }: Seen) => String(headers.authorization).replace('Bearer ', '')

const ask = (about: string) =>
  fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key()}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'acme/m', messages: [{ role: 'user', content: about }] }),
  })

let made: { app: TestApp; key: string } | null = null
function key(): string {
  if (made?.app !== app) made = { app, key: app.key() }
  return made.key
}

const sentSince = (count: number) => upstream.requests.slice(count).map(credentialOf)

async function sentFor(about: string): Promise<string[]> {
  const before = upstream.requests.length
  await (await ask(about)).text()
  return sentSince(before)
}

/** The credential of a conversation if nothing is wrong. */
const ownOf = async (about: string) => (await sentFor(about))[0] ?? ''

async function ownOfMany(count: number): Promise<string[]> {
  const found: string[] = []
  for (let index = 0; index < count; index++) found.push(await ownOf(`About ${index}`))
  return found
}

test('a conversation keeps its credential, and conversations are distributed over all of them', async () => {
  const first = await ownOfMany(30)
  expect(new Set(first)).toEqual(new Set(KEYS))
  expect(await ownOfMany(30)).toEqual(first)
})

test('a rejected one is suspended, its conversations use another, and no other conversation moves', async () => {
  const mine = await ownOf('Mine')
  const before = await ownOfMany(20)
  refused.set(mine, errorAnswer(401, `Incorrect API key provided: ${mine}`))

  const response = await ask('Mine')
  expect([response.status, (await response.text()).includes(mine)]).toEqual([200, false])
  const id = response.headers.get('x-request-id') ?? ''
  const [row] = reading(app, (sqlite) =>
    sqlite
      .query<{ attempts: number; cost_nano_usd: number; credential: number; first: string; second: number }, [string]>(
        `SELECT attempts, cost_nano_usd, credential,
           (SELECT json_object('credential', credential, 'http_status', http_status) FROM calls WHERE request_id = id AND number = 1) AS first,
           (SELECT credential FROM calls WHERE request_id = id AND number = 2) AS second FROM requests WHERE id = ?`,
      )
      .all(id.replace(/^req_/, '')),
  )
  // Each call records its credential.
  const number = KEYS.indexOf(mine as never) + 1
  expect(JSON.parse(row?.first ?? '')).toMatchObject({ credential: number, http_status: 401 })
  const instead = KEYS.indexOf((await sentFor('Mine'))[0] as never) + 1
  expect([row?.credential, row?.second]).toEqual([instead, instead])
  expect(row).toMatchObject({ attempts: 2, cost_nano_usd: 16_000 })
  expect(await sentFor('Mine')).toEqual([KEYS[instead - 1] ?? ''])
  expect(instead).not.toBe(number)
  const after = await ownOfMany(20)
  for (const [index, credential] of before.entries()) if (credential !== mine) expect(after[index]).toBe(credential)
  const lines = (await app.logLines()).filter(({ event }) => event === 'credential_suspended')
  expect(lines).toMatchObject([{ upstream: 'many', credential: number, retry_in_ms: 300_000 }])
})

test('one with an exhausted quota returns to its conversations after the suspension', async () => {
  const mine = await ownOf('Mine')
  refused.set(mine, errorAnswer(429, QUOTA, { 'retry-after': '600' }))
  expect((await sentFor('Mine')).length).toBe(2)
  refused.clear()
  app.pass(599_000)
  expect(await sentFor('Mine')).not.toEqual([mine])
  app.pass(2_000)
  expect(await sentFor('Mine')).toEqual([mine])
  expect((await app.logLines()).map(({ event }) => event)).toContain('credential_restored')
})

test('one still rejected when tried again is suspended again, by one request only', async () => {
  const mine = await ownOf('Mine')
  refused.set(mine, errorAnswer(401, 'no'))
  await sentFor('Mine')
  app.pass(301_000)
  expect(await sentFor('Mine')).toHaveLength(2)
  expect(await sentFor('Mine')).toHaveLength(1)
})

test('one without permission is replaced for the request, and suspended for no one: others may use it', async () => {
  const mine = await ownOf('Mine')
  refused.set(mine, errorAnswer(403, 'This project has no access to the model'))
  expect(await sentFor('Mine')).toHaveLength(2)
  expect((await sentFor('Mine'))[0]).toBe(mine)
  refused.clear()
  expect(await sentFor('Mine')).toEqual([mine])
})

test("one whose balance doesn't cover a request is replaced, and still used for smaller ones", async () => {
  const mine = await ownOf('Mine')
  refused.set(mine, errorAnswer(402, 'You requested up to 65536 tokens, but can only afford 3919.'))
  expect(await sentFor('Mine')).toHaveLength(2)
  expect((await sentFor('Mine'))[0]).toBe(mine)
  refused.clear()
  expect(await sentFor('Mine')).toEqual([mine])
  expect((await app.logLines()).map(({ event }) => event)).not.toContain('credential_suspended')
})

test('a per-minute limit, or an error of the request, says nothing about the credential', async () => {
  const mine = await ownOf('Mine')
  for (const answer of [
    errorAnswer(429, 'Rate limit reached', { 'retry-after': '2' }),
    errorAnswer(400, 'no'),
    errorAnswer(500, 'no'),
  ]) {
    refused.set(mine, answer)
    expect(await sentFor('Mine')).toEqual([mine])
  }
})

test('if all are rejected, the client gets one error without any of them, and the first to recover is found', async () => {
  for (const one of KEYS) refused.set(one, errorAnswer(401, `${KEYS.join(' and ')} are wrong`))
  const before = upstream.requests.length
  const response = await ask('Mine')
  const text = await response.text()
  expect(response.status).toBe(502)
  for (const one of KEYS) expect(text).not.toContain(one)
  expect(new Set(sentSince(before))).toEqual(new Set(KEYS))
  // Then one call is enough to detect it.
  expect(await sentFor('Mine')).toHaveLength(1)
  refused.clear()
  expect((await ask('Mine')).status).toBe(200)
})

test('their states have their numbers, reasons, and durations, and never a secret', async () => {
  const mine = await ownOf('Mine')
  refused.set(mine, errorAnswer(402, `pay for ${mine}`))
  await sentFor('Mine')
  const told = await fetch('http://localhost/status', { unix: join(app.dataFolder, 'control.sock') })
  const status = (await told.json()) as Status
  const { credential, credentials = [] } = status.upstreams[0] ?? {}
  expect(credential).toBe('set')
  const number = KEYS.indexOf(mine as never) + 1
  expect(credentials).toHaveLength(3)
  expect(credentials[number - 1]).toMatchObject({
    ...{ number, status: 'suspended', retry_in_ms: 300_000 },
    reason: 'returned 402: payment required on the provider account, or quota exceeded',
  })
  expect(credentials[2]).toMatchObject({ from: 'file', name: `\${CREDENTIALS_DIRECTORY}/three` })
  for (const one of KEYS) expect(JSON.stringify(status)).not.toContain(one)
})

test('a manual test uses each of them, and suspends a rejected one', async () => {
  const said = (seen: Seen) => refused.get(credentialOf(seen)) ?? { kind: 'whole' as const, body: { data: [] } }
  upstream.scriptProbes(said)
  const testIt = async () => {
    const unix = join(app.dataFolder, 'control.sock')
    const before = upstream.probes.length
    const result = await (
      await fetch('http://localhost/admin/api/upstreams/many/test', { unix, method: 'POST' })
    ).json()
    return { result, sent: new Set(upstream.probes.slice(before).map(credentialOf)) }
  }
  expect(await testIt()).toEqual({
    result: expect.objectContaining({ state: 'ready', reason: null }),
    sent: new Set(KEYS),
  })
  refused.set(KEYS[1], errorAnswer(401, 'no'))
  const { result } = await testIt()
  expect(result).toMatchObject({
    state: 'ready',
    reason: expect.stringMatching(/^credential 2: \/models returned 401[^;]*$/),
  })
  expect(new Set(await ownOfMany(20))).toEqual(new Set([KEYS[0], KEYS[2]]))
  for (const one of KEYS) refused.set(one, errorAnswer(401, 'no'))
  expect((await testIt()).result).toMatchObject({
    state: 'refused',
    reason: expect.stringMatching(/^credential 1: .*; credential 2: .*; credential 3: /),
  })
})

test('one whose file is missing is reported, and read again once the file is back', async () => {
  const path = join(folder, 'three')
  const reload = () => app.change(async () => {})
  rmSync(path)
  reload()
  expect(new Set(await ownOfMany(20))).toEqual(new Set([KEYS[0], KEYS[1]]))
  const told = await fetch('http://localhost/status', { unix: join(app.dataFolder, 'control.sock') })
  expect(((await told.json()) as Status).upstreams[0]?.credentials[2]).toMatchObject({
    ...{ status: 'not_set', reason: `the file ${path} does not exist` },
  })
  writeFileSync(path, `${KEYS[2]}-renewed\n`)
  reload()
  expect(new Set(await ownOfMany(30))).toEqual(new Set([KEYS[0], KEYS[1], `${KEYS[2]}-renewed`]))
})
