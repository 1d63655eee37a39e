/** Sign-in through an identity provider: its settings, and sign-ins in progress. */
import { describe, expect, test } from 'bun:test'
import { toServeConfig } from '../../src/config.ts'
import { toOidcSettings, toSignInMethods } from '../../src/identity/oidc.ts'

describe('settings', () => {
  const flags = { 'oidc-issuer': 'https://login.example.com', 'oidc-client-id': 'tollgate', 'oidc-role': 'a=owner' }
  const environment = { TOLLGATE_OIDC_CLIENT_SECRET: 'secret' }
  const read = (flags: Record<string, string>, environment: Record<string, string>) =>
    toServeConfig({ flags, environment, settings: { 'oidc-client-secret': 'of a row' } })

  test('are complete, or all missing ones are named at once', () => {
    const whole = read(flags, environment)
    expect(toOidcSettings(whole)).toEqual({
      ...{ issuer: 'https://login.example.com', clientId: 'tollgate', clientSecret: 'secret', claim: 'groups' },
      roles: [{ value: 'a', role: 'owner', team: null }],
    })
    expect(toSignInMethods(whole, toOidcSettings(whole))).toEqual(['password', 'oidc'])
    expect(() => toOidcSettings(read({ 'oidc-issuer': 'https://login.example.com' }, {}))).toThrow(
      /^--oidc-client-id is required.*\nThe variable TOLLGATE_OIDC_CLIENT_SECRET is required.*\n--oidc-role is required/,
    )
    expect(() => toOidcSettings(read({ 'oidc-role': 'a=owner' }, environment))).toThrow('--oidc-issuer is required')
  })

  test('that allow no one to sign in are refused', () => {
    const none = read({}, {})
    expect([toOidcSettings(none), toSignInMethods(none, null)]).toEqual([null, ['password']])
    expect(() => toOidcSettings(read({ 'password-sign-in': 'off' }, {}))).toThrow('no one could sign in')
    const alone = read({ ...flags, 'password-sign-in': 'off' }, environment)
    expect(toSignInMethods(alone, toOidcSettings(alone))).toEqual(['oidc'])
  })
})
