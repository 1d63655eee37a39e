/**
 * Other gateways to measure next to Tollgate (`--peers FILE`): a JSON list of the commands that start each of them, on
 * this machine and in front of the benchmark's upstream.
 *
 *     [{ "name": "other", "command": ["./other", "--port", "{port}", "--base-url", "{upstream}/v1"], "ready": "/health" }]
 *
 * In `command` and `env`, `{port}` is the port to listen on at 127.0.0.1, and `{upstream}` the origin of the upstream,
 * which has the chat completions API below `/v1` and accepts any key and model. `{folder}` is a new, empty folder. If a
 * gateway needs a config file, start it with a script that writes one.
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
    /** Default: a free port. */
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_535 })),
    env: Type.Optional(Type.Record(Text, Type.String())),
    /** Sent as a bearer token. */
    key: Type.Optional(Text),
    /** Its ID of a model that it sends to the upstream. */
    model: Type.Optional(Text),
    /** A path that returns 2xx once it accepts requests; default: its models. */
    ready: Type.Optional(Type.String({ pattern: '^/' })),
  },
  { additionalProperties: false },
)
export type Peer = Static<typeof Peer>

/** Reads the list. Throws a message that names the file and its error. */
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

/** Starts one in a folder below `root`, and waits as long as the slowest one may take. */
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
