/** Sign-in through an identity provider: what it is set up with, and what is kept of who is on the way. */
import { describe, expect, test } from 'bun:test'
import { toServeConfig } from '../../src/config.ts'
import { PENDING_MS, PendingSignIns } from '../../src/identity/oidc/pending.ts'
import { toOidcSettings, toWays } from '../../src/identity/oidc/settings.ts'

describe('settings', () => {
  const flags = { 'oidc-issuer': 'https://login.example.com', 'oidc-client-id': 'tollgate', 'oidc-role': 'a=owner' }
  const environment = { TOLLGATE_OIDC_CLIENT_SECRET: 'secret' }
  const read = (flags: Record<string, string>, environment: Record<string, string>) =>
    toServeConfig({ flags, environment, settings: { 'oidc-client-secret': 'of a row' } })

  test('are whole, or name each part that is missing at once', () => {
    const whole = read(flags, environment)
    expect(toOidcSettings(whole)).toEqual({
      ...{ issuer: 'https://login.example.com', clientId: 'tollgate', clientSecret: 'secret', claim: 'groups' },
      roles: [{ value: 'a', role: 'owner', team: null }],
    })
    expect(toWays(whole, toOidcSettings(whole))).toEqual(['password', 'oidc'])
    expect(() => toOidcSettings(read({ 'oidc-issuer': 'https://login.example.com' }, {}))).toThrow(
      /^--oidc-client-id is missing.*\nTOLLGATE_OIDC_CLIENT_SECRET is missing.*\n--oidc-role is missing/,
    )
    expect(() => toOidcSettings(read({ 'oidc-role': 'a=owner' }, environment))).toThrow('--oidc-issuer is missing')
  })

  test('that let nobody in at all are refused', () => {
    const none = read({}, {})
    expect([toOidcSettings(none), toWays(none, null)]).toEqual([null, ['password']])
    expect(() => toOidcSettings(read({ 'password-sign-in': 'off' }, {}))).toThrow('nobody could sign in')
    const alone = read({ ...flags, 'password-sign-in': 'off' }, environment)
    expect(toWays(alone, toOidcSettings(alone))).toEqual(['oidc'])
  })
})

describe('who is on the way', () => {
  const signIn = { state: 's', nonce: 'n', codeVerifier: 'v', redirectUri: 'https://a.example', sessionId: null }

  test('is known by what their browser keeps and by the state, once, and for ten minutes', () => {
    const pending = new PendingSignIns()
    const secret = pending.begin(signIn, '203.0.113.7', 0)
    expect([pending.take(secret, 'x', 1), pending.take('x', 's', 1)]).toEqual([null, null])
    expect(pending.take(secret, 's', PENDING_MS - 1)).toMatchObject(signIn)
    expect(pending.take(secret, 's', PENDING_MS - 1)).toBeNull()
    const late = pending.begin(signIn, '203.0.113.7', 0)
    expect(pending.take(late, 's', PENDING_MS)).toBeNull()
  })

  test('is not pushed out by another network that begins many, and no more are kept than so many', () => {
    const pending = new PendingSignIns()
    const secret = pending.begin(signIn, '203.0.113.7', 0)
    for (let i = 0; i < 1_000; i++) pending.begin(signIn, `2001:db8::${i.toString(16)}`, 0)
    expect(pending.size).toBe(101)
    for (let i = 0; i < 5_000; i++) pending.begin(signIn, `10.0.${i >> 8}.${i & 255}`, 0)
    expect(pending.take(secret, 's', 0)).not.toBeNull()
    for (let i = 0; i < 6_000; i++) pending.begin(signIn, `10.1.${i >> 8}.${i & 255}`, 0)
    expect(pending.size).toBe(10_000)
    pending.begin(signIn, '203.0.113.7', PENDING_MS)
    expect(pending.size).toBe(1)
  })
})
