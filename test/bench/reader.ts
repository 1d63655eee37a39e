/**
 * The paced reader: a process that opens many streams over raw sockets, counts their `data:` lines, reads the times that the
 * benchmark's upstream writes into its tokens, and prints one line of JSON. Parses as little as it can, so that it is not
 * what limits the benchmark; it reports its own CPU too.
 * Started by `stream-load.ts` with its options as JSON in argv.
 */
import { machineMicros } from '../support/clock.ts'

export interface ReaderOptions {
  port: number
  streams: number
  /** The whole HTTP request. */
  request: string
  /** What stands in the last event of a stream. */
  end: string
  /** The streams are opened one after another in this time, ms: their first tokens then wait for nobody else's. */
  openMs: number
  limitMs: number
}

export interface ReaderResult {
  /** Ended with their last event. */
  complete: number
  /** Ended without it, or still open at the limit. */
  broken: number
  refused: number
  dataLines: number
  /** What was added to the upstream's own time for the first token: the ways of the request and of the token, in ms. */
  firstP50Ms: number
  firstP99Ms: number
  /** From the upstream's writing of a token to its reading here, in ms. */
  chunkP50Ms: number
  chunkP99Ms: number
  wallMs: number
  cpuMicros: number
  firstError: string | null
}

interface Stream {
  beganMicros: number
  /** When the last token that was read had been written; 0 before the first one. */
  writtenMicros: number
  answered: boolean
  lines: number
  /** The end of what came last, for a marker that two pieces share. */
  tail: string
  ended: boolean
}

const OK = 'HTTP/1.1 200'
/** A token with its times, as `upstream-main.ts` writes it, whole. */
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
        // What two pieces share is met twice.
        if (writtenMicros <= stream.writtenMicros) continue
        stream.writtenMicros = writtenMicros
        const lagMs = (nowMicros - writtenMicros) / 1_000
        chunks.push(lagMs)
        if (came !== undefined) firsts.push(lagMs + (Number(came) - stream.beganMicros) / 1_000)
      }
      for (let at = text.indexOf(DATA); at !== -1; at = text.indexOf(DATA, at + DATA.length)) stream.lines += 1
      const done = text.includes(options.end)
      // Counted markers must not be counted again: keep only what cannot hold a whole one, or the end of the text.
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
