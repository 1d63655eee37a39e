/** On every endpoint: a client disconnect frees the slot at once, and the upstream is read to its end for billing. */
import { describe, expect, test } from 'bun:test'
import { hear } from '../support/door-clients.ts'
import { answering, answeringAfter, COUNTS, WORDS } from '../support/door-upstreams.ts'
import {
  costOf,
  DOORS,
  type Door,
  type DoorGateway,
  ownCountOf,
  STREAMING,
  startDoors,
  writes,
} from '../support/doors.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import type { Script, Seen } from '../support/upstream.ts'

const gateway = forAllTests(() => startDoors({ config: { disconnectGraceMs: 60_000 } }))

/** Marks requests that only probe whether a key's one slot is free. */
const PROBE = 'Is there room?'

const gone = ({ client, lane }: Door) => ({
  ...{ status: 'cut', error_code: 'client_closed_request', endpoint: client.endpoint, lane },
})

const play = (door: Door, script: Script) =>
  gateway.near.script((seen) => {
    if (seen.body.includes(PROBE)) return answering(door.upstream)(seen)
    return typeof script === 'function' ? script(seen) : script
  })

const isProbe = ({ body }: Seen) => body.includes(PROBE)

/** Waits until the gateway notices the disconnect of a key with one slot. */
const noticed = (door: Door, key: string) =>
  until('the free slot', async () => (await gateway.ask(door, { key, text: PROBE })).status === 200)

const rowOfGone = async () => (await gateway.rows(2)).find(({ status }) => status === 'cut')

describe.each(DOORS)('a client that disconnects from $name', (door) => {
  test('before a whole response pays for its usage, and nothing waits for it', async () => {
    await gateway.calm(door)
    const { promise, resolve } = Promise.withResolvers<void>()
    play(door, answeringAfter(promise, answering(door.upstream)))
    const calls = gateway.near.requests.length
    const key = gateway.app.key({ concurrency: 1 })
    const client = new AbortController()
    const asking = gateway.ask(door, { key, signal: client.signal })
    await gateway.near.waitFor((seen) => seen.length === calls + 1, 'the call')
    client.abort()
    await expect(asking).rejects.toThrow()
    await noticed(door, key)
    expect(gateway.near.requests[calls]).toMatchObject({ abortedAtMs: null, answeredAtMs: null })
    resolve()
    const completion = writes(door) ? COUNTS.completion : 0
    expect(await rowOfGone()).toMatchObject({
      ...{
        ...gone(door),
        http_status: 499,
        stream: Number(door.client.isBytes ?? false),
        estimated: 0,
        prompt_tokens: COUNTS.prompt,
      },
      ...{ completion_tokens: completion, cost_nano_usd: costOf(COUNTS.prompt, completion) },
    })
  })
})

async function leaveWithin(door: (typeof STREAMING)[number], at: DoorGateway, key: string, end: Promise<void>) {
  const { stream } = door
  const words = WORDS.map(stream.word)
  const last = [{ until: end }, ...stream.tail(WORDS, COUNTS)]
  const client = new AbortController()
  at.near.script((seen) =>
    isProbe(seen)
      ? answering(door.upstream)(seen)
      : { kind: 'stream', steps: [...stream.head(COUNTS), ...words, ...last], end: stream.end },
  )
  const response = await at.ask(door, { key, stream: true, signal: client.signal })
  const reader = response.body?.getReader()
  let text = ''
  while (!hear(door.client, text).text?.includes('two ')) {
    const next = await reader?.read()
    if (!next || next.done) throw new Error(`the stream ended with ${text}`)
    text += new TextDecoder().decode(next.value)
  }
  client.abort()
}

describe.each(STREAMING)('a client that disconnects from $name', (door) => {
  test('within a stream pays for all that was used', async () => {
    await gateway.calm(door)
    const { promise, resolve } = Promise.withResolvers<void>()
    const key = gateway.app.key({ concurrency: 1 })
    await leaveWithin(door, gateway, key, promise)
    await noticed(door, key)
    resolve()
    expect(await rowOfGone()).toMatchObject({
      ...{ ...gone(door), http_status: 200, stream: 1, estimated: 0, prompt_tokens: COUNTS.prompt },
      ...{ completion_tokens: COUNTS.completion, cost_nano_usd: costOf(COUNTS.prompt, COUNTS.completion) },
    })
  })
})

describe('without a disconnect grace', () => {
  const brief = forAllTests(startDoors)

  test.each(STREAMING)(
    'a client that disconnects from $name pays for what was seen, and its upstream is released',
    async (door) => {
      await brief.calm(door)
      await leaveWithin(door, brief, brief.app.key(), new Promise(() => {}))
      await brief.near.waitFor((seen) => seen.at(-1)?.abortedAtMs !== null, 'the end of the call')
      const { prompt, completion } = ownCountOf(door)
      expect((await brief.rows(1))[0]).toMatchObject({
        ...{ ...gone(door), http_status: 200, estimated: 1, prompt_tokens: prompt, completion_tokens: completion },
        cost_nano_usd: costOf(prompt, completion),
      })
    },
  )
})
