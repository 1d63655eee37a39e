/**
 * The paced reader: a process that opens many streams over raw sockets, counts `data:` lines, reads the upstream's
 * times, and prints one line of JSON. Minimal parsing, so that it isn't the bottleneck. Options are JSON in argv.
 */
import { machineMicros } from '../support/clock.ts'

export interface ReaderOptions {
  port: number
  streams: number
  /** The whole HTTP request. */
  request: string
  /** Contained in a stream's last event. */
  end: string
  /** Streams open one by one over this time, ms, so that first tokens don't wait for each other. */
  openMs: number
  limitMs: number
}

export interface ReaderResult {
  /** Ended with their last event. */
  complete: number
  /** Ended without it, or open at the limit. */
  broken: number
  refused: number
  dataLines: number
  /** Added to the upstream's first token time: request and token transfer, ms. */
  firstP50Ms: number
  firstP99Ms: number
  /** From the upstream's write of a token to its read here, ms. */
  chunkP50Ms: number
  chunkP99Ms: number
  wallMs: number
  cpuMicros: number
  firstError: string | null
}

interface Stream {
  beganMicros: number
  /** Write time of the last token read; 0 before the first. */
  writtenMicros: number
  answered: boolean
  lines: number
  /** Kept for a marker that is split across two pieces. */
  tail: string
  ended: boolean
}

const OK = 'HTTP/1.1 200'
/** A whole token with its times, as `upstream-main.ts` writes it. */
const TOKEN = /"(?:content|text)":"w(\d{15})(?:a(\d{15}))? /g
const DATA = 'data:'

function percentile(values: number[], percent: number): number {
  values.sort((a, b) => a - b)
  return values[Math.floor((values.length * percent) / 100)] ?? 0
}

if (import.meta.main) await main(JSON.parse(process.argv[2] ?? '{}'))

async function main(options: ReaderOptions): Promise<void> {
  const began = performance.now()
  const firsts: number[] = []
  const chunks: number[] = []
  const result = { complete: 0, broken: 0, refused: 0, dataLines: 0 }
  let firstError: string | null = null
  const all = Promise.withResolvers<void>()

  const end = (socket: Bun.Socket<Stream>, how: 'complete' | 'broken' | 'refused') => {
    if (socket.data.ended) return
    socket.data.ended = true
    result[how] += 1
    if (result.complete + result.broken + result.refused === options.streams) all.resolve()
    socket.terminate()
  }

  const handler: Bun.SocketHandler<Stream> = {
    open(socket) {
      socket.data.beganMicros = machineMicros()
      socket.write(options.request)
    },
    data(socket, bytes) {
      const stream = socket.data
      const text = stream.tail + bytes.toString('latin1')
      if (!stream.answered && text.length >= OK.length) {
        stream.answered = text.startsWith(OK)
        if (!stream.answered) {
          firstError ??= text.slice(0, 400)
          end(socket, 'refused')
          return
        }
      }
      if (!stream.answered) {
        stream.tail = text
        return
      }
      const nowMicros = machineMicros()
      for (const [, written, came] of text.matchAll(TOKEN)) {
        const writtenMicros = Number(written)
        // Text in both pieces is found twice.
        if (writtenMicros <= stream.writtenMicros) continue
        stream.writtenMicros = writtenMicros
        const lagMs = (nowMicros - writtenMicros) / 1_000
        chunks.push(lagMs)
        if (came !== undefined) firsts.push(lagMs + (Number(came) - stream.beganMicros) / 1_000)
      }
      for (let at = text.indexOf(DATA); at !== -1; at = text.indexOf(DATA, at + DATA.length)) stream.lines += 1
      const done = text.includes(options.end)
      // Keep only text that can't hold a whole marker, so that none counts twice.
      const last = text.lastIndexOf(DATA)
      const from = Math.max(last === -1 ? 0 : last + 1, text.length - options.end.length)
      stream.tail = text.slice(from)
      if (last !== -1 && text.length - last < options.end.length) {
        stream.tail = text.slice(last)
        stream.lines -= 1
      }
      if (!done) return
      result.dataLines += stream.lines
      end(socket, 'complete')
    },
    close(socket) {
      result.dataLines += socket.data.ended ? 0 : socket.data.lines
      end(socket, 'broken')
    },
    error(_, reason) {
      firstError ??= String(reason)
    },
    connectError(_, reason) {
      firstError ??= String(reason)
    },
  }

  const limit = setTimeout(() => all.resolve(), options.limitMs)
  for (let opened = 0; opened < options.streams; opened += 1) {
    const data: Stream = { beganMicros: 0, writtenMicros: 0, answered: false, lines: 0, tail: '', ended: false }
    Bun.connect({ hostname: '127.0.0.1', port: options.port, socket: handler, data }).catch((reason) => {
      firstError ??= String(reason)
      result.refused += 1
    })
    const aheadMs = ((opened + 1) * options.openMs) / options.streams - (performance.now() - began)
    if (aheadMs >= 1) await Bun.sleep(aheadMs)
  }
  await all.promise
  clearTimeout(limit)
  const { user, system } = process.cpuUsage()
  const answer: ReaderResult = {
    ...result,
    broken: options.streams - result.complete - result.refused,
    firstP50Ms: percentile(firsts, 50),
    firstP99Ms: percentile(firsts, 99),
    chunkP50Ms: percentile(chunks, 50),
    chunkP99Ms: percentile(chunks, 99),
    wallMs: performance.now() - began,
    cpuMicros: user + system,
    firstError,
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
  process.exit(0)
}
