/**
 * On every endpoint: the next upstream, of any format, takes over before the first token; nothing of the first is read or billed. If a call
 * may be charged once it has begun, only an error that the upstream reports leads to another upstream.
 */
import { describe, expect, test } from 'bun:test'
import { hear } from '../support/door-clients.ts'
import { answering, COUNTS, failing } from '../support/door-upstreams.ts'
import { acrossOf, costOf, DOORS, type Door, type Route, startDoors, writes } from '../support/doors.ts'
import { forAllTests } from '../support/lifetime.ts'
import type { Behaviour } from '../support/upstream-answers.ts'

const gateway = forAllTests(startDoors)

const WAYS = DOORS.flatMap((door) => {
  const across = acrossOf(door)
  const same = { name: door.name, door, to: door, route: 'both' as Route }
  return across
    ? [same, { name: `${door.name}, to ${across.name}`, door, to: across, route: 'across' as Route }]
    : [same]
})

interface Failure {
  name: string
  said: Behaviour
  stream: boolean
  /** The upstream reports its failure, so it charges nothing. */
  isSaid?: boolean
}

const isStated = ({ said, isSaid }: Failure) => isSaid || 'status' in said
const isMadeGood = (door: Door) => (failure: Failure) => !door.client.isDear || isStated(failure)

function toFailures({ upstream: { stream } }: Door): Failure[] {
  const ways = stream ? [false, true] : [false]
  const either: Record<string, Behaviour> = {
    'answers 500': failing(500),
    'has too much to do': failing(529),
    'closes the connection': { kind: 'reset' },
    'answers what is no answer': { kind: 'whole', body: '<h1>Welcome</h1>' },
  }
  const failures = Object.entries(either).flatMap(([name, said]) => ways.map((stream) => ({ name, said, stream })))
  if (!stream) return failures
  const head = stream.head(COUNTS)
  return [
    ...failures,
    { name: 'ends behind its head', said: { kind: 'stream', steps: head, end: 'eof' }, stream: true },
    { name: 'breaks off behind its head', said: { kind: 'stream', steps: head, end: 'cut' }, stream: true },
    {
      name: 'says an error',
      said: { kind: 'stream', steps: [...head, stream.failure('it broke')], end: 'eof' },
      ...{ stream: true, isSaid: true },
    },
  ]
}

describe.each(WAYS)('$name', ({ door, to, route }) => {
  const { client } = door
  const words = ['this ', 'is ', 'far']
  const counts = { prompt: 20, completion: 3 }

  test.each(toFailures(door).filter(isMadeGood(door)))(
    'an upstream that $name is replaced by another, stream: $stream',
    async ({ said, stream }) => {
      await gateway.calm(door)
      gateway.near.script(said)
      gateway.far.script(answering(to.upstream, words, counts))
      const calls = gateway.far.requests.length
      const response = await gateway.ask(door, { route, stream })
      const text = await response.text()
      expect({ status: response.status, text }).toMatchObject({ status: 200 })
      const told = stream ? hear(client, text) : client.whole(text)
      expect(told.text).toBe(writes(door) ? words.join('') : null)
      if (to.lane === 'translated') stream ? client.check.stream(text) : client.check.whole(text)
      expect(Object.fromEntries(response.headers)).toMatchObject({
        ...{
          'x-tollgate-upstream': `${to.id}-far`,
          'x-tollgate-attempts': '2',
          'x-tollgate-passthrough': String(to.lane === 'native'),
        },
      })
      expect(gateway.far.requests.length).toBe(calls + 1)
      const completion = writes(door) ? counts.completion : 0
      expect((await gateway.rows(1))[0]).toMatchObject({
        ...{ status: 'ok', endpoint: client.endpoint, lane: to.lane, upstream: `${to.id}-far`, attempts: 2 },
        ...{ prompt_tokens: counts.prompt, completion_tokens: completion, estimated: 0 },
        cost_nano_usd: costOf(counts.prompt, completion),
      })
    },
  )
})

const DEAR = DOORS.filter(({ client }) => client.isDear).flatMap((door) =>
  toFailures(door).flatMap((failure) => (isStated(failure) ? [] : [{ ...failure, door, at: door.name }])),
)

test.each(DEAR)(
  'at $at, no other upstream is tried after one that $name, stream: $stream',
  async ({ door, said, stream }) => {
    await gateway.calm(door)
    gateway.near.script(said)
    const calls = gateway.far.requests.length
    const text = await (await gateway.ask(door, { route: 'both', stream })).text()
    expect(text).toContain('"error"')
    expect(gateway.far.requests.length).toBe(calls)
    expect((await gateway.rows(1))[0]).toMatchObject({ status: 'failed', upstream: door.id, attempts: 1 })
  },
)
