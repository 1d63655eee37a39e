import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isServiceAccount } from '../../../src/upstreams/auth.ts'
import { OWN_FORMAT_OPTIONS } from '../../../src/upstreams/dialects/dialects.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { createTokens } from '../../../src/upstreams/google-tokens.ts'
import { toTarget } from '../../support/snapshot.ts'
import { startTokenEndpoint, type TokenEndpoint } from '../../support/token-endpoint.ts'

const MINUTE = 60_000
let nowMs = Date.UTC(2026, 10, 23)
let endpoint: TokenEndpoint
let folder: string
let path: string
beforeAll(async () => {
  endpoint = await startTokenEndpoint(() => nowMs)
  folder = mkdtempSync(join(tmpdir(), 'tollgate-account-'))
  path = join(folder, 'account.json')
})
beforeEach(() => {
  endpoint.script(null)
  endpoint.claims.length = 0
  writeFileSync(path, endpoint.account.json)
})
afterAll(async () => {
  await endpoint.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Tokens are the same for every request. */
const REQUEST = { path: '/models', body: '' }

const options = { ...OWN_FORMAT_OPTIONS, service_account: true }
const toUpstream = (credential: string | null, hasStoredCredential = false) =>
  toTarget({ dialect: 'gemini', credential, hasStoredCredential, options }).upstream
const create = () => createTokens({ now: () => nowMs })
const bearer = (number: number) => ({ authorization: `Bearer token-number-${number}` })

test('a token is requested once, however many callers need it, and kept until five minutes before it expires', async () => {
  const tokens = create()
  const upstream = toUpstream(path)
  const all = await Promise.all(Array.from({ length: 20 }, () => tokens.headers(upstream, REQUEST)))
  expect(new Set(all.map((headers) => headers?.authorization))).toEqual(new Set(['Bearer token-number-1']))
  nowMs += 3_599_000 - 5 * MINUTE - 1
  expect(tokens.headers(upstream, REQUEST)).toEqual(bearer(1))
  nowMs += 1
  expect(await tokens.headers(upstream, REQUEST)).toEqual(bearer(2))
  expect(endpoint.claims).toHaveLength(2)
})

test('the assertion has issuer, scope, audience, and lifetime', async () => {
  await create().headers(toUpstream(path), REQUEST)
  const iat = Math.floor(nowMs / 1_000)
  expect(endpoint.claims).toEqual([
    {
      iss: endpoint.account.email,
      scope: 'https://www.googleapis.com/auth/cloud-platform',
      aud: endpoint.uri,
      iat,
      exp: iat + 3_600,
      alg: 'RS256',
      typ: 'JWT',
      kid: '0123abcd',
    },
  ])
})

test('a refused token is not used again, and a changed file is read again', async () => {
  const tokens = create()
  const upstream = toUpstream(path)
  await tokens.headers(upstream, REQUEST)
  tokens.refused(upstream)
  expect(await tokens.headers(upstream, REQUEST)).toEqual(bearer(2))
  tokens.refused(upstream)
  writeFileSync(path, '{}')
  expect(() => tokens.headers(upstream, REQUEST)).toThrow('service account file has a type other than service_account')
})

test('all waiting callers get an error, and the next one retries', async () => {
  const tokens = create()
  const upstream = toUpstream(path)
  endpoint.script(() => new Response('busy', { status: 503 }))
  const all = await Promise.allSettled([tokens.headers(upstream, REQUEST), tokens.headers(upstream, REQUEST)])
  for (const one of all)
    expect(one).toMatchObject({ status: 'rejected', reason: { kind: 'status', status: 503, retryable: true } })
  endpoint.script(null)
  expect(await tokens.headers(upstream, REQUEST)).toEqual(bearer(1))
})

test.each([
  [
    'a clock that is wrong',
    () => Response.json({ error: 'invalid_grant', error_description: 'Invalid JWT' }, { status: 400 }),
    'was refused a token (400, invalid_grant: Invalid JWT)',
  ],
  ['an answer that is no token', () => Response.json({ access_token: 'two words' }), 'was refused a token (200)'],
  ['an answer that is no JSON', () => new Response('<html>'), 'was refused a token (200)'],
])('%s is a fault of the account', async (_, answer, why) => {
  endpoint.script(answer)
  const error = await Promise.resolve(create().headers(toUpstream(path), REQUEST)).catch((error) => error)
  expect(error).toMatchObject({ kind: 'status', status: 401, retryable: false })
  expect(error.message).toBe(`service account ${why}`)
})

test.each([
  ['/no/such/file.json', 'file cannot be read (ENOENT)'],
  ['{ "type": ', 'file is not JSON'],
  ['{"type":"authorized_user"}', 'file has a type other than service_account'],
  ['{"type":"service_account","client_email":"a@b"}', 'file lacks client_email or private_key'],
  [
    '{"type":"service_account","client_email":"a@b","private_key":"-----BEGIN PRIVATE KEY-----\\nAAAA"}',
    /has an invalid private_key/,
  ],
])('%p says what is wrong with it, and nothing of it', async (credential, why) => {
  const error = await Promise.resolve(create().headers(toUpstream(credential), REQUEST)).catch((error) => error)
  expect(error).toMatchObject({ kind: 'status', status: 401 })
  expect(error.message).toMatch(why)
})

test('the JSON itself may be used in place of a path', async () => {
  expect(await create().headers(toUpstream(endpoint.account.json), REQUEST)).toEqual(bearer(1))
})

test("a typed-in key file reads no file of the server, and uses no URL but Google's", async () => {
  const tokens = create()
  for (const credential of [path, endpoint.account.json]) {
    const error = await Promise.resolve(tokens.headers(toUpstream(credential, true), REQUEST)).catch((error) => error)
    expect(error).toMatchObject({
      status: 401,
      message: expect.stringMatching(/must be entered as JSON|must have the token_uri/),
    })
  }
  expect(endpoint.claims).toEqual([])
})

test("an unreachable endpoint is not the account's fault", async () => {
  const json = endpoint.account.json.replace(endpoint.uri, 'http://127.0.0.1:1/token')
  const error = await Promise.resolve(create().headers(toUpstream(json), REQUEST)).catch((error) => error)
  expect(error).toMatchObject({ kind: 'connection', retryable: true })
})

test('API keys are sent unchanged', () => {
  for (const key of ['AIzaSyA-0123456789', 'AQ.Ab8RN6', 'sk-anything', null]) {
    expect(isServiceAccount(toUpstream(key))).toBeFalse()
    expect(create().headers(toUpstream(key), REQUEST)).toBeNull()
  }
})

test('a value that looks like a path is an ordinary credential, unless it is declared as a key file', () => {
  for (const credential of [path, '/+base64/key==', 'my-key.json']) {
    const { upstream } = toTarget({ dialect: 'openai', credential })
    expect(isServiceAccount(upstream)).toBeFalse()
    expect(create().headers(upstream, REQUEST)).toBeNull()
    expect(openai.headers(upstream)).toEqual({ authorization: `Bearer ${credential}` })
  }
  expect(isServiceAccount(toTarget({ dialect: 'openai', credential: endpoint.account.json }).upstream)).toBeTrue()
})
