/** Whole responses under `wrk`: requests per second and latency from wrk, CPU and memory from /proc. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cpuMicros, followJit, rssMegabytes } from './processes.ts'
import type { Subject } from './subjects.ts'

export interface JsonResult {
  requestsPerSecond: number
  p50Ms: number
  p99Ms: number
  cpuMicrosPerRequest: number
  /** Part used for compiling: near zero if warm. */
  jitMicrosPerRequest: number
  rssMegabytes: number
  errors: number
}

const CONTENT = 'Summarise in one sentence what a gateway in front of language models is good for. '.repeat(4)

/** The standard request: a system message and about 330 characters. */
export const toChatBody = (model: string, more: Record<string, unknown> = {}): string =>
  JSON.stringify({
    model,
    messages: [
      { role: 'system', content: 'You answer briefly.' },
      { role: 'user', content: CONTENT },
    ],
    temperature: 0.2,
    ...more,
  })

/** The same for the Messages API. */
export const toMessagesBody = (model: string, more: Record<string, unknown>): string =>
  JSON.stringify({
    model,
    system: 'You answer briefly.',
    messages: [{ role: 'user', content: CONTENT }],
    temperature: 0.2,
    ...more,
  })

/** A conversation of about 64 kB, as an agent sends it each turn. */
export const toLargeChatBody = (model: string): string =>
  toChatBody(model, {
    messages: Array.from({ length: 64 }, (_, turn) => ({
      role: turn % 2 === 0 ? 'user' : 'assistant',
      content: `Turn ${turn}: ${CONTENT.repeat(3)}`,
    })),
  })

/** Throws if wrk can't be run. */
export async function loadJson(
  subject: Subject,
  folder: string,
  connections: number,
  seconds: number,
  body = toChatBody(subject.model),
): Promise<JsonResult> {
  const script = join(folder, `${subject.name}.lua`)
  writeFileSync(
    script,
    `wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = "Bearer ${subject.key}"
wrk.body = [==[${body}]==]
`,
  )
  const flags = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '10s', '--latency', '-s', script]
  const before = cpuMicros(subject.process.pid)
  const jitMicros = followJit(subject.process.pid)
  const wrk = Bun.spawn(['wrk', ...flags, `${subject.origin}/v1/chat/completions`], { stdout: 'pipe', stderr: 'pipe' })
  const said = await new Response(wrk.stdout).text()
  if ((await wrk.exited) !== 0) throw new Error(`wrk failed: ${said}${await new Response(wrk.stderr).text()}`)
  const cpu = cpuMicros(subject.process.pid) - before
  const jit = jitMicros()
  const requests = Number(/(\d+) requests in/.exec(said)?.[1] ?? 0)
  const socketErrors = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(said)?.slice(1) ?? []
  const refused = Number(/Non-2xx or 3xx responses: (\d+)/.exec(said)?.[1] ?? 0)
  return {
    requestsPerSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(said)?.[1] ?? 0),
    p50Ms: toMs(/ 50%\s+([\d.]+)(us|ms|s)/.exec(said)),
    p99Ms: toMs(/ 99%\s+([\d.]+)(us|ms|s)/.exec(said)),
    cpuMicrosPerRequest: cpu / Math.max(1, requests),
    jitMicrosPerRequest: jit / Math.max(1, requests),
    rssMegabytes: rssMegabytes(subject.process.pid),
    errors: socketErrors.reduce((sum, count) => sum + Number(count), refused),
  }
}

const MS: Record<string, number> = { us: 0.001, ms: 1, s: 1000 }

function toMs(found: RegExpExecArray | null): number {
  return Number(found?.[1] ?? 0) * (MS[found?.[2] ?? 'ms'] ?? 1)
}
