/** Which responses of the admin API are compressed. */
import { expect, test } from 'bun:test'
import { compress } from '../../src/admin/compress.ts'

const asked = (method = 'GET', accepted = 'gzip, br') =>
  new Request('http://gateway/admin/api/keys', { method, headers: { 'accept-encoding': accepted } })
const large = JSON.stringify({ keys: 'ann '.repeat(5_000) })
const json = (text: string, status = 200) =>
  new Response(text, { status, headers: { 'content-type': 'application/json', 'set-cookie': 'a=1' } })
const csv = () => new Response(large, { headers: { 'content-type': 'text/csv; charset=utf-8' } })
const encodingOf = ({ headers }: Response) => headers.get('content-encoding')

test('large documents and exports are, and arrive complete', async () => {
  for (const response of [json(large), csv()]) {
    const packed = await compress(asked(), response)
    expect([encodingOf(packed), packed.headers.get('vary')]).toEqual(['gzip', 'accept-encoding'])
    const bytes = new Uint8Array(await packed.arrayBuffer())
    expect(bytes.length).toBeLessThan(large.length / 10)
    expect(new TextDecoder().decode(Bun.gunzipSync(bytes))).toBe(large)
  }
})

test('small ones, errors, streams, and responses to changes, which may contain a secret, are not', async () => {
  const stream = new Response(large, { headers: { 'content-type': 'text/event-stream' } })
  const all = [
    await compress(asked(), json('{}')),
    await compress(asked(), json(large, 400)),
    await compress(asked(), stream),
    await compress(asked('POST'), json(large)),
    await compress(asked('GET', 'gzip;q=0'), json(large)),
  ]
  expect(all.map(encodingOf)).toEqual([null, null, null, null, null])
  expect(await all[0]?.text()).toBe('{}')
  expect(all[0]?.headers.get('set-cookie')).toBe('a=1')
})
