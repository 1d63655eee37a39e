/** Names of hosts that upstreams are set up at. */
import { expect, test } from 'bun:test'
import { createLookUp } from '../../src/server/outward/look-up.ts'

const failing = (code: string) => async () => {
  throw Object.assign(new Error('getaddrinfo'), { code })
}
const silent = () => new Promise<never>(() => {})

test('a name leads where the system says', async () => {
  expect(await createLookUp({ isProxied: false })('127.0.0.1')).toEqual(['127.0.0.1'])
})

test('a name that does not resolve is told from one that was not looked up in time, unless a proxy is to know it', async () => {
  const found = (resolve: () => Promise<string[]>, isProxied = false) =>
    createLookUp({ isProxied, resolve, waitMs: 1 })('slow.example.com')
  const none = [failing('ENOTFOUND'), async () => []]
  const late = [silent, failing('EAI_AGAIN'), failing('ESERVFAIL')]
  for (const resolve of none) expect(await found(resolve)).toBe('no_such_name')
  for (const resolve of late) expect(await found(resolve)).toBe('late')
  for (const resolve of [...none, ...late]) expect(await found(resolve, true)).toEqual([])
})
