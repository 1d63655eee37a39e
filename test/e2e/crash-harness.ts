/**
 * Kills the built binary at random moments under load on every endpoint, and records what clients received and the
 * upstream saw. Seeded; `crash-verdict.ts` judges the ledger.
 */
import { closeSync, existsSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { hear } from '../support/door-clients.ts'
import { answering, failing } from '../support/door-upstreams.ts'
import { DOORS, type Door, toDoorCatalogue, writes } from '../support/doors.ts'
import { findFreePort } from '../support/free-port.ts'
import { createRandom } from '../support/random.ts'
import { type ScriptedUpstream, type Seen, startUpstream } from '../support/upstream.ts'
import type { Behaviour } from '../support/upstream-answers.ts'
import { createTalk, startTalkUpstream, type Talk, type TalkUpstream } from './crash-realtime.ts'

export const BINARY = process.env.TOLLGATE_BINARY ?? resolve(import.meta.dir, '../../dist/tollgate')

/** Only complete responses. */
export interface Received {
  number: number
  stream: boolean
  /** Ledger id, from `x-request-id`. */
  id: string
  /** Without its prefix; null if the response has no ID. */
  answerId: string | null
  /** Null if the client isn't told. */
  costNanoUsd: number | null
}

export const doorOf = (number: number): Door => DOORS[number % DOORS.length] as Door

/** Every fifth chat has several choices, on an upstream that writes one per call. */
const toChoices = (number: number) =>
  doorOf(number).client.endpoint === 'chat' && number % 5 === 0 ? 2 + (number % 3) : 1

const toCounts = (number: number) => {
  const door = doorOf(number)
  return {
    prompt: 50 + (number % 400),
    cached: door.client.makes === 'text' ? number % 37 : 0,
    completion: writes(door) ? 3 + (number % 11) : 0,
  }
}

export function toExpected(number: number) {
  const calls = toChoices(number)
  const { prompt, cached, completion } = toCounts(number)
  const cost = (prompt - cached) * 1_250 + cached * 125 + completion * 10_001
  const { lane, client } = doorOf(number)
  return {
    calls,
    lane,
    endpoint: client.endpoint,
    prompt: calls * prompt,
    cached: calls * cached,
    completion: calls * completion,
    costNanoUsd: calls * cost,
  }
}

/** One server and its data folder. */
export interface CrashServer {
  data: string
  /** Without `/v1`. */
  url: string
  /** From now on runs another version, by its command line; at first, the built binary. */
  use(...program: string[]): void
  /** Resolves to its output if it ends instead of starting. */
  start(): Promise<string | null>
  kill(): Promise<void>
  /** Process IDs of all servers of the folder, oldest first: several during a restart. */
  servers(): number[]
  /** ID of the process that `start` started last. */
  pid(): number
  /** Ends it gracefully; returns the exit code. */
  drain(): Promise<number>
  run(...argv: string[]): Promise<{ code: number; stdout: string; stderr: string }>
  /** Log of all its runs. */
  log(): string
}

export interface CrashLoad {
  received: Received[]
  /** Number of responses per status, or per code in an error frame; without lost connections. */
  refusals: Map<string, number>
  /** Sends one request; resolves to whether its response was complete. */
  ask(number: number): Promise<boolean>
  /** Sends requests until the returned function is called. */
  load(clients: number): () => Promise<void>
}

export interface CrashBench extends CrashServer, CrashLoad, Pick<Talk, 'heard'> {
  upstream: ScriptedUpstream
  talker: TalkUpstream
  /** Calls fail, break off, and are canceled. */
  isFaulty: boolean
  random(): number
  between(low: number, high: number): number
  stop(): Promise<void>
}

export const toBetween = (random: () => number) => (low: number, high: number) =>
  low + Math.floor(random() * (high - low))

export const numberOf = ({ body }: Pick<Seen, 'body'>) => Number(/Request (\d+)\./.exec(body)?.[1])

export type Fault = 'fails' | 'reset' | 'cut' | 'left'
/** Per twelve requests, so that each endpoint has each. */
const FAULTS: Readonly<Record<number, Fault>> = { 1: 'fails', 4: 'reset', 7: 'cut', 10: 'left' }
export const faultOf = (number: number): Fault | null => (toChoices(number) > 1 ? null : (FAULTS[number % 12] ?? null))

/** Usage of a request's first call. */
function toFault(answer: Behaviour, fault: Fault | null): Behaviour | null {
  if (fault === 'fails') return failing(500)
  if (fault === 'reset') return { kind: 'reset' }
  if (fault !== 'cut') return null
  if (answer.kind === 'stream') return { ...answer, steps: [...answer.steps].slice(0, -2), end: 'cut' }
  const half = answer.kind === 'whole' ? JSON.stringify(answer.body).slice(0, -9) : ''
  return { kind: 'stream', headers: { 'content-type': 'application/json' }, steps: [half], end: 'cut' }
}

/** Responds to the requests of `createLoad`, with the tokens in `toExpected`. */
export const startCrashUpstream = (isFaulty = false): Promise<ScriptedUpstream> =>
  startUpstream((seen) => {
    const number = numberOf(seen)
    const counts = toCounts(number)
    const words = Array.from({ length: counts.completion }, (_, at) => `tok${at} `)
    const answer = answering(doorOf(number).upstream, words, counts)(seen)
    const isFirst = seen.headers['x-client-request-id']?.endsWith('-1')
    const fault = isFaulty && isFirst ? toFault(answer, faultOf(number)) : null
    if (fault) return fault
    return { ...answer, delayMs: number % 7, ...(answer.kind === 'stream' ? { paceMs: number % 4 } : {}) }
  })

/** @param folder contains the logs; the data are in `folder/data`, which may be a separate disk. */
export async function createCrashBench(
  folder: string,
  seed: number,
  flags: string[] = [],
  isFaulty = false,
): Promise<CrashBench> {
  const upstream = await startCrashUpstream(isFaulty)
  const talker = startTalkUpstream()
  const random = createRandom(seed)
  let key = ''
  const server = await createCrashServer(folder, upstream.url, {
    talk: talker.url,
    flags: () => [...flags, ...(key === '' ? ['--first-key'] : [])],
    async started(said) {
      while (key === '') {
        key = FIRST_KEY.exec(said())?.[0] ?? ''
        await Bun.sleep(5)
      }
    },
  })
  const target = () => ({ url: server.url, key })
  const load = createLoad(random, target, isFaulty)
  const { heard, talk } = createTalk(target)
  return {
    ...{ ...server, upstream, talker, random, between: toBetween(random) },
    ...{ ...load, heard, isFaulty },
    load(clients) {
      const ends = [load.load(clients), talk(TALKERS)]
      return async () => {
        await Promise.all(ends.map((end) => end()))
      }
    },
    async stop() {
      await server.kill()
      talker.stop()
      await upstream.stop()
    },
  }
}

const TALKERS = 2

export const FIRST_KEY = /^sk-tg-[A-Za-z0-9]{38}$/m

/** The maximum that the upstream counts, so that no cost exceeds its reservation. */
const WORDS = ' a b'.repeat(225)

/** @param target of each request. */
export function createLoad(
  random: () => number,
  target: () => { url: string; key: string },
  isFaulty = false,
): CrashLoad {
  const received: Received[] = []
  const refusals = new Map<string, number>()
  let last = 0

  const ask = async (number: number): Promise<boolean> => {
    const door = doorOf(number)
    const stream = door.upstream.stream !== null && random() < 0.5
    const choices = toChoices(number)
    const asked = door.client.body({ text: `Request ${number}.${WORDS}`, stream, user: String(number) })
    const { url, key } = target()
    const { path, pathOf, encode } = door.client
    const model = `${door.id}/one`
    const json = JSON.stringify({ ...(pathOf ? {} : { model }), ...asked, ...(choices > 1 ? { n: choices } : {}) })
    const sent = encode?.(json) ?? { type: 'application/json', body: json }
    const response = await fetch(`${url}/v1${pathOf?.(model, stream) ?? path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': sent.type },
      body: sent.body,
      ...(isFaulty && faultOf(number) === 'left' ? { signal: AbortSignal.timeout(number % 9) } : {}),
    })
    const text = await response.text()
    const { failure, isComplete, costNanoUsd } = toAnswer(door, response, text, stream)
    if (failure !== null) refusals.set(failure, (refusals.get(failure) ?? 0) + 1)
    if (!isComplete) return false
    const id = (response.headers.get('x-request-id') ?? '').replace(/^req_/, '')
    const answerId = /"id":"(?:chatcmpl-|msg_|resp_|cmpl-|modr-)?([0-9a-f]{32})"/.exec(text)?.[1] ?? null
    received.push({ number, stream, id, answerId, costNanoUsd })
    return true
  }

  return {
    ...{ received, refusals, ask },
    load(clients) {
      let going = true
      const client = async () => {
        while (going) {
          const done = await ask(++last).catch(() => false)
          if (!done) await Bun.sleep(10)
        }
      }
      const all = Promise.all(Array.from({ length: clients }, client))
      return async () => {
        going = false
        await all
      }
    },
  }
}

export interface CrashServerOptions {
  /** Base URL of its upstream for realtime sessions. */
  talk?: string
  /** Called at each start. */
  flags(): string[]
  /** Called after each start; `said` is its output. */
  started?(said: () => string): Promise<void>
  environment?: Record<string, string>
}

/** @param upstream the upstream's URL. */
export async function createCrashServer(
  folder: string,
  upstream: string,
  { talk, flags, started = async () => {}, environment = {} }: CrashServerOptions,
): Promise<CrashServer> {
  const data = join(folder, 'data')
  await mkdir(data, { recursive: true, mode: 0o700 })
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const catalog = join(folder, 'catalog.yaml')
  await Bun.write(catalog, toDoorCatalogue({ near: upstream, far: upstream, price: PRICE, talk }))
  const logFile = join(folder, 'serve.log')
  const log = () => (existsSync(logFile) ? readFileSync(logFile, 'utf8') : '')
  let child: Bun.Subprocess | null = null
  let program = [BINARY]

  const servers = () =>
    readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0 && isServing(pid, data))
      .sort((a, b) => a - b)

  return {
    ...{ data, url, servers, log },
    use: (...other) => {
      program = other
    },
    async start() {
      const before = log().length
      const said = () => log().slice(before)
      const out = openSync(logFile, 'a')
      const serving = Bun.spawn(
        [...program, 'serve', '--data', data, '--catalog', catalog, '--port', String(port), ...flags()],
        { stdin: 'ignore', stdout: out, stderr: out, env: { UPSTREAM_KEY: 'its credential', ...environment } },
      )
      closeSync(out)
      child = serving
      for (;;) {
        const up = await fetch(`${url}/healthz`).catch(() => null)
        if (up?.ok) break
        if (serving.exitCode !== null || serving.signalCode !== null) return said()
        await Bun.sleep(5)
      }
      await started(said)
      return null
    },
    async kill() {
      for (const pid of servers()) process.kill(pid, 'SIGKILL')
      await child?.exited
    },
    pid: () => child?.pid ?? 0,
    async drain() {
      const ending = servers()
      for (const pid of ending) process.kill(pid, 'SIGTERM')
      while (servers().length > 0) await Bun.sleep(20)
      const code = (await child?.exited) ?? -1
      // A server that succeeded another is not this process's child.
      return child && !ending.includes(child.pid) && ending.length > 0 ? 0 : code
    },
    async run(...argv) {
      const ran = Bun.spawn([...program, ...argv, '--data', data], { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
      const [stdout, stderr, code] = await Promise.all([ran.stdout.text(), ran.stderr.text(), ran.exited])
      return { code, stdout, stderr }
    },
  }
}

function isServing(pid: number, data: string): boolean {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return words.includes('serve') && words.includes(data)
  } catch {
    return false
  }
}

interface Answer {
  isComplete: boolean
  costNanoUsd: number | null
  /** Conversation in the endpoint's format. */
  failure: string | null
}

function toAnswer(door: Door, { status }: Response, text: string, stream: boolean): Answer {
  const failed = (what: string) => ({ isComplete: false, costNanoUsd: null, failure: what })
  if (status !== 200) {
    const { error } = JSON.parse(text)
    return failed(`${status} ${error.code ?? error.type}: ${error.message}`)
  }
  if (!stream) return { isComplete: true, failure: null, ...door.client.whole(text) }
  const { end, failure, costNanoUsd } = hear(door.client, text)
  if (failure) return failed(`${failure.code ?? failure.type}: ${failure.message}`)
  return { isComplete: end === 'whole', costNanoUsd, failure: null }
}

/** Prices that no sum of a few tokens has by accident. */
const PRICE = '{ prompt: "0.00000125", completion: "0.000010001", input_cache_read: "0.000000125" }'
