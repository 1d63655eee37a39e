/** Calls as providers count them, for each store of the ledger. */
import { expect, test } from 'bun:test'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { HOUR, settling, since, toCall, toOpen, toSettled, toSettledCall } from './fixture.ts'
import { overStores } from './stores.ts'

overStores((folder) => {
  test('each call counts once, for its upstream, and those with an error are named', async () => {
    const [one, two] = [toOpen({ createdMs: HOUR }), toOpen({ createdMs: HOUR + 86_400_000 })]
    const failed = toSettledCall(toCall(two, 1, { upstream: 'paid', upstreamModel: 'large-v1', reason: 'first' }), {
      ...{ status: 'failed', httpStatus: 503, errorCode: 'upstream_failed', costNanoUsd: 0 },
      ...{ promptTokens: 0, completionTokens: 0, cachedTokens: 0, reasoningTokens: 0 },
    })
    createLedgerWriter(folder.database).apply([
      settling(toSettled(one, { costNanoUsd: 5 })),
      settling(toSettled(two, { attempts: 2, costNanoUsd: 200 }), [failed, toSettledCall(toCall(two, 2))]),
    ])
    const { calls } = await folder.readers()
    const sums = (await Array.fromAsync(calls.sums(since(HOUR), ['paid', 'spare']))).flat()
    const day = HOUR - (HOUR % 86_400_000)
    expect(sums).toMatchObject([
      { dayMs: day, upstream: 'paid', model: 'acme/large', requests: 1, failed: 0, costNanoUsd: 5, promptTokens: 11 },
      { dayMs: day + 86_400_000, upstream: 'paid', requests: 0, failed: 1, costNanoUsd: 0 },
      { dayMs: day + 86_400_000, upstream: 'spare', requests: 1, failed: 0, costNanoUsd: 200, promptTokens: 5 },
    ])
    const refs = (models: string[] | null) => calls.refs(since(HOUR), ['paid', 'spare'], { models, limit: 10 })
    expect(await refs(null)).toMatchObject([{ id: two.id, upstream: 'paid', errorCode: 'upstream_failed' }])
    expect((await refs(['large-v1'])).map(({ id }) => id)).toEqual([one.id, two.id])
    expect(await calls.keptFromMs()).toBe(0)
  })
})
