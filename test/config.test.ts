/** Settings come from the first source that has them, and one error names every wrong one. */
import { expect, test } from 'bun:test'
import { toServeConfig } from '../src/config.ts'
import { MAX_BODY_BYTES } from '../src/gateway/read.ts'

const read = (heartbeat?: string) =>
  toServeConfig({ flags: heartbeat === undefined ? {} : { heartbeat }, environment: {}, settings: {} }).heartbeatMs

test.each([
  [undefined, 10_000],
  ['1s', 1_000],
  ['500ms', null],
  ['15s', 15_000],
  ['15', null],
  ['1m', 60_000],
  ['2m', null],
  ['off', 0],
  ['0', 0],
  ['often', null],
])('a heartbeat of %p is %p ms', (text, ms) => {
  if (ms === null)
    expect(() => read(text)).toThrow(`--heartbeat must be a duration from 1s to 60s, or off (got '${text}').`)
  else expect(read(text)).toBe(ms)
})

test('proxies are addresses and ranges, separated by commas', () => {
  const read = (text: string) => toServeConfig({ flags: { 'trusted-proxy': text }, environment: {}, settings: {} })
  const ranges = [
    { first: [10 << 8, 0], bits: 8 },
    { first: [0, 0, 0, 0, 0, 0, 0, 1], bits: 128 },
  ]
  expect(read('10.0.0.0/8, ::1').trustedProxies).toEqual(ranges)
  for (const wrong of ['proxy.example', '10.0.0.1/8', '10.0.0.1,', 'off', ''])
    expect(() => read(wrong)).toThrow('must be comma-separated addresses or CIDR ranges, e.g. 10.0.0.0/8 or ::1 (got')
})

test('a flag overrides the environment, and the environment overrides the settings', () => {
  const environment = { TOLLGATE_PORT: '2' }
  const settings = { port: '3', host: '::1' }
  expect(toServeConfig({ flags: { port: '1' }, environment, settings })).toMatchObject({ port: 1, host: '::1' })
  expect(toServeConfig({ flags: {}, environment, settings })).toMatchObject({ port: 2 })
  expect(() =>
    toServeConfig({ flags: { port: 'x' }, environment: { TOLLGATE_DRAIN: 'soon' }, settings: { durability: 'some' } }),
  ).toThrow(
    /--port must .*\(got 'x'\)[\s\S]*TOLLGATE_DRAIN must .*\(got 'soon'\)[\s\S]*the setting durability must .*\(got 'some'\)/,
  )
})

test('settings that need a cluster are refused without one', () => {
  const read = (flags: Record<string, string>) => toServeConfig({ flags, environment: {}, settings: {} })
  const shared = { durability: 'shared', limits: 'valkey://cache' }
  expect(() => read(shared)).toThrow(/--durability shared needs --cluster[\s\S]*--limits needs --cluster/)
  expect(read({ ...shared, cluster: 'postgres://db' })).toMatchObject(shared)
})

test.each([
  ['64M', 64],
  ['512MiB', 512],
  ['2G', 2_048],
  ['63M', null],
  ['1M', null],
  ['64', null],
])('a --max-buffered of %p is %p MiB', (text, mebibytes) => {
  const buffered = () =>
    toServeConfig({ flags: { 'max-buffered': text }, environment: {}, settings: {} }).maxBufferedBytes
  if (mebibytes !== null) return expect(buffered()).toBe(mebibytes * 1024 ** 2)
  expect(buffered).toThrow(`--max-buffered must be a size of 64M or more, e.g. 512M or 2G (got '${text}').`)
})

test.each<[text: string, mebibytes: number | null]>([
  ['32M', 32],
  ['1G', 1_024],
  ['31M', null],
  ['off', null],
])('a --max-journal-size of %p is %p MiB', (text, mebibytes) => {
  const journal = () =>
    toServeConfig({ flags: { 'max-journal-size': text }, environment: {}, settings: {} }).maxJournalBytes
  if (mebibytes !== null) return expect(journal()).toBe(mebibytes * 1024 ** 2)
  expect(journal).toThrow(`--max-journal-size must be a size of 32M or more, e.g. 512M or 1G (got '${text}').`)
})

