/**
 * A restart without an interruption, for both servers. Steps of the earlier server:
 *
 * 1. `begin`: keeps all new connections from the later server, and starts it.
 * 2. `giveFolder`, once the later server has checked its settings: holds new requests. Once each earlier request is recorded, rejected, or answered, releases
 *    the data folder (`ledger/other-journals.ts`).
 * 3. `leave`, once the later server listens: forwards held requests, and new ones on existing connections, over `handover.sock`, each as the last of its
 *    connection. New connections go to the later server.
 *
 * If the later server ends before the third step, `resume` takes the folder back and answers held requests.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Load } from '../gateway/admission.ts'
import { LARGEST_BODY_BYTES } from '../http/app.ts'
import { peers } from '../http/client-ip.ts'
import type { ListeningApp } from '../http/instance.ts'
import type { BudgetRefusal, HeldRaise } from '../limits/budget.ts'
import type { NodeLimiter } from '../limits/limiter.ts'
import { type Listener, type ListenerRange, toLast } from './listener.ts'
import { socketPath } from './protocol.ts'

const handoverPath = (dataFolder: string) => join(dataFolder, 'handover.sock')

/** Header with the client's IP address, added by the earlier server. */
const PEER = 'x-tollgate-peer'

/** Resources that the later server may share. */
export interface Handed {
  /** Port of the earlier server; null if it has ended. */
  port: number | null
  /** All ports of the earlier server. */
  ports: readonly number[]
}

export interface Handover {
  begin(): Promise<void>
  giveFolder(): Promise<Handed>
  /** Throws if another server has the folder. Then this server has left. */
  resume(): Promise<void>
  /** @param listeners number of listeners of the later server. */
  leave(listeners: number): Promise<void>
  /** Call after `leave` if the later server has ended, because its successor needs the port. */
  end(): void
  readonly ended: Promise<void>
}

/** Holds new requests until it is decided which server answers them. */
export interface Gate {
  /** Resolves once each earlier request is recorded, rejected, or answered. */
  hold(): Promise<void>
  /** `there`: the later server answers held and new requests. */
  decide(where: 'here' | 'there'): void | Promise<void>
}

export interface GateDeps {
  dataFolder: string
  listener: Pick<Listener, 'divert'>
  app: ListeningApp
  load: Pick<Load, 'inFlight' | 'admitted'>
  limiter: Pick<NodeLimiter, 'askSuccessor'>
  /** Rejects requests whose bodies are still being received. */
  endUploads(): void
}

/** How long bodies may continue to arrive while new requests are held. */
const UPLOAD_MS = 1_000
const LOOK_MS = 2

export function createGate({ dataFolder, listener, app, load, limiter, endUploads }: GateDeps): Gate {
  let decided = Promise.withResolvers<'here' | 'there'>()
  const answer = async (request: Request): Promise<Response> => {
    const where = await decided.promise
    if (where === 'here') return app.fetch(request)
    return toLast(await forward(request, app.server?.requestIP(request)?.address ?? '', handoverPath(dataFolder)))
  }
  return {
    async hold() {
      decided = Promise.withResolvers()
      const { promise } = decided
      limiter.askSuccessor(async (raise) => ((await promise) === 'there' ? askThere(dataFolder, raise) : undefined))
      listener.divert(answer)
      // Requests of this turn enter after it.
      await new Promise(setImmediate)
      await untilAdmitted(load, endUploads)
    },
    decide(where) {
      if (where === 'here') listener.divert(null)
      decided.resolve(where)
    },
  }
}

/** Resolves once each request is recorded, rejected, or answered. */
export async function untilAdmitted(load: GateDeps['load'], endUploads: () => void): Promise<void> {
  const endMs = performance.now() + UPLOAD_MS
  while (load.inFlight > load.admitted && performance.now() < endMs) await Bun.sleep(LOOK_MS)
  if (load.inFlight > load.admitted) endUploads()
  while (load.inFlight > load.admitted && performance.now() < endMs + UPLOAD_MS) await Bun.sleep(LOOK_MS)
}

export interface HandoverDeps {
  listener: Pick<Listener, 'prefer' | 'port' | 'count'>
  gate: Gate
  /** Ports of metrics and redirects. */
  otherPorts: readonly number[]
  giveFolder(): Promise<void>
  /** Throws a ServiceError if another server has the folder. */
  takeFolderBack(): Promise<void>
  /** Stops work that only the folder's server does. */
  stopBackground(): Promise<void>
}

export function createHandover({ listener, gate, otherPorts, ...deps }: HandoverDeps): Handover {
  const { port, count } = listener
  const ended = Promise.withResolvers<void>()
  return {
    ended: ended.promise,
    end: ended.resolve,
    async begin() {
      const own: ListenerRange = { first: 0, count }
      if (!(await listener.prefer(own))) throw new Error('this system has no SO_ATTACH_REUSEPORT_CBPF')
    },
    async giveFolder() {
      await gate.hold()
      await deps.giveFolder()
      return { port, ports: [port, ...otherPorts] }
    },
    async resume() {
      try {
        await deps.takeFolderBack()
      } catch (error) {
        await gate.decide('there')
        await deps.stopBackground()
        throw error
      }
      await gate.decide('here')
    },
    async leave(listeners) {
      await listener.prefer({ first: count, count: listeners })
      await gate.decide('there')
      await deps.stopBackground()
    },
  }
}

const ASK_MS = 2_000

/** Undefined if the later server can't be reached. */
export async function askThere(dataFolder: string, raise: HeldRaise): Promise<BudgetRefusal | null | undefined> {
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
const OF_CONNECTION = ['connection', 'keep-alive', 'transfer-encoding']

/** Forwards to another process on this machine. */
export async function forward(request: Request, peer: string, unix: string): Promise<Response> {
  const headers = new Headers(request.headers)
  for (const name of OF_CONNECTION) headers.delete(name)
  headers.set(PEER, peer)
  try {
    const { method, signal } = request
    const init = { method, headers, body: request.body, signal, redirect: 'manual', decompress: false, unix } as const
    const url = URL.parse(request.url.replace(/^https/, 'http'), 'http://localhost')
    const response = await fetch(url ?? '', init)
    const answered = new Headers(response.headers)
    for (const name of OF_CONNECTION) answered.delete(name)
    return new Response(response.body, { status: response.status, headers: answered })
  } catch {
    return new Response(null, { status: 503, headers: { 'retry-after': '1' } })
  }
}

/** Answers requests forwarded by an earlier server. Returns a function that stops. */
export const answerForwarded = (dataFolder: string, app: ListeningApp, isSecure: boolean): (() => Promise<void>) =>
  listenForForwarded(handoverPath(dataFolder), app, isSecure)

/** @param path path of a socket, which is private to this user. */
export function listenForForwarded(path: string, app: ListeningApp, isSecure: boolean): () => Promise<void> {
  rmSync(path, { force: true })
  const mask = process.umask(0o077)
  try {
    const server = Bun.serve({
      unix: path,
      development: false,
      maxRequestBodySize: LARGEST_BODY_BYTES,
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
