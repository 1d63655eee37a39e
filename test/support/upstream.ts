/**
 * A scripted upstream on a raw `node:net` socket, so that it can misbehave below HTTP; it records requests and
 * disconnects.
 */
import { startTcpServer } from './tcp-server.ts'
import {
  type Behaviour,
  type Raw,
  type Stream,
  type StreamStep,
  streamAnswer,
  type Whole,
  wholeAnswer,
} from './upstream-answers.ts'
import {
  createRequestReader,
  LAST_HTTP_CHUNK,
  type RawRequest,
  toHttpChunk,
  toRequestHead,
  toResponseHead,
} from './upstream-http.ts'
import { createLine, type Line } from './upstream-line.ts'

/** Times are `performance.now()`. */
export interface Seen {
  index: number
  method: string
  path: string
  headers: Record<string, string>
  body: string
  bytes: Buffer
  /** Null if the body is not a JSON object. */
  json: Record<string, unknown> | null
  atMs: number
  /** When the response was complete, including its scripted end. */
  answeredAtMs: number | null
  /** When the client closed before the response was complete. */
  abortedAtMs: number | null
  bytesSent: number
}

export type Script = Behaviour | ((seen: Seen) => Behaviour)

export interface ScriptedUpstream {
  /** Ends in `/v1`. */
  readonly url: string
  readonly port: number
  /** Requests except health checks. */
  readonly requests: Seen[]
  /** Model list requests (health checks), which have their own script. */
  readonly probes: Seen[]
  /** Connections open now. */
  readonly connections: number
  script(next: Script): void
  /** The same for health checks, which succeed by default. */
  scriptProbes(next: Script): void
  /** Throws after `timeoutMs` (5 s) with `what`. */
  waitFor(test: (requests: Seen[]) => boolean, what?: string, timeoutMs?: number): Promise<void>
  stop(): Promise<void>
}

/** A well-behaved upstream: streams and usage if requested. */
export const obliging: Script = ({ json }) => {
  if (json?.stream !== true) return wholeAnswer()
  const options = json.stream_options
  const asked = typeof options === 'object' && options !== null && 'include_usage' in options && options.include_usage
  return streamAnswer(asked ? {} : { usage: null })
}

const MODELS: Behaviour = {
  kind: 'whole',
  body: { object: 'list', data: [{ id: 'upstream-model', object: 'model' }] },
}

export async function startUpstream(script: Script = obliging, port = 0): Promise<ScriptedUpstream> {
  let current = script
  let probing: Script = MODELS
  const requests: Seen[] = []
  const probes: Seen[] = []
  const server = await startTcpServer((socket) => {
    const line = createLine(socket)
    socket.on(
      'data',
      createRequestReader((raw) => {
        const isProbe = /^GET \/(v1\S*\/models[ ?]|api\/version )/.test(raw.head)
        const among = isProbe ? probes : requests
        const seen = toSeen(raw, among.length)
        among.push(seen)
        line.onGone = () => {
          if (seen.answeredAtMs === null) seen.abortedAtMs ??= performance.now()
        }
        const script = isProbe ? probing : current
        void play(line, seen, typeof script === 'function' ? script(seen) : script)
      }),
    )
  }, port)
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    port: server.port,
    requests,
    probes,
    get connections() {
      return server.sockets.size
    },
    script(next) {
      current = next
    },
    scriptProbes(next) {
      probing = next
    },
    async waitFor(test, what = 'a condition', timeoutMs = 5_000) {
      const until = performance.now() + timeoutMs
      while (!test(requests)) {
        if (performance.now() > until) throw new Error(`the upstream waited ${timeoutMs} ms in vain for ${what}`)
        await Bun.sleep(2)
      }
    },
    stop: server.stop,
  }
}

function toSeen(raw: RawRequest, index: number): Seen {
  const body = raw.body.toString('utf8')
  const times = { atMs: performance.now(), answeredAtMs: null, abortedAtMs: null }
  return { index, ...toRequestHead(raw.head), body, bytes: raw.body, json: toObject(body), ...times, bytesSent: 0 }
}

function toObject(body: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? { ...value } : null
  } catch {
    return null
  }
}

