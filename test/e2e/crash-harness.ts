/**
 * Kills the built binary at random moments under load, and remembers what its clients received and its upstream saw.
 * `crash.test.ts` and `long/crash.test.ts` decide what happens in between; `crash-verdict.ts` holds the ledger against
 * it. Every choice comes from a seed.
 */
import { openSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { findFreePort } from '../support/free-port.ts'
import { createRandom } from '../support/random.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'

export const BINARY = process.env.TOLLGATE_BINARY ?? resolve(import.meta.dir, '../../dist/tollgate')
const MODEL = 'acme/large'

/** A complete answer: what a client holds in its hands when it says that it got one. */
export interface Received {
  number: number
  stream: boolean
  /** Ledger id, from `x-request-id`. */
  id: string
  completionId: string
  costNanoUsd: number | null
}

/** Every fifth request wants several choices, of an upstream that writes one a call. */
const toChoices = (number: number) => (number % 5 === 0 ? 2 + (number % 3) : 1)

/** Tokens of a call of the request with that number, as its upstream counts them. */
const toCounts = (number: number) => ({
  prompt: 50 + (number % 400),
  cached: number % 37,
  completion: 3 + (number % 11),
})

/** Calls and tokens of the request with that number, and what they cost. */
export function toExpected(number: number) {
  const calls = toChoices(number)
  const { prompt, cached, completion } = toCounts(number)
  const cost = (prompt - cached) * 1_250 + cached * 125 + completion * 10_001
  return {
    calls,
    prompt: calls * prompt,
    cached: calls * cached,
    completion: calls * completion,
    costNanoUsd: calls * cost,
  }
}

export interface CrashBench {
  data: string
  upstream: ScriptedUpstream
  received: Received[]
  /** How often a client met each status, or code in an error frame. Lost connections are not in it. */
  refusals: Map<string, number>
  random(): number
  between(low: number, high: number): number
  /** Starts the server and waits until it answers. Returns what it said where it ended instead. */
  start(): Promise<string | null>
  kill(): Promise<void>
  /** Ends it as an administrator would. Returns its exit code. */
  drain(): Promise<number>
  /** Has `clients` clients ask without end. Returns how they are stopped. */
  load(clients: number): () => Promise<void>
  /** Runs a command of the binary on the data folder. */
  run(...argv: string[]): Promise<{ code: number; stdout: string; stderr: string }>
  stop(): Promise<void>
}

/** @param folder takes the logs; the data are in `folder/data`, which may be a disk of its own. */
export async function createCrashBench(folder: string, seed: number): Promise<CrashBench> {
  const data = join(folder, 'data')
  await mkdir(data, { recursive: true, mode: 0o700 })
  const upstream = await startUpstream(({ json }) => {
    const number = Number(json?.user)
    const { prompt, cached, completion } = toCounts(number)
    const usage = {
      prompt_tokens: prompt,
      completion_tokens: completion,
      prompt_tokens_details: { cached_tokens: cached },
    }
    const answer = { tokens: completion, usage, delayMs: number % 7 }
    return json?.stream ? streamAnswer({ ...answer, paceMs: number % 4 }) : wholeAnswer(answer)
  })
  const port = await findFreePort()
  const catalog = join(folder, 'catalog.yaml')
  await Bun.write(catalog, toCatalog(upstream.url))
  const logFile = join(folder, 'serve.log')
  const random = createRandom(seed)
  const received: Received[] = []
  const refusals = new Map<string, number>()
  let child: Bun.Subprocess | null = null
  let key = ''
  let last = 0

  const ask = async (): Promise<boolean> => {
    const number = ++last
    const stream = random() < 0.5
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: MODEL,
        user: String(number),
        n: toChoices(number),
        stream,
        ...(stream ? { stream_options: { include_usage: true } } : {}),
        messages: [{ role: 'user', content: 'Hello there!' }],
      }),
    })
    const answer = toAnswer(await response.text(), stream)
    if (response.status !== 200 || !answer) {
      const reason = `${response.status} ${answer?.error ?? ''}`.trim()
      refusals.set(reason, (refusals.get(reason) ?? 0) + 1)
      return false
    }
    if (answer.error !== null) refusals.set(answer.error, (refusals.get(answer.error) ?? 0) + 1)
    if (!answer.complete) return false
    const id = (response.headers.get('x-request-id') ?? '').replace(/^req_/, '')
    received.push({ number, stream, id, completionId: answer.id, costNanoUsd: answer.costNanoUsd })
    return true
  }

  const spawn = (...argv: string[]) => {
    const log = openSync(logFile, 'a')
    return Bun.spawn([BINARY, ...argv], { stdin: 'ignore', stdout: log, stderr: log, env: {} })
  }

  return {
    data,
    upstream,
    received,
    refusals,
    random,
    between: (low, high) => low + Math.floor(random() * (high - low)),
    async start() {
      const before = Bun.file(logFile).size
      const serve = ['serve', '--data', data, '--catalog', catalog, '--port', String(port)]
      const started = spawn(...serve, ...(key === '' ? ['--first-key'] : []))
      child = started
      const said = () => readFileSync(logFile, 'utf8').slice(before)
      for (;;) {
        const up = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => null)
        if (up?.ok) break
        if (started.exitCode !== null || started.signalCode !== null) return said()
        await Bun.sleep(5)
      }
      while (key === '') {
        key = /^sk-tg-[A-Za-z0-9]{38}$/m.exec(said())?.[0] ?? ''
        await Bun.sleep(5)
      }
      return null
    },
    async kill() {
      child?.kill('SIGKILL')
      await child?.exited
    },
    async drain() {
      child?.kill('SIGTERM')
      return (await child?.exited) ?? -1
    },
    load(clients) {
      let going = true
      const client = async () => {
        while (going) {
          const done = await ask().catch(() => false)
          if (!done) await Bun.sleep(10)
        }
      }
      const all = Promise.all(Array.from({ length: clients }, client))
      return async () => {
        going = false
        await all
      }
    },
    async run(...argv) {
      const ran = Bun.spawn([BINARY, ...argv, '--data', data], { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
      const [stdout, stderr, code] = await Promise.all([ran.stdout.text(), ran.stderr.text(), ran.exited])
      return { code, stdout, stderr }
    },
    async stop() {
      child?.kill('SIGKILL')
      await child?.exited
      await upstream.stop()
    },
  }
}

