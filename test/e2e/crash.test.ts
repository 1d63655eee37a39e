/**
 * Promise 2 on the built binary, through every endpoint: SIGKILL at random moments loses no usage.
 * `test/long/crash.test.ts` plays many rounds, also with a locked database and a full disk.
 */
import { describe, expect, test } from 'bun:test'
import { createWorkplace } from '../support/binary.ts'
import { STREAMING, toDoorCatalogue } from '../support/doors.ts'
import { startUpstream } from '../support/upstream.ts'
import { toDelta } from '../support/upstream-answers.ts'
import { killUnderLoad } from './crash-rounds.ts'

const LIMIT_MS = 60_000
const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000)

describe(`a server that is killed (CRASH_SEED=${SEED})`, () => {
  test(
    'has a right row for every complete answer and every dispatched request',
    async () => {
      const { answers } = await killUnderLoad(SEED, 1)
      expect(answers).toBeGreaterThan(10)
    },
    LIMIT_MS,
  )
})

test(
  'a stream that was killed costs what it had written, and its budget knows',
  async () => {
    const words = 200
    const word = 'token '.repeat(64)
    function* steps() {
      for (let at = 0; at < words; at++) {
        yield toDelta({ content: word })
        yield { waitMs: 1 }
      }
    }
    const upstream = await startUpstream(() => ({ kind: 'stream', steps: steps(), end: 'hang' }))
    const place = createWorkplace()
    try {
      const catalog = await place.write(
        'catalog.yaml',
        toDoorCatalogue({ near: upstream.url, far: upstream.url, most: 90_000 }),
      )
      const serve = () =>
        place.serve(['--catalog', catalog, '--probe', 'off'], { environment: { UPSTREAM_KEY: 'its credential' } })
      const server = await serve()
      const json = async (...argv: string[]) => JSON.parse((await place.run(...argv, '--json')).stdout)
      const { key } = await json('keys', 'create', '--name', 'ann', '--budget', '5/day')
      const [door] = STREAMING
      const response = await fetch(`${server.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: `${door?.id}/one`, ...door?.client.body({ stream: true }) }),
      })
      const reader = response.body?.getReader()
      const utf8 = new TextDecoder()
      let read = ''
      while (read.split(word).length <= words) read += utf8.decode((await reader?.read())?.value, { stream: true })
      server.signal('SIGKILL')
      await server.exited
      await serve()
      const { requests } = await json('requests', 'list')
      const written = 64 * words
      expect(requests).toMatchObject([{ status: 'abandoned', estimated: 1 }])
      const [{ completion_tokens: held, cost_nano_usd: cost }] = requests
      expect(held).toBeGreaterThanOrEqual(written)
      expect(held).toBeLessThanOrEqual(written + 2 * 4_096)
      expect(cost).toBeGreaterThanOrEqual(2_000 * written)
      expect(await json('keys', 'show', 'ann')).toMatchObject({ spent_nano_usd: cost })
    } finally {
      await place.close()
      await upstream.stop()
    }
  },
  LIMIT_MS,
)
