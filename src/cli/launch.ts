/**
 * `tollgate launch`: runs a coding agent with a temporary key. How to point each agent at a gateway:
 * https://code.claude.com/docs/en/llm-gateway, https://code.claude.com/docs/en/env-vars,
 * https://github.com/openai/codex/blob/main/docs/config.md, https://aider.chat/docs/llms/openai-compat.html,
 * https://github.com/google-gemini/gemini-cli/blob/main/docs/reference/configuration.md,
 * https://llm.datasette.io/en/stable/other-models.html
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import type { Command } from 'commander'
import { Argument } from 'commander'
import { mintId } from '../domain/id.ts'
import type { Environment } from '../domain/snapshot.ts'
import { toBody } from '../keys/changes.ts'
import { answerOf, withAdmin } from './admin-client.ts'
import { type AskedServer, canWrite, chooseServer, fetchFrom, listOffers, type Offer } from './ask.ts'
import { AgentEnded, CommandError } from './command-error.ts'
import { findServer } from './control-client.ts'
import { type Context, printJson, toExamples } from './io.ts'
import { toBudget } from './values.ts'

const AGENTS = ['claude', 'codex', 'gemini', 'aider', 'llm'] as const
type AgentName = (typeof AGENTS)[number]

export function addLaunch(command: Command, context: Context): void {
  command
    .addArgument(new Argument('<agent>', 'agent to run').choices(AGENTS))
    .argument('[args...]', 'arguments for the agent, after `--`')
    .option('--model <id>', 'model to use (default: the only ready model with tool calling)')
    .option('--key <key>', 'existing API key to use (env TOLLGATE_KEY); default: a temporary one')
    .option('--url <url>', 'server to use; requires a key')
    .option('--budget <usd>', 'budget of the temporary key: 20/month, 0.10/day, or 5 total')
    .option('--print', 'print the command instead of running it; the key is not revoked')
    .addHelpText(
      'after',
      toExamples(
        'launch claude --model anthropic/claude-sonnet-4-5 --budget 5/day',
        'launch codex --model openai/gpt-5 -- exec "Fix the failing test"',
      ),
    )
    .action((agent: AgentName, words: string[], flags: LaunchFlags) => launch(agent, words, flags, context))
}

interface LaunchFlags {
  model?: string
  key?: string
  url?: string
  budget?: string
  print?: boolean
}

/** The key expires even if the agent's exit is never seen. */
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

async function chooseModel(server: AskedServer, named: string | undefined): Promise<Offer> {
  const data = await listOffers(server)
  const found = data.find(({ id }) => id === named)
  if (found) return found
  if (named !== undefined)
    return JSON.parse(await (await fetchFrom(server, `/models/${encodeURIComponent(named)}`)).text())
  const able = data.filter(
    ({ is_ready, supported_features: features, output_modalities: out }) =>
      is_ready && features.includes('tools') && canWrite(out),
  )
  const [only] = able
  if (only && able.length === 1) return only
  const choice = able.slice(0, 12).map(({ id }) => id)
  throw new CommandError(
    'no_model',
    choice.length === 0
      ? 'No ready model supports tool calling, which agents need. See: tollgate models list'
      : `Choose a model: --model ${choice.join(', --model ')}${able.length > choice.length ? ' …' : ''}`,
    2,
  )
}

/** Agents connect over the network, even if this command uses the control socket. */
async function toNetworkBase({ unix, base }: AskedServer, io: Context): Promise<string> {
  if (unix === null) return base
  const found = await findServer(io.dataFolder)
  if (found.kind === 'server') return found.status.url
  throw new CommandError('no_server', 'The server has stopped. Start it again: tollgate serve')
}

async function makeKey(agent: AgentName, { budget, print }: LaunchFlags, io: Context) {
  const nowMs = io.nowMs()
  const limited = budget === undefined ? {} : { budget: toBudget(budget) }
  const expiresMs = print ? null : nowMs + KEY_DAYS * 86_400_000
  const name = `${agent} ${mintId(nowMs).slice(-8)}`
  const body = { ...toBody({ ...limited, expiresMs }), name }
  const { id, key } = await withAdmin(io, {}, ({ api }) => answerOf(api.keys.post(body)))
  return { id, secret: key }
}

async function endKey(id: string, io: Context): Promise<void> {
  try {
    await withAdmin(io, {}, ({ api }) => answerOf(api.keys({ id }).revoke.post()))
  } catch {
    io.stderr(
      `Couldn't revoke the temporary key; it expires in ${KEY_DAYS} days. Revoke it: tollgate keys revoke ${id}\n`,
    )
  }
}

function writeFiles({ files }: Launch, folder: string): void {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name)
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    writeFileSync(path, text, { mode: 0o600 })
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
  if (keyId !== null) io.stderr(`The key stays active until revoked: tollgate keys revoke ${keyId}\n`)
  io.stdout(toShell(launched))
}

const notInstalled = (agent: AgentName) =>
  new CommandError('not_installed', `\`${agent}\` is not on the PATH. Install it: ${INSTALL[agent]}`)

interface Gateway {
  /** Ends in `/v1`. */
  base: string
  key: string
  /** ID or alias. */
  model: string
  contextLength: number
  /** For the agent's own files. */
  folder: string
}

interface Launch {
  command: AgentName
  args: string[]
  environment: Record<string, string>
  /** Variables to unset: they select another endpoint or key. */
  without: string[]
  /** By name. */
  files: Record<string, string>
}

