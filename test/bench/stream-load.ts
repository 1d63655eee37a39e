/** Paced streams read concurrently by a separate process; CPU and memory of the subject from /proc. */
import { resolve } from 'node:path'
import { toChatBody, toMessagesBody } from './json-load.ts'
import type { StreamLoad } from './loads.ts'
import { cpuMicros, followJit, rssMegabytes } from './processes.ts'
import type { ReaderOptions, ReaderResult } from './reader.ts'
import type { Subject } from './subjects.ts'
import { NATIVE_MODEL } from './tollgate.ts'

const OPEN_MS = 1_000

export interface StreamShape {
  streams: number
  tokens: number
  paceMs: number
}

export interface StreamResult {
  chunks: number
  chunksPerSecond: number
  cpuMicrosPerChunk: number
  /** Share used for compiling: near zero, or the subject was not warm. */
  jitMicrosPerChunk: number
  /** The subject's CPU as a share of one core: near 1, it was saturated and the figure means little. */
  cpuShare: number
  /** Time that a subject adds to the upstream's own, for the first token and for each one. */
  firstP50Ms: number
  firstP99Ms: number
  chunkP50Ms: number
  chunkP99Ms: number
  complete: number
  broken: number
  refused: number
  idleRssMegabytes: number
  peakRssMegabytes: number
  /** Share of one core: must be well below 1, or the reader was the bottleneck. */
  readerCpuShare: number
}

/** Reads `shape.streams` streams to their end. Throws if the reader printed nothing. */
export async function loadStreams(
  subject: Subject,
  shape: StreamShape,
  load: StreamLoad = 'streams200',
): Promise<StreamResult> {
  const { streams, tokens, paceMs } = shape
  const { port, host } = new URL(subject.origin)
  const isChat = load === 'streams200'
  const model = load === 'native200' ? NATIVE_MODEL : subject.model
  const asked = { stream: true, max_tokens: tokens, pace_ms: paceMs }
  const body = isChat ? toChatBody(model, asked) : toMessagesBody(model, asked)
  const head = [
    `POST /v1/${isChat ? 'chat/completions' : 'messages'} HTTP/1.1`,
    `host: ${host}`,
    'content-type: application/json',
    `authorization: Bearer ${subject.key}`,
    `content-length: ${Buffer.byteLength(body)}`,
  ]
  const options: ReaderOptions = {
    port: Number(port),
    streams,
    request: `${head.join('\r\n')}\r\n\r\n${body}`,
    end: isChat ? 'data: [DONE]' : '"type":"message_stop"',
    openMs: OPEN_MS,
    limitMs: tokens * paceMs * 2 + 15_000,
  }
  const { pid } = subject.process
  const idle = rssMegabytes(pid)
  let peak = idle
  const sampler = setInterval(() => {
    peak = Math.max(peak, rssMegabytes(pid))
  }, 100)
  const before = cpuMicros(pid)
  const jitMicros = followJit(pid)
  const reader = Bun.spawn([process.execPath, resolve(import.meta.dir, 'reader.ts'), JSON.stringify(options)], {
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const said = await new Response(reader.stdout).text()
  await reader.exited
  const cpu = cpuMicros(pid) - before
  const jit = jitMicros()
  clearInterval(sampler)
  const result: ReaderResult = JSON.parse(said)
  if (result.firstError !== null) console.error(`  ${subject.name}: ${result.firstError}`)
  return {
    chunks: result.dataLines,
    chunksPerSecond: result.dataLines / (result.wallMs / 1000),
    cpuMicrosPerChunk: cpu / Math.max(1, result.dataLines),
    jitMicrosPerChunk: jit / Math.max(1, result.dataLines),
    cpuShare: cpu / (result.wallMs * 1000),
    firstP50Ms: result.firstP50Ms,
    firstP99Ms: result.firstP99Ms,
    chunkP50Ms: result.chunkP50Ms,
    chunkP99Ms: result.chunkP99Ms,
    complete: result.complete,
    broken: result.broken,
    refused: result.refused,
    idleRssMegabytes: idle,
    peakRssMegabytes: peak,
    readerCpuShare: result.cpuMicros / (result.wallMs * 1000),
  }
}
