/** Tries an engine before it is put in use: it says its version, loads a small model as every model here is loaded, and answers. */
import { rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { messageOf } from '../domain/error.ts'
import { IDLE_MS, type ProcessSpec } from '../domain/model-server.ts'
import type { Environment } from '../domain/snapshot.ts'
import { type Launched, launch } from '../processes/child.ts'
import { findFreePort } from '../processes/engine.ts'
import { runGuarded } from '../processes/guarded.ts'
import { lookAt } from '../processes/look.ts'
import { toCommand } from './command.ts'
import { makeTinyModel } from './tiny-model.ts'

export interface Trial {
  /** Where the small model may be for a while. */
  folder: string
  environment: Environment
}

const VERSION_MS = 30_000
/** With a graphics card the first load may take long. */
const READY_MS = 120_000
const LOOK_MS = 50
const ANSWER_MS = 60_000
const CONTEXT = 256
/** Of what a program has said, and of that for an administrator. */
const [MOST_KEPT, MOST_SAID] = [10_000, 300]

/** Resolves to the version that it says. Throws an Error whose message ends a sentence. */
export async function tryOut(program: string, trial: Trial): Promise<string> {
  const version = await askVersion(program, trial)
  const model = join(trial.folder, `.trial-${process.pid}.gguf`)
  try {
    writeFileSync(model, makeTinyModel(), { mode: 0o600 })
    await serveOnce(program, model, trial)
  } finally {
    rmSync(model, { force: true })
  }
  return version
}

async function askVersion(program: string, { environment }: Trial): Promise<string> {
  let said = ''
  const { code, how, isLate } = await runGuarded([program, '--version'], {
    environment: { PATH: environment.PATH ?? '' },
    secret: null,
    write: (text) => (said = toKept(said + text)),
    mostMs: VERSION_MS,
  })
  if (isLate) throw new Error(`its --version had not ended after ${VERSION_MS / 1_000} s`)
  if (code !== 0) throw new Error(toLastLine(said) || `its --version ${how}`)
  return /version: (.+)/.exec(said)?.[1]?.slice(0, 100) ?? 'unknown'
}

async function serveOnce(program: string, model: string, { environment }: Trial): Promise<void> {
  const words = toCommand({
    ...{ model, projector: null, context: CONTEXT, slots: 1, cores: 2, makesEmbeddings: false },
    device: null,
  })
  const spec: ProcessSpec = {
    ...{ command: [program, ...words.slice(1)], stopCommand: null, health: '/health', idleMs: IDLE_MS },
    ...{ memoryBytes: null, device: null, pin: false, preload: false, startMs: READY_MS, hash: '' },
  }
  let said = ''
  const filling = { port: findFreePort(), key: crypto.randomUUID(), slug: 'local/trial' }
  const server = launch(spec, filling, {
    environment,
    owner: null,
    write: (text) => (said = toKept(said + text)),
  })
  try {
    await untilReady(server, spec)
    await ask(server)
  } catch (error) {
    // The rest of what it says comes with its end.
    const isOver = server.ended !== null
    server.signal('SIGKILL')
    await server.exited
    const why = messageOf(error)
    throw new Error(isOver ? toLastLine(said) || why : why)
  } finally {
    server.signal('SIGKILL')
    await server.exited
  }
}

async function untilReady(server: Launched, spec: ProcessSpec): Promise<void> {
  const endMs = performance.now() + READY_MS
  while (server.ended === null) {
    const { state } = await lookAt(server, spec)
    // An older one may not say which model it has.
    if (state === 'ready' || state === 'unsure') return
    if (state === 'foreign') throw new Error('another server answers in its place')
    if (performance.now() > endMs) throw new Error(`it has not loaded a small model within ${READY_MS / 1_000} s`)
    await Bun.sleep(LOOK_MS)
  }
  throw new Error(`it ${server.ended}`)
}

/** Not by `fetch`, which would go through a proxy where there is one. */
async function ask({ port, key }: Launched): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' }
  const path = '/v1/chat/completions'
  const asked = request({ host: '127.0.0.1', port, path, headers, method: 'POST', agent: false }, (response) => {
    response.resume()
    resolve(response.statusCode ?? 0)
  })
  asked.on('error', reject)
  // Of all of it: a server may send a byte now and then.
  const late = () => asked.destroy(new Error(`it has not answered within ${ANSWER_MS / 1_000} s`))
  const timer = setTimeout(late, ANSWER_MS)
  asked.end(JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 1 }))
  const status = await promise.finally(() => clearTimeout(timer))
  if (status !== 200) throw new Error(`it answered ${status} to a small model's first question`)
}

const toKept = (said: string) => said.slice(-MOST_KEPT)

const toLastLine = (text: string) => text.trim().split('\n').at(-1)?.slice(0, MOST_SAID) ?? ''