test('the smallest --max-buffered fits two of the largest bodies', () => {
  const { maxBufferedBytes } = toServeConfig({ flags: { 'max-buffered': '64M' }, environment: {}, settings: {} })
  expect(maxBufferedBytes).toBeGreaterThanOrEqual(2 * MAX_BODY_BYTES)
})

test.each(['mysql://tollgate:hidden@db/tollgate', 'tollgate:hidden@db/tollgate'])(
  'the error for --cluster %p has no password',
  (text) => {
    const read = () => toServeConfig({ flags: { cluster: text }, environment: {}, settings: {} })
    expect(read).toThrow("***@db/tollgate')")
  },
)

test.each([
  ['https://app.example.com', ['https://app.example.com']],
  ['https://App.Example.com:443/, http://localhost:5173', ['https://app.example.com', 'http://localhost:5173']],
  ['app://localhost,*', ['app://localhost', '*']],
  ['app.example.com', null],
  ['localhost:5173', null],
  ['https://*.example.com', null],
  ['https://app.example.com/page', null],
  ['https://user@app.example.com', null],
  ['https://a.example.com,,', null],
])('a --cors-origin of %p is %p', (text, origins) => {
  const read = () => toServeConfig({ flags: { 'cors-origin': text }, environment: {}, settings: {} }).corsOrigins
  if (origins !== null) return expect(read()).toEqual(origins)
  expect(read).toThrow(
    `--cors-origin must be comma-separated origins, e.g. https://app.example.com, or * (got '${text.replace('user@', '***@')}').`,
  )
})

test.each<[text: string, share: number | null]>([
  ['25%', 0.25],
  ['1%', 0.01],
  ['100%', 1],
  ['off', 1],
  ['0%', null],
  ['101%', null],
  ['0.25', null],
])('a --max-key-share of %p is %p', (text, share) => {
  const read = () => toServeConfig({ flags: { 'max-key-share': text }, environment: {}, settings: {} }).share
  if (share !== null) return expect(read()).toBe(share)
  expect(read).toThrow(`--max-key-share must be a percentage from 1% to 100%, or off (got '${text}').`)
})

test('the variable of an old name counts if the new one is not set', () => {
  const grace = (environment: Record<string, string>) =>
    toServeConfig({ flags: {}, environment, settings: { 'disconnect-grace': '1s' } }).disconnectGraceMs
  expect(grace({ TOLLGATE_LEAVE: '5s' })).toBe(5_000)
  expect(grace({ TOLLGATE_LEAVE: '5s', TOLLGATE_DISCONNECT_GRACE: '3s' })).toBe(3_000)
})

const DAY_MS = 86_400_000
test.each([
  ['400d', 400 * DAY_MS],
  ['forever', Number.POSITIVE_INFINITY],
  ['29d', null],
  ['0', null],
])('an --audit-retention of %p is %p ms', (text, ms) => {
  const read = () => toServeConfig({ flags: { 'audit-retention': text }, environment: {}, settings: {} }).auditMs
  if (ms !== null) return expect(read()).toBe(ms)
  expect(read).toThrow(`--audit-retention must be a duration of 30 days or more`)
})

test.each([
  ['90d', 90 * DAY_MS],
  ['12w', 84 * DAY_MS],
  ['24h', DAY_MS],
  ['forever', Number.POSITIVE_INFINITY],
  ['23h', null],
  ['0', null],
  ['90', null],
  ['never', null],
])('a --retention of %p is %p ms', (text, ms) => {
  const keep = () => toServeConfig({ flags: { retention: text }, environment: {}, settings: {} }).keepMs
  if (ms !== null) return expect(keep()).toBe(ms)
  expect(keep).toThrow(`--retention must be a duration of a day or more`)
})

test.each([
  ['10G', 10 * 1024 ** 3],
  ['2T', 2 * 1024 ** 4],
  ['64M', 64 * 1024 ** 2],
  ['63M', null],
  ['10', null],
])('a --disk-budget of %p is %p bytes', (text, bytes) => {
  const disk = () => toServeConfig({ flags: { 'disk-budget': text }, environment: {}, settings: {} }).diskBytes
  if (bytes !== null) return expect(disk()).toBe(bytes)
  expect(disk).toThrow(`--disk-budget must be a size of 64M or more`)
})

