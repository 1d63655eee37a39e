import { describe, expect, test } from 'bun:test'
import { isLocal, toAddressText, toPostgresUrl } from '../../src/domain/postgres-url.ts'

describe('a URL of PostgreSQL', () => {
  test('has a user, password, and database, escaped or not', () => {
    const url = toPostgresUrl('postgresql://tollgate:p%40ss:w0rd@db.internal:6432/gate%20way')
    expect(url).toMatchObject({ user: 'tollgate', password: 'p@ss:w0rd', database: 'gate way', tls: null })
    expect(url?.addresses).toEqual([{ host: 'db.internal', port: 6432 }])
    expect(toPostgresUrl('postgres://')).toMatchObject({ user: null, password: null, database: null })
  })

  test.each<[string, string[]]>([
    ['postgres://a,b:5433,[::1]:5434/d', ['a:5432', 'b:5433', '[::1]:5434']],
    ['postgres://a,b/d?port=6000', ['a:6000', 'b:6000']],
    ['postgres://u@/d?host=/run/postgresql&port=5433', ['/run/postgresql']],
    ['postgres:///d', ['localhost:5432']],
  ])('%s has the addresses %p', (text, addresses) => {
    expect(toPostgresUrl(text)?.addresses.map(toAddressText)).toEqual(addresses)
  })

  test("uses libpq's words for verified TLS, and its own for less", () => {
    const tls = (mode: string) => toPostgresUrl(`postgres://a/d?sslmode=${mode}`)?.tls
    expect(['require', 'verify-full', 'verify-ca', 'no-verify', 'disable'].map(tls)).toEqual([
      ...(['verify-full', 'verify-full', 'verify-ca', 'no-verify', 'disable'] as const),
    ])
    expect(['prefer', 'allow', 'off', ''].map(tls)).toEqual([undefined, undefined, undefined, undefined])
    expect(
      ['/run', 'localhost', '127.0.0.9', '::1', 'db', '10.0.0.1'].map((host) => isLocal({ host, port: 1 })),
    ).toEqual([...[true, true, true, true, false, false]])
  })

  test.each([
    'mysql://a/d',
    'postgres:a/d',
    'postgres://a:0/d',
    'postgres://a:70000/d',
    'postgres://a b/d',
    'postgres://a,,b/d',
    'postgres://a/d?sslcert=x',
    'postgres://a/d?target_session_attrs=standby',
    'postgres://a/d?channel_binding=maybe',
    'postgres://a/d?pooler=perhaps',
  ])('%s is rejected', (text) => {
    expect(toPostgresUrl(text)).toBeNull()
  })
})
