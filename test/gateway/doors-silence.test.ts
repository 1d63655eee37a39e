/** Through every door: a stream that is long silent lives, in the words of its format, and is honest about how it ends. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { hear } from '../support/door-clients.ts'
import { COUNTS, WORDS } from '../support/door-upstreams.ts'
import { costOf, type DoorGateway, STREAMING, startDoors } from '../support/doors.ts'

let gateway: DoorGateway
beforeAll(async () => {
  gateway = await startDoors({ config: { heartbeatMs: 20 } })
})
afterAll(() => gateway.stop())

/** Gives what reads on until what came says so, or until the end. */
function createReading({ body }: Response): (isThere?: (text: string) => boolean) => Promise<string> {
  const reader = body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  return async (isThere = () => false) => {
    while (!isThere(text)) {
      const next = await reader?.read()
      if (!next || next.done) break
      text += decoder.decode(next.value, { stream: true })
    }
    return text
  }
}

test.each(STREAMING)(
  'a silence of $name has comments before its first word, and behind it what its clients know',
  async (door) => {
    await gateway.calm(door)
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { stream, client } = door
    const tail = stream.tail(WORDS, COUNTS)
    gateway.near.script({
      kind: 'stream',
      steps: [
        ...stream.head(COUNTS),
        { until: first.promise },
        ...WORDS.map(stream.word),
        ...tail.slice(0, -1),
        { until: second.promise },
        ...tail.slice(-1),
      ],
      end: stream.end,
    })
    const readOn = createReading(await gateway.ask(door, { stream: true }))
    await readOn((text) => hear(client, text).beats.before > 1)
    first.resolve()
    const soFar = await readOn((text) => hear(client, text).beats.after > 1)
    // What tells of the end is not said before that is on record, though most of it has come.
    expect(hear(client, soFar)).toMatchObject({ text: WORDS.join(''), looksWhole: false })
    second.resolve()
    const text = await readOn()
    if (door.lane === 'translated') client.check.stream(text)
    expect(hear(client, text)).toMatchObject({ end: 'whole', text: WORDS.join('') })
    expect((await gateway.rows(1))[0]).toMatchObject({
      status: 'ok',
      cost_nano_usd: costOf(COUNTS.prompt, COUNTS.completion),
    })
  },
)

test.each(STREAMING)('a silence of $name may end in a failure, which costs nothing', async (door) => {
  await gateway.calm(door)
  const { promise, resolve } = Promise.withResolvers<void>()
  gateway.near.script({
    ...{ kind: 'stream', status: 500, steps: [JSON.stringify({ error: { message: 'no' } })], end: 'eof' },
    after: promise,
  })
  const readOn = createReading(await gateway.ask(door, { stream: true }))
  await readOn((text) => hear(door.client, text).beats.before > 0)
  resolve()
  const text = await readOn()
  if (door.lane === 'translated') door.client.check.stream(text)
  expect(hear(door.client, text)).toMatchObject({ end: 'failure', looksWhole: false, text: '' })
  expect((await gateway.rows(1))[0]).toMatchObject({
    ...{ status: 'failed', http_status: 200, error_code: 'upstream_failed', cost_nano_usd: 0 },
  })
})