test('the dashboard is on unless a flag or the environment says otherwise', () => {
  const read = (flags: Record<string, string>, environment: Record<string, string> = {}) =>
    toServeConfig({ flags, environment, settings: {} }).dashboard
  expect([read({}), read({ dashboard: 'off' }), read({}, { TOLLGATE_DASHBOARD: 'off' })]).toEqual([true, false, false])
})

test.each<[text: string, roles: [value: string, role: string, team: string | null][] | null]>([
  ['admins=owner', [['admins', 'owner', null]]],
  [
    'admins=owner, /dev=editor,research=member:Research Lab',
    [
      ['admins', 'owner', null],
      ['/dev', 'editor', null],
      ['research', 'member', 'Research Lab'],
    ],
  ],
  ['cn=all=viewer', [['cn=all', 'viewer', null]]],
  ['admins', null],
  ['=owner', null],
  ['admins=root', null],
  ['research=member', null],
  ['research=member:', null],
  ['dev=editor:research', null],
  ['dev=editor,dev=viewer', null],
  ['dev=editor,', null],
])('an --oidc-role of %p is %p', (text, roles) => {
  const read = () => toServeConfig({ flags: { 'oidc-role': text }, environment: {}, settings: {} }).oidcRoles
  if (roles !== null)
    return expect(read()).toEqual(roles.map(([value, role, team]) => ({ value, role, team }) as never))
  expect(read).toThrow(`--oidc-role must be value=role pairs with owner, editor, viewer, or member:TEAM`)
})

test.each([
  ['https://login.example.com/realms/ours/', true],
  ['http://127.0.0.1:9000', true],
  ['http://localhost:9000', true],
  ['http://login.example.com', false],
  ['login.example.com', false],
  ['https://login.example.com?tenant=1', false],
  ['javascript:alert(1)', false],
])('an --oidc-issuer of %p is kept as it is: %p', (text, isRight) => {
  const read = () => toServeConfig({ flags: { 'oidc-issuer': text }, environment: {}, settings: {} }).oidcIssuer
  if (isRight) expect(read()).toBe(text)
  else expect(read).toThrow(`(got '${text.replace('?tenant=1', '?***')}')`)
})

test('a password in --cluster is rejected and not repeated; the environment may contain one', () => {
  const url = 'postgres://tollgate:s3cret@db.internal/tollgate'
  const read = (flags: object, environment: object) =>
    toServeConfig({ flags: { ...flags }, environment: { ...environment }, settings: { cluster: url } }).cluster
  expect(() => read({ cluster: url }, {})).toThrow(/TOLLGATE_CLUSTER instead/)
  expect(() => read({ cluster: `${url}?no=such` }, {})).toThrow(/postgres:\/\/\*\*\*@db/)
  expect(read({ cluster: 'postgres://tollgate@a,b:5433/tollgate' }, {})).toBe('postgres://tollgate@a,b:5433/tollgate')
  expect([read({}, { TOLLGATE_CLUSTER: url }), read({ cluster: '/etc/url' }, {}), read({}, {})]).toEqual([
    url,
    '/etc/url',
    null,
  ])
})

test('no row can control sign-in', () => {
  const settings = { 'oidc-issuer': 'https://login.example.com', 'password-sign-in': 'off' }
  expect(toServeConfig({ flags: {}, environment: {}, settings })).toMatchObject({
    ...{ oidcIssuer: null, passwordSignIn: true },
  })
})

test.each(['otlp', 'oidc-issuer', 'cors-origin'])('credentials in --%s are rejected and not repeated', (name) => {
  for (const url of [
    'http://secret@127.0.0.1:4318',
    'http://:secret@127.0.0.1',
    'https://h/?key=secret',
    'https://h/#secret',
  ]) {
    const read = () => toServeConfig({ flags: { [name]: url }, environment: {}, settings: {} })
    expect(read).toThrow('***')
    expect(read).not.toThrow('secret')
  }
})
