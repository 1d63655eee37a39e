/** Addresses and names of hosts. */
import { expect, test } from 'bun:test'
import { isIP } from 'node:net'
import { isAddress } from '../../src/domain/address.ts'

test.each([
  ...['127.0.0.1', '0.0.0.0', '255.255.255.255', '10.20.30.199', '::', '::1', 'fe80::1', '::ffff:10.0.0.1'],
  ...['localhost', '', '1', '1.2.3', '1.2.3.', '.1.2.3.4', '1.2.3.4.', '1.2.3.4.5', '1.2.3.256', '300.1.1.1'],
  ...['1.2.3.4.example', 'a1.2.3.4', '1.2.3.x', 'example.com', '4.example'],
])('%p is an address where `node:net` says so', (host) => {
  expect(isAddress(host)).toBe(isIP(host) !== 0)
})