interface Answer {
  complete: boolean
  id: string
  costNanoUsd: number | null
  error: string | null
}

/** Null where the body is neither a whole JSON document nor frames. */
function toAnswer(text: string, stream: boolean): Answer | null {
  const isFrames = stream && text.startsWith('data: ')
  const frames = isFrames ? text.split('\n\n').filter((frame) => frame.startsWith('data: {')) : [text]
  const answer: Answer = {
    complete: !isFrames || text.endsWith('data: [DONE]\n\n'),
    id: '',
    costNanoUsd: null,
    error: null,
  }
  try {
    for (const frame of frames) {
      const json = JSON.parse(frame.replace(/^data: /, ''))
      if (json.error) answer.error = String(json.error.code ?? json.error.type)
      answer.id = String(json.id ?? answer.id).replace(/^chatcmpl-/, '')
      answer.costNanoUsd = json.usage?.cost_nano_usd ?? answer.costNanoUsd
    }
    return answer
  } catch {
    return isFrames ? { ...answer, complete: false } : null
  }
}

/** JSON is valid YAML. Prices that no sum of a few tokens makes by accident. */
const toCatalog = (url: string) =>
  JSON.stringify({
    version: 1,
    upstreams: { paid: { dialect: 'openai', base_url: url, n: false } },
    models: {
      [MODEL]: {
        name: 'Large',
        context_length: 8_192,
        max_output_length: 1_000,
        input_modalities: ['text'],
        output_modalities: ['text'],
        supported_features: [],
        pricing: [{ prompt: '0.00000125', completion: '0.000010001', input_cache_read: '0.000000125' }],
        routes: [{ upstream: 'paid', model: 'large-v1' }],
      },
    },
  })
