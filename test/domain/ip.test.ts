/** IP addresses and ranges: which are valid, their stored form, and which contain an address. */
import { describe, expect, test } from 'bun:test'
import { BlockList, isIP } from 'node:net'
import fc from 'fast-check'
import { isAddress, isIn, toIp, toIpRange, toIpRangeText, toIpText } from '../../src/domain/ip.ts'

const read = (text: string): string => {
  const range = toIpRange(text)
  return 'problem' in range ? range.problem : toIpRangeText(range)
}

test.each([
  ['10.0.0.0/8', '10.0.0.0/8'],
  ['203.0.113.7', '203.0.113.7'],
  ['203.0.113.7/32', '203.0.113.7'],
  ['0.0.0.0/0', '0.0.0.0/0'],
  ['2001:DB8:0:0:0:0:0:0/32', '2001:db8::/32'],
  ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['::/0', '::/0'],
  ['::1/128', '::1'],
  ['::ffff:10.0.0.1', '10.0.0.1'],
  ['::FFFF:0a00:0/104', '10.0.0.0/8'],
  ['::ffff:0:0/96', '0.0.0.0/0'],
])('%p is stored as %p', (text, form) => expect(read(text)).toBe(form))

test.each([
  ['10.1.2.3/8', 'has bits set after its prefix: use 10.0.0.0/8, or 10.1.2.3 for that one address'],
  ['2001:db8::1/32', 'has bits set after its prefix: use 2001:db8::/32, or 2001:db8::1 for that one address'],
  ['10.0.0.0/33', 'has an invalid prefix: use 10.0.0.0/N with N from 0 to 32, or only the address'],
  ['::/129', 'has an invalid prefix: use ::/N with N from 0 to 128, or only the address'],
  // The range would be IPv4 in part only.
  ['::ffff:0:0/95', 'has an invalid prefix: use 0.0.0.0/N with N from 0 to 32, or only the address'],
])('%p %s', (text, problem) => expect(read(text)).toBe(problem))

test.each([
  ...['', '/', '/8', '10/8', '10.0.0/24', '127.1', '010.0.0.1', '1.2.3.256', '1.2.3.4.5', '0x7f.0.0.1', '2130706433'],
  ...['10.0.0.0/', '10.0.0.0/-1', '10.0.0.0/ 8', '10.0.0.0/8/8', ' 10.0.0.0', '10.0.0.1:80', '10.0.0.0-10.0.0.9'],
  ...[':', ':::', '1::2::3', '[::1]', '::1%eth0', 'fe80::g', '1:2:3:4:5:6:7:8:9', '::1]/@[::1', 'example.com', '*'],
])('%p is not a range', (text) =>
  expect(read(text)).toBe('must be an IP address or CIDR range, e.g. 203.0.113.7, 10.0.0.0/8, or 2001:db8::/32'),
)

describe('an address', () => {
  const group = fc.oneof(fc.constant(0), fc.constant(0xffff), fc.integer({ min: 0, max: 0xffff }))
  const ip = fc.oneof(
    fc.array(group, { minLength: 2, maxLength: 2 }),
    fc
      .array(group, { minLength: 8, maxLength: 8 })
      .filter((groups) => toIp(groups.map((one) => one.toString(16)).join(':'))?.length === 8),
  )

  test('is written back unchanged', () => {
    fc.assert(fc.property(ip, (one) => expect(toIp(toIpText(one))).toEqual([...one])))
  })

  test('is in a range if `node:net` agrees, but IPv4 is never in an IPv6 range', () => {
    const near = fc.tuple(ip, fc.nat(127), fc.nat(128)).map(([one, flipped, bits]) => {
      const other = one.map((part, i) => (i === flipped >> 4 ? part ^ (0x8000 >> (flipped & 15)) : part))
      return { one, other, bits: Math.min(bits, one.length * 16) }
    })
    fc.assert(
      fc.property(near, ip, ({ one, other, bits }, far) => {
        const first = one.map((part, i) => part & (0xffff & ~(0xffff >> Math.min(16, Math.max(0, bits - i * 16)))))
        const list = new BlockList()
        const version = (of: readonly number[]) => (of.length === 2 ? 'ipv4' : 'ipv6')
        list.addSubnet(toIpText(first), bits, version(first))
        for (const asked of [one, other, far]) {
          const expected = asked.length === first.length && list.check(toIpText(asked), version(asked))
          expect(isIn({ first, bits }, asked)).toBe(expected)
        }
      }),
    )
  })
})

test.each([
  ...['127.0.0.1', '0.0.0.0', '255.255.255.255', '10.20.30.199', '::', '::1', 'fe80::1', '::ffff:10.0.0.1'],
  ...['localhost', '', '1', '1.2.3', '1.2.3.', '.1.2.3.4', '1.2.3.4.', '1.2.3.4.5', '1.2.3.256', '300.1.1.1'],
  ...['1.2.3.4.example', 'a1.2.3.4', '1.2.3.x', 'example.com', '4.example'],
])('%p is an address if `node:net` agrees', (host) => {
  expect(isAddress(host)).toBe(isIP(host) !== 0)
})
