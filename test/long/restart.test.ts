/** Restarts of the built binary under load, and kills of either server at any moment of one. Part of `bun run test:all`. */
import { describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { killWhileRestarting } from '../e2e/crash-rounds.ts'
import { createWorkplace, type RunningBinary } from '../support/binary.ts'
import { HELLO, toCatalogue } from '../support/gateway.ts'
import { until } from '../support/until.ts'
import { startUpstream } from '../support/upstream.ts'
import { streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'

const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000)
const ROUNDS = Number(process.env.CRASH_ROUNDS ?? 20)
const RESTARTS = Number(process.env.RESTARTS ?? 3)
const STREAMS = 120
const KEEP_ALIVE = 32
const NEW_CONNECTIONS = 8
const LIMIT_MS = 15 * 60_000

interface Counts {
  streams: number
  kept: number
  fresh: number
  failures: string[]
  slowestMs: number
}

const toRequest = ({ key }: RunningBinary, body: object, connection: 'close' | 'keep-alive'): string => {
  const json = JSON.stringify({ ...HELLO, ...body })
  return (
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\nconnection: ${connection}\r\n` +
    `content-type: application/json\r\ncontent-length: ${json.length}\r\n\r\n${json}`
  )
}

/** One request on its own connection; throws on a refused, reset, or interrupted one. */
function askOnce(server: RunningBinary, body: object, isWhole: (text: string) => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(new URL(server.baseUrl).port), '127.0.0.1')
    socket.write(toRequest(server, body, 'close'))
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
    })
    socket.on('error', reject)
    socket.on('close', () => (isWhole(text) ? resolve() : reject(new Error(`cut: ${text.slice(-300)}`))))
  })
}

const isAnswer = (text: string) => text.startsWith('HTTP/1.1 200') && text.includes('"finish_reason":"stop"')
const isStream = (text: string) => text.startsWith('HTTP/1.1 200') && text.includes('data: [DONE]')

function load(server: RunningBinary) {
  const counts: Counts = { streams: 0, kept: 0, fresh: 0, failures: [], slowestMs: 0 }
  let isOver = false
  const repeat = (count: number, kind: 'streams' | 'kept' | 'fresh', ask: () => Promise<void>) =>
    Array.from({ length: count }, async () => {
      while (!isOver) {
        const beganMs = performance.now()
        try {
          await ask()
          counts[kind]++
        } catch (error) {
          counts.failures.push(`${kind}: ${error}`)
        }
        if (kind !== 'streams') counts.slowestMs = Math.max(counts.slowestMs, performance.now() - beganMs)
      }
    })
  // Bun's own client, which reuses its connections.
  const kept = async () => {
    const response = await fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(HELLO),
    })
    const text = await response.text()
    if (!isAnswer(`HTTP/1.1 ${response.status} ${text}`)) throw new Error(`${response.status} ${text}`)
  }
  const all = Promise.all([
    ...repeat(STREAMS, 'streams', () => askOnce(server, { stream: true }, isStream)),
    ...repeat(KEEP_ALIVE, 'kept', kept),
    ...repeat(NEW_CONNECTIONS, 'fresh', () => askOnce(server, {}, isAnswer)),
  ])
  return async (): Promise<Counts> => {
    isOver = true
    await all
    return counts
  }
}

describe.skipIf(process.platform !== 'linux')('a restart', () => {
  test.each(['1', '2'])(
    `with %s processes under load, ${RESTARTS} times: no stream breaks, no request fails, and the ledger has each of them once`,
    async (processes) => {
      const place = createWorkplace()
      const upstream = await startUpstream(({ json }) =>
        json?.stream === true ? streamAnswer({ tokens: 30, paceMs: 100 }) : wholeAnswer(),
      )
      try {
        const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
        const server = await place.serve(['--first-key', '--processes', processes, '--catalog', catalog], {
          environment: { UPSTREAM_KEY: 'x' },
        })
        const stop = load(server)
        await Bun.sleep(2_000)
        const tookMs: number[] = []
        for (let round = 0; round < RESTARTS; round++) {
          const beganMs = performance.now()
          expect(await place.restart()).toMatchObject({ code: 0, stderr: '' })
          tookMs.push(Math.round(performance.now() - beganMs))
          await Bun.sleep(2_000)
        }
        const { failures, ...counts } = await stop()
        console.log('restarts under load:', JSON.stringify({ tookMs, ...counts, failures: failures.length }))
        expect(failures.slice(0, 5)).toEqual([])
        const all = counts.streams + counts.kept + counts.fresh
        const settled = async () => (await place.run('ledger', 'verify')).stdout
        await until('all are settled', async () => (await settled()).includes(` ${all} settled requests`))
        expect(await settled()).toStartWith('The ledger is consistent')
      } finally {
        await place.close()
        await upstream.stop()
      }
    },
    LIMIT_MS,
  )

  test(
    `whose servers are killed ${ROUNDS} times (CRASH_SEED=${SEED}) leaves one server and an exact ledger`,
    async () => {
      const told = await killWhileRestarting(SEED, ROUNDS)
      console.log('killed while restarting:', JSON.stringify(told))
      expect(told.refusals).toEqual({})
    },
    LIMIT_MS,
  )
})