const INSTALL: Readonly<Record<AgentName, string>> = {
  claude: 'npm install -g @anthropic-ai/claude-code',
  codex: 'npm install -g @openai/codex',
  gemini: 'npm install -g @google/gemini-cli',
  aider: 'python -m pip install aider-install && aider-install',
  llm: 'pipx install llm',
}

const CODEX_KEY = 'TOLLGATE_API_KEY'

/** These make Claude Code use another endpoint, key, or model. */
const ELSEWHERE = [
  ...['ANTHROPIC_API_KEY', 'ANTHROPIC_SMALL_FAST_MODEL', 'ANTHROPIC_UNIX_SOCKET'],
  ...['ANTHROPIC_AWS', 'BEDROCK', 'FOUNDRY', 'GATEWAY', 'MANTLE', 'VERTEX'].map((name) => `CLAUDE_CODE_USE_${name}`),
]

/** These make Gemini CLI use another endpoint or account. */
const ELSEWHERE_OF_GEMINI = [
  'GOOGLE_API_KEY',
  'GOOGLE_GENAI_USE_GCA',
  'GOOGLE_GENAI_USE_VERTEXAI',
  'GOOGLE_VERTEX_BASE_URL',
]

const GEMINI_SETTINGS = '.gemini/settings.json'

function toLaunch(agent: AgentName, gateway: Gateway): Launch {
  const { base, key, model, contextLength, folder } = gateway
  const launch: Launch = { command: agent, args: [], environment: {}, without: [], files: {} }
  switch (agent) {
    case 'claude':
      launch.environment = {
        // Claude Code appends /v1.
        ANTHROPIC_BASE_URL: base.replace(/\/v1$/, ''),
        ANTHROPIC_AUTH_TOKEN: key,
        ANTHROPIC_MODEL: model,
        // Background tasks use these models.
        ANTHROPIC_DEFAULT_FABLE_MODEL: model,
        ANTHROPIC_DEFAULT_OPUS_MODEL: model,
        ANTHROPIC_DEFAULT_SONNET_MODEL: model,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
        CLAUDE_CODE_SUBAGENT_MODEL: model,
        // It assumes 200,000 tokens for unknown models.
        CLAUDE_CODE_AUTO_COMPACT_WINDOW: String(contextLength),
      }
      launch.without = ELSEWHERE
      return launch
    case 'codex':
      launch.environment = { [CODEX_KEY]: key }
      launch.args = Object.entries({
        model,
        model_context_window: contextLength,
        model_provider: 'tollgate',
        'model_providers.tollgate.name': 'Tollgate',
        'model_providers.tollgate.base_url': base,
        'model_providers.tollgate.env_key': CODEX_KEY,
        'model_providers.tollgate.wire_api': 'responses',
      }).flatMap(([name, value]) => ['-c', `${name}=${JSON.stringify(value)}`])
      return launch
    case 'gemini':
      launch.environment = {
        // Gemini CLI appends the version.
        GOOGLE_GEMINI_BASE_URL: base.replace(/\/v1$/, ''),
        GEMINI_API_KEY: key,
        GEMINI_MODEL: model,
        GEMINI_CLI_HOME: folder,
      }
      // With a base URL it doesn't start until the settings in its home say how to sign in.
      launch.files = {
        [GEMINI_SETTINGS]: `${JSON.stringify({ security: { auth: { selectedType: 'gemini-api-key' } } })}\n`,
      }
      launch.without = ELSEWHERE_OF_GEMINI
      return launch
    case 'aider':
      launch.environment = { OPENAI_API_BASE: base, OPENAI_API_KEY: key }
      // The part before the first slash only selects the API format.
      launch.args = ['--model', `openai/${model}`]
      return launch
    case 'llm':
      launch.environment = { LLM_USER_PATH: folder, LLM_MODEL: model, OPENAI_API_KEY: key }
      // JSON is valid YAML. `openai` is read from the variable; otherwise no key is sent.
      launch.files = {
        'extra-openai-models.yaml': `${JSON.stringify([
          {
            ...{ model_id: model, model_name: model, api_base: base, api_key_name: 'openai' },
            ...{ supports_tools: true, supports_schema: true },
          },
        ])}\n`,
      }
      return launch
  }
}

function toShell({ command, args, environment, without }: Launch): string {
  const lines = without.map((name) => `unset ${name}\n`)
  for (const [name, value] of Object.entries(environment)) lines.push(`export ${name}=${quoted(value)}\n`)
  return `${lines.join('')}${[command, ...args].map(quoted).join(' ')}\n`
}

const quoted = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

const signals: ReadonlyMap<string | number, number> = new Map(Object.entries(constants.signals))

/** Resolves to the exit code, 128 + signal number if killed; null without such a program. */
export async function runProgramAs(
  command: string,
  args: readonly string[],
  environment: Environment,
): Promise<number | null> {
  const path = Bun.which(command, environment.PATH === undefined ? {} : { PATH: environment.PATH })
  if (path === null) return null
  const child = Bun.spawn([path, ...args], { env: { ...environment }, stdio: ['inherit', 'inherit', 'inherit'] })
  // The terminal sends ^C to both processes; signals to this process alone are passed on.
  const ignore = () => {}
  const pass = (signal: NodeJS.Signals) => child.kill(signal)
  process.on('SIGINT', ignore).on('SIGTERM', pass).on('SIGHUP', pass)
  try {
    const code = await child.exited
    const { signalCode } = child
    return signalCode === null ? code : 128 + (signals.get(signalCode) ?? 0)
  } finally {
    process.off('SIGINT', ignore).off('SIGTERM', pass).off('SIGHUP', pass)
  }
}
