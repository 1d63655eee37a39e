/** Finding requests: page by page, by filters, by any ID, and always in bounded time. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { mintId } from '../../src/domain/id.ts'
import { findRequest, type ListOptions, listRequests } from '../../src/ledger/requests.ts'
import type { OpenRow, Outcome } from '../../src/store/ledger-rows.ts'
import { isWanted, type RequestFilter } from '../../src/store/report-store.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { pruneSlice } from '../../src/store/sqlite/prune.ts'
import { HOUR, opening, settling, toCall, toOpen, toSettled, toSettledCall } from './fixture.ts'
import { overStores } from './stores.ts'

/** IDs whose first digits encode their time. */
const toId = (at: number, end: string) => (HOUR + at).toString(16).padStart(12, '0') + end.padStart(20, '0')

const ROWS: Partial<OpenRow & Outcome>[] = [
  { keyId: 'key-b', model: 'acme/large' },
  { teamId: 'team-a', model: 'acme/[x]?' },
  { model: 'other/large', upstream: 'spare', status: 'failed', errorCode: 'upstream_timeout' },
  { user: 'ada', status: 'cut', endpoint: 'messages' },
]

overStores((folder) => {
  const put = (...rows: Partial<OpenRow & Outcome>[]) => {
    const settled = rows.map((fields, at) => {
      const { createdMs = HOUR + at, id = toId(at, `${at}`) } = fields
      return toSettled(toOpen({ createdMs, id }), { ...fields, createdMs, id })
    })
    createLedgerWriter(folder.database).apply(settled.map((row) => settling(row)))
    return settled
  }

  const list = async (options: Partial<ListOptions> = {}, most?: number) => {
    const page = await listRequests((await folder.readers()).requests, { limit: 50, ...options }, most)
    return { ...page, requests: page.requests.map(({ id }) => Number(id.slice(-4))) }
  }

  describe('pages', () => {
    test('have every request once, newest first, and the last one is marked', async () => {
      put(...Array.from({ length: 7 }, () => ({})))
      const seen: number[][] = []
      let before: string | null = null
      do {
        const page: Awaited<ReturnType<typeof list>> = await list({ limit: 3, ...(before === null ? {} : { before }) })
        seen.push(page.requests)
        before = page.next
      } while (before !== null)
      expect(seen).toEqual([[6, 5, 4], [3, 2, 1], [0]])
    })

    test('end at a limit, say so, and the next one continues from there', async () => {
      put({ user: 'ada' }, ...Array.from({ length: 9 }, () => ({})))
      const first = await list({ user: 'ada' }, 6)
      expect(first).toEqual({ requests: [], next: toId(4, '4'), stoppedAfter: 6 })
      expect(await list({ user: 'ada', before: first.next ?? '' }, 6)).toEqual({
        requests: [0],
        next: null,
        stoppedAfter: null,
      })
    })

    test("are of a period by the requests' creation, whose IDs may be slightly ahead", async () => {
      put({ createdMs: HOUR - 1, id: toId(5, '1') }, { createdMs: HOUR, id: toId(0, '2') }, { createdMs: HOUR + 5 })
      expect((await list({ sinceMs: HOUR, untilMs: HOUR + 5 })).requests).toEqual([2])
      expect((await list({ untilMs: HOUR })).requests).toEqual([1])
    })

    test.each([
      ['limit', { limit: 0 }],
      ['limit', { limit: 1.5 }],
      ['before', { before: '0193' }],
    ])('refuse a wrong %s', (field, options) =>
      expect(list(options)).rejects.toMatchObject({ failure: { kind: 'invalid', field } }),
    )
  })

  test.each<[RequestFilter, number[]]>([
    [{}, [3, 2, 1, 0]],
    [{ keyId: 'key-b' }, [0]],
    [{ teamId: 'team-a' }, [1]],
    [{ model: 'acme/*' }, [3, 1, 0]],
    [{ model: '*large' }, [3, 2, 0]],
    [{ model: 'acme/[x]?' }, [1]],
    [{ model: 'acme/x?' }, []],
    [{ upstream: 'spare' }, [2]],
    [{ statuses: ['failed', 'cut'] }, [3, 2]],
    [{ endpoint: 'messages' }, [3]],
    [{ user: 'ada' }, [3]],
    [{ user: 'ada', statuses: ['ok'] }, []],
    [{ errorCode: 'upstream_timeout' }, [2]],
  ])('the filter %j finds what it names, on record as in passing', async (filter, wanted) => {
    const rows = put(...ROWS)
    expect((await list(filter)).requests).toEqual(wanted)
    expect(rows.flatMap((row, at) => (isWanted(row, filter) ? at : [])).reverse()).toEqual(wanted)
  })

  describe('a request', () => {
    const id = '0193a1b2c3d47e5f8a9b0c1d2e3f4a5b'
    const other = '0193a1b2ffff7e5f8a9b0c1d2e3f0000'
    /** The upstream's ID of the last call; it has as many digits as ours. */
    const OF_OPENAI = `req_${'c0ffee00'.repeat(4)}`
    beforeEach(() => {
      put({ id: other })
      const row = toSettled(toOpen({ id }), { upstreamRequestId: OF_OPENAI, attempts: 2 })
      const calls = ['req-of-acme', OF_OPENAI].map((upstreamRequestId, at) =>
        toSettledCall(toCall(row, at + 1), { upstreamRequestId }),
      )
      createLedgerWriter(folder.database).apply([settling(row, calls)])
    })

    test.each([
      id,
      id.toUpperCase(),
      `chatcmpl-${id}`,
      `resp_${id}`,
      `fc_${id}_1`,
      ` req_${id}\n`,
      `${id}-2`,
      '2e3f4a5b',
      '4a5b',
      '0193a1b2c3',
      'req_0193a1b2c',
      'req-of-acme',
      OF_OPENAI,
    ])('is found by %j', async (text) =>
      expect((await findRequest((await folder.readers()).requests, text)).id).toBe(id),
    )

    test('is found while it is open', async () => {
      const row = toOpen()
      createLedgerWriter(folder.database).apply([opening(row)])
      expect(await findRequest((await folder.readers()).requests, row.id)).toMatchObject({ id: row.id, status: 'open' })
    })

    test('that is unknown is distinguished from an ambiguous ID', async () => {
      const failing = async (text: string, most?: number) =>
        findRequest((await folder.readers()).requests, text, most).catch(({ message }) => message)
      const unknown = 'f'.repeat(32)
      expect(await failing(unknown)).toBe(`Request '${unknown}' not found.`)
      expect(await failing('ffff')).toBe(`Request 'ffff' not found.`)
      expect(await failing('of-acme')).toBe(`Request 'of-acme' not found.`)
      expect(await failing('0193a1b2')).toBe(`'0193a1b2' matches several requests: ${id}, ${other}.`)
    })

    test('older than retention is reported as deleted, by the time in its ID; for a partial ID, the retention is reported', async () => {
      put({})
      const untilMs = HOUR + 3_600_000
      await folder.ship()
      pruneSlice(folder.database, { untilMs, after: '', limit: 10, spared: [] }, untilMs)
      const failure = async (text: string) => {
        const { failure, message } = await findRequest((await folder.readers()).requests, text).catch((error) => error)
        return [failure.kind, message]
      }
      const old = mintId(HOUR + 5)
      const what = `Request 'req_${old}' is no longer kept: its ID dates from 2026-11-21T12:00:00.005Z, and requests`
      expect(await failure(`req_${old}`)).toEqual([
        'request_removed',
        `${what} before 2026-11-21T13:00:00.000Z were removed, as set by \`serve --retention\`.`,
      ])
      expect(await failure(mintId(untilMs))).toEqual(['request_not_found', expect.stringMatching(/not found\.$/)])
      expect(await failure('ffff')).toEqual([
        'request_not_found',
        expect.stringContaining('requests before 2026-11-21T13:00'),
      ])
    })

    test('search is bounded, and reports the part that was not searched', async () => {
      const { message } = await findRequest((await folder.readers()).requests, '4a5b', 1).catch((error) => error)
      expect(message).toBe(`Request '4a5b' not found among the newest 1; for an older one, use the full ID.`)
    })
  })
})
