/** Allowed addresses of upstreams that are added over the network. */
import { expect, test } from 'bun:test'
import { explainAddress, hostOf } from '../../src/catalog/remote.ts'

const judge = (url: string, local: boolean, addresses: string[] = []) => {
  const problem = explainAddress(url, local, addresses)
  if (problem === null) return 'taken'
  return problem.includes('Mark the upstream as local') ? 'local' : 'never'
}

test("a name that doesn't resolve in time is refused, even if it is local, with the reason", () => {
  for (const local of [false, true]) {
    expect(explainAddress('https://nowhere.example.com/v1', local, 'no_such_name')).toContain('does not resolve')
    expect(explainAddress('https://slow.example.com/v1', local, 'late')).toContain(
      'looking up its host name timed out.',
    )
    expect(explainAddress('https://8.8.8.8/v1', local, 'no_such_name')).toBeNull()
  }
})

test.each([
  ['https://api.openai.com/v1', ['104.18.7.192', '2606:4700::6812:7c0'], 'taken'],
  ['https://8.8.8.8/v1', [], 'taken'],
  ['https://[2606:4700::6812:7c0]/v1', [], 'taken'],
  ['https://known-to-a-proxy.example.com/v1', [], 'taken'],
  ['http://127.0.0.1:11434/v1', [], 'local'],
  ['http://localhost:11434/v1', [], 'local'],
  ['http://LocalHost.:11434/v1', [], 'local'],
  ['http://a.localhost/v1', [], 'local'],
  ['http://[::1]/v1', [], 'local'],
  ['http://[::ffff:127.0.0.1]/v1', [], 'local'],
  ['http://2130706433/v1', [], 'local'],
  ['http://0x7f.1/v1', [], 'local'],
  ['http://0177.0.0.1/v1', [], 'local'],
  ['http://127.1/v1', [], 'local'],
  ['http://１２７.0.0.1/v1', [], 'local'],
  ['http://10.1.2.3/v1', [], 'local'],
  ['http://172.31.255.1/v1', [], 'local'],
  ['http://192.168.0.1/v1', [], 'local'],
  ['http://100.64.0.1/v1', [], 'local'],
  ['http://[fd12::1]/v1', [], 'local'],
  ['http://localhost../v1', [], 'local'],
  ['http://[::ffff:a00:1]/v1', [], 'local'],
  ['http://[2002:a00:1::]/v1', [], 'local'],
  ['http://[64:ff9b::10.0.0.1]/v1', [], 'local'],
  ['http://[64:ff9b:1::8.8.8.8]/v1', [], 'local'],
  ['http://compatible.example.com/v1', ['::10.0.0.1'], 'never'],
  ['http://[::10.0.0.1]/v1', [], 'never'],
  ['http://[::127.0.0.1]/v1', [], 'never'],
  ['http://[::a9fe:a9fe]/v1', [], 'never'],
  ['http://[2001:0:a9fe:a9fe::1]/v1', [], 'never'],
  ['http://[fec0::1]/v1', [], 'never'],
  ['http://metadata.google.internal/v1', [], 'never'],
  ['http://metadata.goog./v1', [], 'never'],
  ['http://inside.example.com/v1', ['93.184.216.34', '10.0.0.1'], 'local'],
  ['http://169.254.169.254/v1', [], 'never'],
  ['http://169.254.169.254./v1', [], 'never'],
  ['http://0xa9fea9fe/v1', [], 'never'],
  ['http://2852039166/v1', [], 'never'],
  ['http://[fe80::1]/v1', [], 'never'],
  ['http://[::ffff:169.254.169.254]/v1', [], 'never'],
  ['http://[64:ff9b::a9fe:a9fe]/v1', [], 'never'],
  ['http://[2002:a9fe:a9fe::1]/v1', [], 'never'],
  ['http://[fd00:ec2::254]/latest', [], 'never'],
  ['http://100.100.100.200/latest', [], 'never'],
  ['http://0.0.0.0:4000/v1', [], 'never'],
  ['http://0/v1', [], 'never'],
  ['http://[::]/v1', [], 'never'],
  ['http://255.255.255.255/v1', [], 'never'],
  ['http://metadata.google.internal/v1', ['169.254.169.254'], 'never'],
  ['http://two.example.com/v1', ['93.184.216.34', 'fe80::1'], 'never'],
  ['http://zone.example.com/v1', ['fe80::1%eth0'], 'never'],
])('%s resolving to %p: %s', (url, addresses, expected) => {
  expect(judge(url, false, addresses)).toBe(expected)
  expect(judge(url, true, addresses)).toBe(expected === 'never' ? 'never' : 'taken')
})

test('the host of a base URL is in the form that a resolver expects', () => {
  expect(['https://Api.Example.com:8443/v1', 'http://[::1]:4/v1', 'http://a.b./v1'].map(hostOf)).toEqual([
    ...['api.example.com', '::1', 'a.b'],
  ])
})
