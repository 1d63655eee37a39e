/** Bodies that cost more to read than to send: which are refused, and which pass. */
import { describe, expect, test } from 'bun:test'
import { HELLO, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { obliging } from '../support/upstream.ts'

const MIB = 1024 ** 2

const gateway = forAllTests(() => startGateway({ script: obliging }))

const withField = (json: string) => `${JSON.stringify(HELLO).slice(0, -1)},"extra":${json}}`

async function* inPieces(text: string) {
  for (let at = 0; at < text.length; at += 100_001) yield Buffer.from(text.slice(at, at + 100_001))
}

const send = (body: string, isChunked = false) =>
  fetch(`${gateway.app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: isChunked ? inPieces(body) : body,
  })

const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
const many = (item: string, count: number) => Array(count).fill(item).join()

const REFUSED: [string, () => string, string][] = [
  ['32 MB of empty lists', () => `[${many('[]', 11 * MIB)}]`.slice(0, 31 * MIB), 'holds more than 64000 values'],
  ['names without end', () => `{${Array.from({ length: 64_001 }, (_, i) => `"n${i}":1`)}}`, 'more than 64000 values'],
  ['many small lists', () => `[${many('0', 64_001)}]`, 'holds more than 64000 values'],
  ['lists in lists', () => nested(256), 'is nested more than 256 levels deep'],
  ['a million lists in lists', () => nested(1_000_000), 'is nested more than 256 levels deep'],
  ['lists that never end', () => '[{"a":'.repeat(50_000), 'is nested more than 256 levels deep'],
  ['a string of escapes alone', () => `"${'\\n'.repeat(1_000_001)}"`, 'holds more than 1000000 escaped characters'],
  ['one long number', () => '1'.repeat(5 * MIB), 'holds more than 4194304 characters outside of its strings'],
]

describe.each([false, true])('in a body, chunked: %p,', (isChunked) => {
  test.each(REFUSED)('%s is too much, and reported', async (_, make, told) => {
    const response = await send(withField(make()), isChunked)
    expect(response.status).toBe(400)
    const { error } = JSON.parse(await response.text())
    expect(error).toMatchObject({ type: 'invalid_request_error', code: null, param: null })
    expect(error.message).toContain('The JSON body of your request ')
    expect(error.message).toContain(told)
  })

  test.each<[string, () => string]>([
    ['as many values as may be', () => `[${many('[]', 63_900)}]`],
    ['as many levels as may be', () => `[${many(nested(200), 200)},${nested(254)}]`],
    ['a string that looks like all of them', () => JSON.stringify(`${nested(100_000)}\\",{"`.repeat(3))],
    ['the largest of strings', () => `"${'[{,}]'.repeat(6 * MIB)}"`],
    ['a string of many letters and escapes', () => JSON.stringify('"é\\u0000\u2028\n😀'.repeat(50_000))],
  ])('%s passes unchanged', async (_, make) => {
    const json = make()
    const response = await send(withField(json), isChunked)
    expect(response.status).toBe(200)
    await response.text()
    const sent = gateway.upstream.requests.at(-1)?.json?.extra
    expect(Bun.hash(JSON.stringify(sent))).toBe(Bun.hash(JSON.stringify(JSON.parse(json))))
  })
})

test('ten large bodies of one key at once delay any other key by one of them at most', async () => {
  const { app } = gateway
  const large = withField(`{${Array.from({ length: 20_000 }, (_, i) => `"n${i}":1`)}}`)
  let read = 0
  const many = Array.from({ length: 10 }, async () => {
    expect((await send(large)).status).toBe(200)
    read++
  })
  const answer = await gateway.chat(
    { extra: '-'.repeat(300_000) },
    { headers: { authorization: `Bearer ${app.key()}` } },
  )
  expect(answer.status).toBe(200)
  expect(read).toBeLessThan(6)
  await Promise.all(many)
})

test('a large request with a call per choice gets all choices', async () => {
  const calls = gateway.upstream.requests.length
  const answer = await gateway.chat({ model: 'acme/single', n: 12, extra: '-'.repeat(2_000_000) })
  expect(JSON.parse(await answer.text()).choices).toHaveLength(12)
  expect(gateway.upstream.requests.length - calls).toBe(12)
})

test('sending a large body once per choice blocks no one', async () => {
  const { app, upstream } = gateway
  const large = { model: 'acme/single', extra: Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [i, 1])) }
  const from = upstream.requests.length
  const asked = [
    gateway.chat({ ...large, n: 8 }),
    gateway.chat(large, { headers: { authorization: `Bearer ${app.key()}` } }),
  ]
  for (const answer of await Promise.all(asked)) expect(await answer.text()).toContain('choices')
  const choices = upstream.requests.slice(from).map(({ headers }) => headers['x-client-request-id']?.split('-')[0])
  expect(choices).toHaveLength(9)
  // The key comes before the call's number: otherwise all calls of one key would come first.
  expect(new Set(choices.slice(0, 8)).size).toBe(2)
})
