/**
 * A restart without an interruption, as both servers see it. The earlier one:
 *
 * 1. `begin`: it keeps all new connections from the later one, which it then starts.
 * 2. `giveFolder`, once the later one has checked its settings: new requests are held. Once each earlier one is recorded, rejected, or answered, the data
 *    folder changes hands (`ledger/other-journals.ts`).
 * 3. `leave`, once the later one listens: held requests, and new ones on connections that exist, are forwarded to it over `handover.sock`, each as the last of
 *    its connection. New connections go to the later one.
 *
 * If the later one ends before the third step, `resume` takes the folder back and answers what was held.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Load } from '../gateway/admission.ts'
import type { App } from '../http/app.ts'
import { peers } from '../http/client-ip.ts'
import type { BudgetRefusal, HeldRaise } from '../limits/budget.ts'
import type { Limiter } from '../limits/limiter.ts'
import { type Listener, toLast } from './listener.ts'
import { socketPath } from './protocol.ts'

const pathIn = (dataFolder: string) => join(dataFolder, 'handover.sock')

/** Of the client, added by the earlier server. */
const PEER = 'x-tollgate-peer'

/** What the later server may share. */
export interface Handed {
  /** Where the earlier one listens; null if it is gone. */
  port: number | null
  /** All its ports. */
  ports: readonly number[]
}

export interface Handover {
  begin(): Promise<void>
  giveFolder(): Promise<Handed>
  /** Throws if another server has the folder; then this one has left. */
  resume(): Promise<void>
  leave(): Promise<void>
  /** After `leave`: the later one has ended, so its successor needs the port. */
  end(): void
  readonly ended: Promise<void>
}

export interface HandoverDeps {
  dataFolder: string
  listener: Listener
  app: App
  /** Of the metrics and redirects. */
  otherPorts: readonly number[]
  load: Pick<Load, 'inFlight' | 'admitted'>
  limiter: Pick<Limiter, 'askSuccessor'>
  /** Rejects requests whose bodies are still being received. */
  endUploads(): void
  giveFolder(): Promise<void>
  /** Throws a ServiceError if another server has the folder. */
  takeFolderBack(): Promise<void>
  /** Stops what only the server of the folder does. */
  stopBackground(): Promise<void>
}

/** How long a body may still arrive while new requests are held. */
const UPLOAD_MS = 1_000
const LOOK_MS = 2

export function createHandover(deps: HandoverDeps): Handover {
  const { dataFolder, listener, app, load } = deps
  let decided = Promise.withResolvers<'here' | 'there'>()
  const answer = async (request: Request): Promise<Response> => {
    const where = await decided.promise
    if (where === 'here') return app.fetch(request)
    return forward(request, app.server?.requestIP(request)?.address ?? '', pathIn(dataFolder))
  }
  const ended = Promise.withResolvers<void>()
  return {
    ended: ended.promise,
    end: ended.resolve,
    async begin() {
      if (!(await listener.keepConnections())) throw new Error('this system has no SO_ATTACH_REUSEPORT_CBPF')
    },
    async giveFolder() {
      decided = Promise.withResolvers()
      const { promise } = decided
      deps.limiter.askSuccessor(async (raise) =>
        (await promise) === 'there' ? askThere(dataFolder, raise) : undefined,
      )
      listener.divert(answer)
      // Requests of this turn are entered after it.
      await new Promise(setImmediate)
      const endMs = performance.now() + UPLOAD_MS
      while (load.inFlight > load.admitted && performance.now() < endMs) await Bun.sleep(LOOK_MS)
      if (load.inFlight > load.admitted) deps.endUploads()
      while (load.inFlight > load.admitted && performance.now() < endMs + UPLOAD_MS) await Bun.sleep(LOOK_MS)
      await deps.giveFolder()
      return { port: listener.port, ports: [listener.port, ...deps.otherPorts] }
    },
    async resume() {
      try {
        await deps.takeFolderBack()
      } catch (error) {
        decided.resolve('there')
        await deps.stopBackground()
        throw error
      }
      listener.divert(null)
      decided.resolve('here')
    },
    async leave() {
      await listener.giveConnections()
      decided.resolve('there')
      await deps.stopBackground()
    },
  }
}

const ASK_MS = 2_000

/** Undefined if the later server can't be asked. */
async function askThere(dataFolder: string, raise: HeldRaise): Promise<BudgetRefusal | null | undefined> {
  try {
    const response = await fetch('http://localhost/budget/raise', {
      ...{ method: 'POST', body: JSON.stringify(raise), unix: socketPath(dataFolder) },
      signal: AbortSignal.timeout(ASK_MS),
    })
    return response.ok ? ((await response.json()) as { refusal: BudgetRefusal | null }).refusal : undefined
  } catch {
    return undefined
  }
}

/** Headers of one connection. */
const OF_CONNECTION = ['connection', 'keep-alive', 'transfer-encoding', 'content-length']

async function forward(request: Request, peer: string, unix: string): Promise<Response> {
  const headers = new Headers(request.headers)
  for (const name of OF_CONNECTION) headers.delete(name)
  headers.set(PEER, peer)
  try {
    const { method, signal } = request
    const init = { method, headers, body: request.body, signal, redirect: 'manual', decompress: false, unix } as const
    const response = await fetch(request.url.replace(/^https/, 'http'), init)
    const answered = new Headers(response.headers)
    for (const name of OF_CONNECTION) answered.delete(name)
    return toLast(new Response(response.body, { status: response.status, headers: answered }))
  } catch {
    return toLast(new Response(null, { status: 503, headers: { 'retry-after': '1' } }))
  }
}

/** Answers what an earlier server forwards. Returns what ends it. */
export function answerForwarded(dataFolder: string, app: App, isSecure: boolean): () => Promise<void> {
  const path = pathIn(dataFolder)
  rmSync(path, { force: true })
  const mask = process.umask(0o077)
  try {
    const server = Bun.serve({
      unix: path,
      development: false,
      async fetch(request, server) {
        server.timeout(request, 0)
        const peer = request.headers.get(PEER)
        // The app's routes are compiled for the scheme.
        const own = isSecure ? new Request(request.url.replace(/^http:/, 'https:'), request) : request
        own.headers.delete(PEER)
        if (peer) peers.set(own, peer)
        return app.fetch(own)
      },
    })
    return () => server.stop(false)
  } finally {
    process.umask(mask)
  }
}
