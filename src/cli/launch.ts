/**
 * `tollgate launch`: starts a coding agent against this gateway, with a key of its own that ends when it does; or prints how it
 * would be started. Ends as the agent ends.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { mintId } from '../domain/id.ts'
import { createKey, revokeKey } from '../keys/service.ts'
import { type AgentName, INSTALL, type Launch, toLaunch, toShell } from './agents.ts'
import { type AskedServer, chooseServer, fetchFrom } from './ask-server.ts'
import { AgentEnded, CommandError } from './command-error.ts'
import { type Context, printJson, withStore } from './io.ts'
import { findServer } from './live.ts'
import { toBudget } from './values.ts'

/** The options of `launch`, as they stand on the command line. */
export interface LaunchFlags {
  model?: string
  key?: string
  url?: string
  budget?: string
  print?: boolean
}

/** However its end is missed, its key ends. */
const KEY_DAYS = 7

export async function launch(
  agent: AgentName,
  words: readonly string[],
  flags: LaunchFlags,
  io: Context,
): Promise<void> {
  const server = await chooseServer(flags, io)
  const model = await chooseModel(server, flags.model)
  const base = await toNetworkBase(server, io)
  const made = server.key === null ? await makeKey(agent, flags, io) : null
  const key = server.key ?? made?.secret ?? ''
  const folder = join(io.dataFolder, 'run', agent)
  const launched = toLaunch(agent, { base, key, model: model.id, contextLength: model.context_length, folder })
  try {
    writeFiles(launched, folder)
    launched.args.push(...words)
    if (flags.print) return print(launched, made?.id ?? null, io)
    const code = await io.run(launched.command, launched.args, toEnvironment(launched, io))
    if (code === null) throw notInstalled(agent)
    throw new AgentEnded(code)
  } finally {
    if (made && !flags.print) await endKey(made.id, io)
  }
}

interface Offer {
  id: string
  context_length: number
  is_ready: boolean
  supported_features: string[]
  output_modalities: string[]
}

/** The one that was named, or the only one there is. */
async function chooseModel(server: AskedServer, named: string | undefined): Promise<Offer> {
  const { data }: { data: Offer[] } = JSON.parse(await (await fetchFrom(server, '/models')).text())
  const found = data.find(({ id }) => id === named)
  if (found) return found
  if (named !== undefined)
    return JSON.parse(await (await fetchFrom(server, `/models/${encodeURIComponent(named)}`)).text())
  const able = data.filter(
    ({ is_ready, supported_features: features, output_modalities: out }) =>
      is_ready && features.includes('tools') && out.includes('text'),
  )
  const [only] = able
  if (only && able.length === 1) return only
  const choice = able.slice(0, 12).map(({ id }) => id)
  throw new CommandError(
    'no_model',
    choice.length === 0
      ? 'No model is ready that can call tools, as agents do. See why with: tollgate models list'
      : `Say which model it works with: --model ${choice.join(', --model ')}${able.length > choice.length ? ' …' : ''}`,
    2,
  )
}

/** An agent comes over the network, also where this command goes by the control socket. */
async function toNetworkBase({ unix, base }: AskedServer, io: Context): Promise<string> {
  if (unix === null) return base
  const found = await findServer(io.dataFolder)
  if (found.kind === 'server') return found.status.url
  throw new CommandError('no_server', 'The server has stopped meanwhile. Start it again with: tollgate serve')
}

/** A name that says what it was for, and that no other has. */
async function makeKey(agent: AgentName, { budget, print }: LaunchFlags, io: Context) {
  const nowMs = io.nowMs()
  const limited = budget === undefined ? {} : { budget: toBudget(budget) }
  const expiresMs = print ? null : nowMs + KEY_DAYS * 86_400_000
  const name = `${agent} ${mintId(nowMs).slice(-8)}`
  const made = await withStore(io, {}, (store) =>
    createKey(store, { ...limited, name, expiresMs }, { actor: 'cli', nowMs }),
  )
  return { id: made.key.id, secret: made.secret }
}

async function endKey(id: string, io: Context): Promise<void> {
  try {
    await withStore(io, {}, (store) => revokeKey(store, id, { actor: 'cli', nowMs: io.nowMs() }))
  } catch {
    io.stderr(`Its key could not be revoked and ends in ${KEY_DAYS} days; revoke it with: tollgate keys revoke ${id}\n`)
  }
}

function writeFiles({ files }: Launch, folder: string): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(join(folder, name), text, { mode: 0o600 })
  }
}

function toEnvironment({ environment, without }: Launch, io: Context): Record<string, string | undefined> {
  const all: Record<string, string | undefined> = { ...io.environment, ...environment }
  for (const name of without) delete all[name]
  return all
}

function print(launched: Launch, keyId: string | null, io: Context): void {
  if (io.json) {
    const { command, args, environment, without } = launched
    printJson(io, { command, args, environment, without, key_id: keyId })
    return
  }
  if (keyId !== null) io.stderr(`The key in it stays until it is revoked: tollgate keys revoke ${keyId}\n`)
  io.stdout(toShell(launched))
}

const notInstalled = (agent: AgentName) =>
  new CommandError('not_installed', `There is no \`${agent}\` on the PATH. Install it with: ${INSTALL[agent]}`)
