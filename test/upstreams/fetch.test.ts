/** Limits specific to `fetch`: its number of concurrent requests. */
import { expect, test } from 'bun:test'
import { createFetchTransport } from '../../src/upstreams/fetch.ts'
import { toOutgoing } from '../support/outgoing.ts'
import { startUpstream } from '../support/upstream.ts'
import { streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'

test("beyond the limit, a request fails at once, as a limit of Tollgate's; every ended request frees its slot", async () => {
  const upstream = await startUpstream()
  const transport = createFetchTransport(1)
  const outgoing = toOutgoing(upstream.url)
  const send = () => transport.send(outgoing)
  const isFull = async () => {
    const exchange = send()
    try {
      ;(await exchange.answer).cancel()
      return false
    } catch (error) {
      expect(error).toMatchObject({ status: 429, isOwnLimit: true, retryable: true })
      return true
    }
  }
  const ends: Record<string, () => Promise<unknown>> = {
    read: async () => (await send().answer).text(10_000, () => null),
    cancelled: async () => (await send().answer).cancel(),
    'aborted before its answer': async () => {
      upstream.script({ kind: 'silent' })
      const exchange = send()
      expect(await isFull()).toBe(true)
      exchange.abort(new Error('enough'))
      await exchange.answer.catch(() => {})
    },
    'aborted within it': async () => {
      upstream.script(streamAnswer({ end: 'hang' }))
      const exchange = send()
      const pumped = (await exchange.answer).pump({ takeBytes: () => true })
      expect(await isFull()).toBe(true)
      exchange.abort(new Error('enough'))
      await pumped.catch(() => {})
    },
    broken: async () => {
      upstream.script({ kind: 'reset' })
      await send().answer.catch(() => {})
    },
  }
  for (const [how, end] of Object.entries(ends)) {
    upstream.script(wholeAnswer())
    await end()
    upstream.script(wholeAnswer())
    expect(`${how}: ${await isFull()}`).toBe(`${how}: false`)
  }
  await upstream.stop()
})
