/**
 * The upstream as a process for load tests: `bun test/support/upstream-main.ts [--port N] [--tokens N] [--pace MS]`
 * prints its base URL. One shared timer paces all streams; a request may set `max_tokens` and `pace_ms`, or
 * `answer_tokens` for a long whole response. Each token holds its write time as `w<time> `, the first also the request's as `w<time>a<time> `: microseconds of `clock.ts`,
 * always as many digits. `/v1/messages` streams the Messages API. Ends with its standard input, so that it never
 * outlives its parent.
 */
import { parseArgs } from 'node:util'
import { toEvent, toSteps } from './anthropic-answers.ts'
import { machineMicros } from './clock.ts'
import { streamAnswer, wholeAnswer } from './upstream-answers.ts'
import { createRequestReader, LAST_HTTP_CHUNK, type RawRequest, toHttpChunk, toResponseHead } from './upstream-http.ts'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    tokens: { type: 'string', default: '100' },
    pace: { type: 'string', default: '20' },
  },
})

const EMPTY = Buffer.alloc(0)
const WORDS = Array.from({ length: 100 }, (_, i) => `word${i} `)
const toWhole = (tokens: readonly string[]): Buffer => {
  const body = JSON.stringify(wholeAnswer({ tokens }).body)
  const headers = { 'content-type': 'application/json', 'content-length': String(body.length) }
  return Buffer.from(`${toResponseHead(200, headers)}${body}`)
}
const WHOLE = toWhole(WORDS)
const LARGE = new Map<number, Buffer>()
const STREAM_HEAD = Buffer.from(
  toResponseHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'transfer-encoding': 'chunked' }),
)
const DIGITS = 15
const NO_TIME = '0'.repeat(DIGITS)

/** A format's stream; times overwrite parts of its frames. */
interface Script {
  opening: Buffer
  first: Buffer
  /** Alternately. */
  tokens: readonly Buffer[]
  tail(tokens: number): Buffer
  /** Precedes the first time. */
  mark: string
}

const TOKEN = `w${NO_TIME} `
const FIRST = `w${NO_TIME}a${NO_TIME} `

const toFrame = (text: string): Buffer => toHttpChunk(Buffer.from(text))

function toChatScript(): Script {
  const [role = '', token = '', finish = ''] = [...streamAnswer({ tokens: [TOKEN], usage: null }).steps].map(toData)
  const [, first = ''] = [...streamAnswer({ tokens: [FIRST] }).steps].map(toData)
  return {
    opening: toFrame(role),
    first: toFrame(first),
    tokens: [toFrame(token)],
    tail(tokens) {
      const usage = { prompt_tokens: 50, completion_tokens: tokens }
      const [last] = [...streamAnswer({ tokens: 0, usage }).steps].slice(-1)
      return Buffer.concat([toFrame(finish), toFrame(toData(last)), toFrame('data: [DONE]\n\n'), LAST_HTTP_CHUNK])
    },
    mark: '"content":"w',
  }
}

const toData = (step: unknown): string => `data: ${JSON.stringify(step)}\n\n`

function toMessagesScript(): Script {
  const steps = (written: number) =>
    toSteps({ blocks: [{ text: 'w' }], usage: { output_tokens: written } }).map(toFrame)
  const toDelta = (text: string, pad: number) =>
    toFrame(toEvent({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }, pad))
  return {
    opening: Buffer.concat(steps(1).slice(0, 3)),
    first: toDelta(FIRST, 0),
    // The service pads each event differently.
    tokens: [0, 7, 3, 12, 1, 9].map((pad) => toDelta(TOKEN, pad)),
    tail: (tokens) => Buffer.concat([...steps(tokens).slice(-3), LAST_HTTP_CHUNK]),
    mark: '"text":"w',
  }
}

const CHAT = toChatScript()
const MESSAGES = toMessagesScript()

/** Writes a time over a frame's first or second one. */
function stamp(frame: Buffer, mark: string, micros: number, place: 0 | 1 = 0): Buffer {
  const at = frame.indexOf(mark) + mark.length + place * (DIGITS + 1)
  frame.write(String(Math.round(micros)).padStart(DIGITS, '0'), at, 'latin1')
  return frame
}

interface Connection {
  read: (bytes: Buffer) => void
  /** Bytes that the kernel had no buffer space for. */
  unsent: Buffer
  closed: boolean
}

