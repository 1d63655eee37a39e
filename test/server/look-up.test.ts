/** Names of hosts that upstreams are set up at. */
import { expect, test } from 'bun:test'
import { createLookUp } from '../../src/server/look-up.ts'

const failing = (code: string) => async () => {
  throw Object.assign(new Error('getaddrinfo'), { code })
}
const silent = () => new Promise<never>(() => {})

test('a name leads where the system says', async () => {
  expect(await createLookUp({ isProxied: false })('127.0.0.1')).toEqual(['127.0.0.1'])
})

test('a name that is none leads nowhere; where nobody says so, that is not known, unless a proxy is to know it', async () => {
  const found = (resolve: () => Promise<string[]>, isProxied = false) =>
    createLookUp({ isProxied, resolve, waitMs: 1 })('slow.example.com')
  expect(await found(failing('ENOTFOUND'))).toEqual([])
  for (const resolve of [silent, failing('EAI_AGAIN'), failing('ESERVFAIL')]) {
    expect(await found(resolve)).toBeNull()
    expect(await found(resolve, true)).toEqual([])
  }
})
