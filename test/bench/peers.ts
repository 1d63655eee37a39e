/**
 * Other gateways to measure beside Tollgate (`--peers FILE`): a JSON list of what starts each of them, on this machine and in
 * front of the benchmark's upstream.
 *
 *     [{ "name": "other", "command": ["./other", "--port", "{port}", "--base-url", "{upstream}/v1"], "ready": "/health" }]
 *
 * In `command` and `env`, `{port}` is where it has to listen on 127.0.0.1, `{upstream}` the origin of the upstream, which
 * speaks the chat-completions API below `/v1` and takes any key and model, and `{folder}` an empty folder of its own. What
 * needs a file of its own is started by a script that writes one.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { messageOf } from '../../src/domain/error.ts'
import { findFreePort } from '../support/free-port.ts'
import { startProcess, waitUntilUp } from './processes.ts'
import type { Subject } from './subjects.ts'
import { MODEL } from './tollgate.ts'

const Text = Type.String({ minLength: 1 })
const Peer = Type.Object(
  {
    name: Text,
    command: Type.Array(Text, { minItems: 1 }),
    /** A free one is found where none is named. */
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_535 })),
    env: Type.Optional(Type.Record(Text, Type.String())),
    /** Sent as a bearer token. */
    key: Type.Optional(Text),
    /** What it calls a model that it passes on to the upstream. */
    model: Type.Optional(Text),
    /** A path that answers 2xx once it takes requests; its models where it names none. */
    ready: Type.Optional(Type.String({ pattern: '^/' })),
  },
  { additionalProperties: false },
)
export type Peer = Static<typeof Peer>

/** Reads the list. Throws a sentence that names the file, and what is wrong in it. */
export function readPeers(file: string): Peer[] {
  const peers = parse(file, readFileSync(file, 'utf8'))
  const wrong = Value.Errors(Type.Array(Peer), peers).First()
  if (wrong) throw new Error(`${file}${wrong.path}: ${wrong.message}`)
  return peers as Peer[]
}

function parse(file: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`${file} is no JSON: ${messageOf(error)}`)
  }
}

/** Starts one in a folder below `root`, and waits for as long as the slowest may take. */
export async function startPeer(peer: Peer, root: string, upstream: string): Promise<Subject> {
  const { name, command, env = {}, key = 'none', model = MODEL, ready = '/v1/models' } = peer
  const folder = join(root, name)
  mkdirSync(folder, { recursive: true })
  const port = peer.port ?? (await findFreePort())
  const fill = (text: string) =>
    text.replaceAll('{port}', String(port)).replaceAll('{upstream}', upstream).replaceAll('{folder}', folder)
  const filled = Object.fromEntries(Object.entries(env).map(([variable, value]) => [variable, fill(value)]))
  const started = startProcess(command.map(fill), join(folder, 'log'), filled)
  const origin = `http://127.0.0.1:${port}`
  await waitUntilUp(`${origin}${ready}`, { headers: { authorization: `Bearer ${key}` } }, 60_000)
  return { name, process: started, origin, key, model }
}