type Peer = Bun.Socket<Connection>

function send(peer: Peer, bytes: Buffer): void {
  const line = peer.data
  if (line.unsent.length > 0) {
    line.unsent = Buffer.concat([line.unsent, bytes])
    return
  }
  const written = Math.max(peer.write(bytes), 0)
  if (written < bytes.length) line.unsent = Buffer.from(bytes.subarray(written))
}

interface Paced {
  peer: Peer
  script: Script
  /** When the request arrived. */
  cameMicros: number
  left: number
  total: number
  paceMs: number
}

/** A timer wheel with slots of TICK_MS: a stream sits in the slot of its next chunk. */
const TICK_MS = 2
const wheel: Paced[][] = Array.from({ length: 1024 }, () => [])
let now = 0
let streams = 0
let nextSlot = 0
let timer: Timer | null = null

function schedule(paced: Paced, afterMs: number): void {
  const ticks = Math.min(Math.max(1, Math.round(afterMs / TICK_MS)), wheel.length - 1)
  wheel[(now + ticks) % wheel.length]?.push(paced)
}

function turn(): void {
  const until = Math.floor(performance.now() / TICK_MS)
  while (now < until) {
    now += 1
    const slot = now % wheel.length
    const due = wheel[slot] ?? []
    if (due.length === 0) continue
    wheel[slot] = []
    for (const paced of due) step(paced)
  }
  if (streams > 0 || timer === null) return
  clearInterval(timer)
  timer = null
}

function step(paced: Paced): void {
  if (paced.peer.data.closed) {
    streams -= 1
    return
  }
  if (paced.left === 0) {
    streams -= 1
    send(paced.peer, paced.script.tail(paced.total))
    return
  }
  const { script, left, total } = paced
  const isFirst = left === total
  paced.left -= 1
  const frame = isFirst ? script.first : (script.tokens[left % script.tokens.length] ?? EMPTY)
  stamp(frame, script.mark, machineMicros())
  send(paced.peer, isFirst ? stamp(frame, script.mark, paced.cameMicros, 1) : frame)
  schedule(paced, paced.paceMs)
}

function answer(peer: Peer, request: RawRequest): void {
  const body = request.body.toString('latin1')
  if (!/"stream": *true/.test(body)) {
    const words = Number(/"answer_tokens": *(\d+)/.exec(body)?.[1] ?? 0)
    const toLarge = () => toWhole(Array.from({ length: words }, (_, i) => `word${i} `))
    send(peer, words === 0 ? WHOLE : LARGE.getOrInsertComputed(words, toLarge))
    return
  }
  const tokens = Number(/"max_tokens": *(\d+)/.exec(body)?.[1] ?? values.tokens)
  const paceMs = Number(/"pace_ms": *(\d+)/.exec(body)?.[1] ?? values.pace)
  const cameMicros = machineMicros()
  const script = request.head.startsWith('POST /v1/messages ') ? MESSAGES : CHAT
  send(peer, Buffer.concat([STREAM_HEAD, script.opening]))
  if (timer === null) {
    now = Math.floor(performance.now() / TICK_MS)
    timer = setInterval(turn, TICK_MS)
  }
  streams += 1
  // Spread over the pace: the network would batch simultaneous chunks, unlike real ones.
  nextSlot = (nextSlot + TICK_MS) % Math.max(paceMs, TICK_MS)
  schedule({ peer, script, cameMicros, left: tokens, total: tokens, paceMs }, paceMs + nextSlot)
}

const server = Bun.listen<Connection>({
  hostname: '127.0.0.1',
  port: Number(values.port),
  socket: {
    open(peer) {
      peer.data = { read: createRequestReader((request) => answer(peer, request)), unsent: EMPTY, closed: false }
      peer.setNoDelay(true)
    },
    data(peer, bytes) {
      peer.data.read(bytes)
    },
    drain(peer) {
      const { unsent } = peer.data
      peer.data.unsent = EMPTY
      if (unsent.length > 0) send(peer, unsent)
    },
    close(peer) {
      peer.data.closed = true
    },
    error() {},
  },
})

process.stdout.write(`http://127.0.0.1:${server.port}/v1\n`)
for await (const _ of Bun.stdin.stream()) {
  // Only the end of standard input matters.
}
process.exit(0)
