/** Starts model servers on a free port with a new key and a log file, and checks whether they are ready. */
import { mkdirSync } from 'node:fs'
import { appendFile, rename, stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { asObject, type JsonObject } from '../domain/json.ts'
import type { ProcessSpec } from '../domain/model-server.ts'
import { readUpTo } from '../domain/text.ts'
import { type Launched, launch, runStopCommand } from './child.ts'
import { type Filling, isNamed, toNamedModel } from './command.ts'
import type { Engine } from './fleet.ts'

interface EngineOptions {
  folder: string
  /** See `toServerEnvironment`. */
  owner: string | null
  environment: Readonly<Record<string, string | undefined>>
  /** Wall clock, ms. */
  now(): number
  findPort?(): number
}

/** `<path>.1` has the older half. */
export const logPath = (folder: string, id: string) => join(folder, `${id}.log`)

export function createEngine({ folder, owner, environment, now, findPort = findFreePort }: EngineOptions): Engine {
  const logs = new Map<string, LogFile>()
  const logOf = (id: string) => logs.getOrInsertComputed(id, () => new LogFile(logPath(folder, id)))
  const optionsOf = (id: string) => ({ environment, owner, write: (text: string) => logOf(id).write(text) })
  const tell = (id: string, what: string) => logOf(id).write(`--- ${new Date(now()).toISOString()} ${what}\n`)
  return {
    async launch(id, slug, spec) {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      const filling: Filling = { port: findPort(), key: mintKey(), slug }
      // Signals may not reach a server of an earlier run.
      await runStopCommand(spec, filling, optionsOf(id))
      try {
        const server = launch(spec, filling, optionsOf(id))
        tell(id, `started as process ${server.pid} on port ${server.port}`)
        void server.exited.then((how) => tell(id, how))
        return server
      } catch (error) {
        tell(id, `not started: ${error instanceof Error ? error.message : String(error)}`)
        throw error
      }
    },
    look: lookAt,
    runStopCommand: (id, server, spec) => runStopCommand(spec, server, optionsOf(id)),
  }
}

const mintKey = () => crypto.getRandomValues(new Uint8Array(24)).toBase64({ alphabet: 'base64url', omitPadding: true })

function findFreePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  listener.stop(true)
  return listener.port
}

const LOG_BYTES = 4 * 1024 * 1024
const MAX_WAITING = 1024 * 1024

/**
 * A log file of bounded size, rotated to `<file>.1`. Never throws and never blocks the server. If the disk is full,
 * output is dropped.
 */
export class LogFile {
  readonly #path: string
  readonly #mostBytes: number
  #waiting: string[] = []
  #waitingChars = 0
  #bytes: number | null = null
  #writing: Promise<void> | null = null

  /** @param mostBytes of both files. */
  constructor(path: string, mostBytes = LOG_BYTES) {
    this.#path = path
    this.#mostBytes = mostBytes
  }

  write(text: string): void {
    if (this.#waitingChars > MAX_WAITING) return
    this.#waiting.push(text)
    this.#waitingChars += text.length
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null
    })
  }

  /** Resolves once all text is written or lost. */
  flush(): Promise<void> {
    return this.#writing ?? Promise.resolve()
  }

  async #writeAll(): Promise<void> {
    try {
      this.#bytes ??= (await stat(this.#path).catch(() => null))?.size ?? 0
      while (this.#waiting.length > 0) {
        const text = this.#waiting.join('').slice(0, this.#mostBytes / 2)
        this.#waiting = []
        this.#waitingChars = 0
        const bytes = Buffer.byteLength(text)
        if (this.#bytes > 0 && this.#bytes + bytes > this.#mostBytes / 2) {
          await rename(this.#path, `${this.#path}.1`)
          this.#bytes = 0
        }
        await appendFile(this.#path, text, { mode: 0o600 })
        this.#bytes += bytes
      }
    } catch {
      // A full disk must not stop a working server.
      this.#waiting = []
      this.#waitingChars = 0
      this.#bytes = null
    }
  }
}

export interface Answer {
  status: number
  text: string
}

interface Question {
  headers?: Record<string, string>
  /** JSON for a POST; undefined for a GET. */
  body?: string
  mostBytes: number
  /** Covers the whole response, since a server may send single bytes forever. */
  signal: AbortSignal
}

/** Bypasses proxies, unlike `fetch`. Also rejects on large responses and timeouts. */
export async function askDirectly(url: URL, { headers, body, mostBytes, signal }: Question): Promise<Answer> {
  const all = {
    ...{ accept: 'application/json', connection: 'close', ...headers },
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  }
  // Loaded on use: loading takes a tenth of a server's start.
  const { request } = await (url.protocol === 'https:' ? import('node:https') : import('node:http'))
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const asked = request(url, { method: body === undefined ? 'GET' : 'POST', headers: all, agent: false }, resolve)
  asked.on('error', reject)
  const late = Promise.withResolvers<never>()
  const end = () => late.reject(signal.reason)
  signal.addEventListener('abort', end)
  asked.end(body)
  const read = async () => {
    const response = await promise
    const { text, isWhole } = await readUpTo(response, mostBytes)
    if (!isWhole) throw new Error('its response is too large')
    return { status: response.statusCode ?? 0, text }
  }
  try {
    return await Promise.race([read(), late.promise])
  } finally {
    signal.removeEventListener('abort', end)
    asked.destroy()
  }
}

const MAX_MS = 5_000
/** `/props` is a few kB, with the chat template. */
const MAX_BYTES = 4 * 1024 * 1024

export const ask = ({ port, key }: Pick<Launched, 'port' | 'key'>, path: string, body?: string): Promise<Answer> =>
  askDirectly(new URL(`http://127.0.0.1:${port}${path}`), {
    headers: { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body }),
    ...{ mostBytes: MAX_BYTES, signal: AbortSignal.timeout(MAX_MS) },
  })

/** `unsure`: it can't be identified. `foreign`: it is another server. */
export interface Look {
  state: 'ready' | 'sleeping' | 'unsure' | 'loading' | 'foreign'
}

/**
 * Checks that a server is ready and ours, because another server, such as one of an earlier run, may listen on its
 * port. Never throws.
 */
export async function lookAt(server: Launched, spec: ProcessSpec): Promise<Look> {
  try {
    const health = await ask(server, spec.health)
    if (isRefused(health)) return { state: 'foreign' }
    if (health.status !== 200) return { state: 'loading' }
    const answer = await ask(server, '/props')
    if (isRefused(answer)) return { state: 'foreign' }
    const props = answer.status === 200 ? toRecord(answer.text) : null
    const isOurs = props && isNamed(toNamedModel(server.words), props)
    if (isOurs === null) return { state: 'unsure' }
    return { state: !isOurs ? 'foreign' : props?.is_sleeping === true ? 'sleeping' : 'ready' }
  } catch {
    return { state: 'loading' }
  }
}

const isRefused = ({ status }: Answer) => status === 401 || status === 403

function toRecord(text: string): JsonObject | null {
  try {
    return asObject(JSON.parse(text))
  } catch {
    return null
  }
}
