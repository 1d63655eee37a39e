/** On every endpoint: keep-alives of an idle stream, and a correct end. */
import { expect, test } from 'bun:test'
import { toEvent } from '../support/anthropic-answers.ts'
import { hear } from '../support/door-clients.ts'
import { COUNTS, type StreamFormat, WORDS } from '../support/door-upstreams.ts'
import { costOf, STREAMING, startDoors } from '../support/doors.ts'
import { forAllTests } from '../support/lifetime.ts'
import type { StreamStep } from '../support/upstream-answers.ts'

const gateway = forAllTests(() => startDoors({ config: { heartbeatMs: 20 } }))
const strict = forAllTests(() => startDoors({ settings: ', deadlines: { first_token: 500ms, idle: 500ms }' }))

/** Reads until the predicate holds for the received text, or until the end. */
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
  "silence of $name has comments before its first token, and later its format's keep-alive",
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
    // The end is sent only once it is recorded.
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

test.each(STREAMING)('silence of $name may end in a failure, which is free', async (door) => {
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

const IMPATIENT = STREAMING.filter(({ client }) => !client.isDear)

function* idling({ idle }: StreamFormat, times = Number.POSITIVE_INFINITY): Generator<StreamStep> {
  for (let number = 0; number < times; number++) {
    yield idle(number)
    yield { waitMs: 20 }
  }
}

test.each(IMPATIENT)("events of $name without content don't extend its first_token deadline", async (door) => {
  await strict.calm(door)
  const { head } = door.stream
  const steps = (function* () {
    yield* head(COUNTS)
    yield* idling(door.stream)
  })()
  strict.near.script({ kind: 'stream', steps, end: 'hang' })
  const response = await strict.ask(door, { stream: true })
  expect({ status: response.status, text: await response.text() }).toEqual({
    status: 504,
    text: expect.stringContaining('first_token timeout (0.5 s)'),
  })
  expect((await strict.rows(1))[0]).toMatchObject({ status: 'failed', error_code: 'upstream_timeout' })
})

const THOUGHTS: Readonly<Record<string, StreamStep>> = {
  messages: toEvent({ type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } }),
  responses: toEvent({
    type: 'response.output_item.added',
    output_index: 0,
    item: { id: 'rs_up', type: 'reasoning', summary: [] },
  }),
}

test.each(
  STREAMING.flatMap((door) => {
    const thought = THOUGHTS[door.id.split('-')[1] ?? '']
    return thought ? [{ ...door, thought }] : []
  }),
)('a model of $name that thinks where nobody reads it takes longer than that', async (door) => {
  await strict.calm(door)
  const { head, word, tail, end } = door.stream
  const [opening, ...begun] = head(COUNTS)
  const steps = [
    ...[opening ?? '', door.thought, ...idling(door.stream, 50)],
    ...[...begun, ...WORDS.map(word), ...tail(WORDS, COUNTS)],
  ]
  strict.near.script({ kind: 'stream', steps, end })
  const text = await (await strict.ask(door, { stream: true })).text()
  expect(hear(door.client, text)).toMatchObject({ end: 'whole', text: WORDS.join('') })
})
