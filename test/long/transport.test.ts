/**
 * A day of requests over Tollgate's HTTP/1.1, one per second, on connections that end at every possible moment. Each
 * response belongs to its request, or there is none.
 */
import { expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { createHttp1Transport } from '../../src/upstreams/http1/transport.ts'
import { toOutgoing } from '../support/outgoing.ts'
import { createRandom } from '../support/random.ts'
import { startTcpServer } from '../support/tcp-server.ts'

const REQUESTS = 86_400
const CLIENTS = 64
const SEED = Number(process.env.SOAK_SEED ?? Date.now() % 1_000_000)

const bodyOf = (id: string, chars: number) => `${id}:${id.repeat(1 + chars / id.length)}`

function toAnswer(body: string, random: () => number): string {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: a/b\r\n'
  const early = random() < 0.1 ? 'HTTP/1.1 103 Early Hints\r\n\r\n' : ''
  if (random() < 0.5) return `${early}${head}content-length: ${body.length}\r\n\r\n${body}`
  let text = `${early}${head}transfer-encoding: chunked\r\n\r\n`
  for (let at = 0; at < body.length; ) {
    const chunk = body.slice(at, at + 1 + Math.floor(random() * 900))
    text += `${chunk.length.toString(16)}\r\n${chunk}\r\n`
    at += chunk.length
  }
  return `${text}0\r\n\r\n`
}

test(`whichever side ends a connection, whenever: responses are complete and not another request's (SOAK_SEED=${SEED})`, async () => {
  const random = createRandom(SEED)
  const asked = new Map<string, number>()
  const end = (socket: Socket) => (random() < 0.5 ? socket.end() : socket.destroy())
  const server = await startTcpServer((socket) => {
    socket.on('data', (bytes) => {
      const [, id = '', chars = '0'] = /"(r\d+)",(\d+)/.exec(bytes.toString()) ?? []
      asked.set(id, (asked.get(id) ?? 0) + 1)
      const text = toAnswer(bodyOf(id, Number(chars)), random)
      const lot = random()
      if (lot < 0.02) end(socket)
      else if (lot < 0.04) setTimeout(() => end(socket), random() * 20)
      else if (lot < 0.1) {
        socket.write(text.slice(0, random() * text.length))
        if (random() < 0.5) end(socket)
        else setTimeout(() => end(socket), random() * 5)
      } else if (lot < 0.3) {
        const at = random() * text.length
        socket.write(text.slice(0, at))
        setTimeout(() => socket.write(text.slice(at)), random() * 3)
      } else {
        socket.write(text)
        // While the next request is being sent.
        if (lot < 0.4) setTimeout(() => end(socket), random() * 3)
      }
    })
  })
  const outgoing = toOutgoing(`http://127.0.0.1:${server.port}`)
  const transport = createHttp1Transport({ idleMs: 50, maxIdle: 20, nowMs: () => performance.now() })
  const counts = { whole: 0, broken: 0, left: 0 }
  const wrong: string[] = []
  let last = 0

  async function ask(): Promise<void> {
    const id = `r${++last}`
    // Some exceed the buffer for a slow reader.
    const chars = Math.floor(random() < 0.005 ? 1_000_000 : random() ** 4 * 50_000)
    const exchange = transport.send({ ...outgoing, callId: id, body: `{"${id}",${chars}}` })
    const isLeft = random() < 0.05
    if (isLeft) setTimeout(() => exchange.abort(new Error('left')), random() * 4)
    try {
      const incoming = await exchange.answer
      if (random() < 0.2) await Bun.sleep(random() * 3)
      let text = ''
      const lot = random()
      if (lot < 0.5) text = (await incoming.text(2_000_000, () => null)) ?? ''
      else {
        const takeBytes = (bytes: Uint8Array, from: number, to: number) => {
          text += Buffer.from(bytes.subarray(from, to)).toString()
          if (lot > 0.98) {
            incoming.leave()
            return false
          }
          return random() < 0.9 ? true : Bun.sleep(random() * 2).then(() => true)
        }
        const isWhole = await incoming.pump({ takeBytes })
        if (!isWhole) {
          counts.left++
          return
        }
      }
      counts.whole++
      if (text !== bodyOf(id, chars)) wrong.push(`${id}: ${text.slice(0, 100)}`)
    } catch {
      if (isLeft) counts.left++
      else counts.broken++
    }
  }

  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (last < REQUESTS) await ask()
    }),
  )
  expect(wrong).toEqual([])
  expect(Math.max(...asked.values())).toBeLessThanOrEqual(2)
  expect(Math.min(...Object.values(counts))).toBeGreaterThan(1_000)
  expect(counts.whole).toBeGreaterThan(REQUESTS * 0.7)
  // Idle connections close in time, and no other is open.
  while (server.sockets.size > 0) await Bun.sleep(10)
  await server.stop()
}, 300_000)