async function play(line: Line, seen: Seen, behaviour: Behaviour): Promise<void> {
  if (behaviour.kind === 'silent') return
  const finish = (end: () => void) => {
    if (!line.gone) seen.answeredAtMs = performance.now()
    end()
  }
  if (behaviour.kind === 'reset') return finish(line.reset)
  if (behaviour.kind === 'raw') return playRaw(line, seen, behaviour, finish)
  if (behaviour.delayMs) await line.sleep(behaviour.delayMs)
  if (behaviour.kind === 'stream') await behaviour.after
  if (line.gone) return
  if (behaviour.kind === 'whole') {
    const bytes = toWholeBytes(behaviour)
    await line.write(bytes)
    if (line.gone) return
    seen.bytesSent = bytes.length
    seen.answeredAtMs = performance.now()
    return
  }
  await playStream(line, seen, behaviour, finish)
}

async function playRaw(line: Line, seen: Seen, { pieces, paceMs, end }: Raw, finish: (end: () => void) => void) {
  for (const piece of pieces) {
    if (line.gone) return
    seen.bytesSent += piece.length
    await line.write(piece)
    if (paceMs) await line.sleep(paceMs)
  }
  if (end !== 'hang' && !line.gone) finish(end === 'reset' ? line.reset : line.close)
}

function toWholeBytes(behaviour: Whole): Buffer {
  const { body, headers = {} } = behaviour
  const isRaw = typeof body === 'string' || body instanceof Uint8Array
  const plain = body instanceof Uint8Array ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const bytes = behaviour.gzip ? Bun.gzipSync(Buffer.from(plain)) : plain
  const head = toResponseHead(behaviour.status ?? 200, {
    'content-type': isRaw ? 'text/html; charset=utf-8' : 'application/json',
    ...headers,
    ...(behaviour.gzip ? { 'content-encoding': 'gzip' } : {}),
    'content-length': String(bytes.length),
  })
  return Buffer.concat([Buffer.from(head), bytes])
}

async function playStream(line: Line, seen: Seen, behaviour: Stream, finish: (end: () => void) => void): Promise<void> {
  const { end = 'done', paceMs = 0, bytesPerWrite, gzip } = behaviour
  const send = async (bytes: Uint8Array) => {
    const size = bytesPerWrite ?? bytes.length
    for (let at = 0; at < bytes.length && !line.gone; at += size) {
      const piece = bytes.subarray(at, at + size)
      seen.bytesSent += piece.length
      await line.write(toHttpChunk(piece))
      // Without a turn of the event loop, the kernel would join the pieces.
      if (bytesPerWrite) await new Promise((resolve) => setImmediate(resolve))
    }
  }
  await line.write(
    toResponseHead(behaviour.status ?? 200, {
      'content-type': 'text/event-stream; charset=utf-8',
      ...behaviour.headers,
      ...(gzip ? { 'content-encoding': 'gzip' } : {}),
      'transfer-encoding': 'chunked',
    }),
  )
  if (gzip) await send(Bun.gzipSync(Buffer.concat([...toFrames(behaviour), ...(end === 'done' ? [DONE] : [])])))
  for (const step of gzip ? [] : behaviour.steps) {
    if (line.gone) return
    if (isWait(step)) await line.sleep(step.waitMs)
    else if (isGate(step)) await step.until
    else await send(toFrame(step))
    if (paceMs > 0) await line.sleep(paceMs)
  }
  if (line.gone || end === 'hang') return
  if (end === 'reset') return finish(line.reset)
  if (end === 'cut') {
    await line.write(toHttpChunk(Buffer.from('data: {"id":"chatcmpl-upstream","choices":[{"index":0,"del')))
    return finish(line.close)
  }
  if (end === 'done' && !gzip) await send(DONE)
  finish(() => void line.write(LAST_HTTP_CHUNK))
}

const DONE = Buffer.from('data: [DONE]\n\n')

const isWait = (step: StreamStep): step is { waitMs: number } =>
  typeof step === 'object' && 'waitMs' in step && typeof step.waitMs === 'number'

const isGate = (step: StreamStep): step is { until: Promise<void> } =>
  typeof step === 'object' && 'until' in step && step.until instanceof Promise

function toFrame(step: Exclude<StreamStep, { waitMs: number } | { until: Promise<void> }>): Uint8Array {
  if (step instanceof Uint8Array) return step
  return Buffer.from(typeof step === 'string' ? step : `data: ${JSON.stringify(step)}\n\n`)
}

function toFrames(behaviour: Stream): Uint8Array[] {
  return [...behaviour.steps].filter((step) => !isWait(step) && !isGate(step)).map((step) => toFrame(step))
}
