/**
 * The built binary with a model of each format, started through `tollgate launch` in a folder with a file, with
 * separate homes.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { applyJournal, BINARY, createWorkplace } from '../../support/binary.ts'
import { type ScriptedUpstream, startUpstream } from '../../support/upstream.ts'
import type { RealAgent } from './install.ts'
import { SPEAKERS, UPSTREAM_KEY } from './speakers.ts'

export const DEMO = 'tollgate/demo'

/** As in `requests list --json`. */
export interface Row {
  id: string
  key_id: string
  key: string
  model: string
  endpoint: string
  passthrough: boolean
  stream: number
  status: string
  error_code: string | null
  attempts: number
  prompt_tokens: number
  cached_tokens: number
  completion_tokens: number
  reasoning_tokens: number
  estimated: number
  cost_nano_usd: number
}

export interface Work {
  code: number
  stdout: string
  stderr: string
  rows: Row[]
  key: string
}

export interface AgentStage {
  upstream: ScriptedUpstream
  /** Requests the server refused without a call. */
  refusals(): number
  /** Kills the server, and restarts it at the same address. */
  restart(): Promise<void>
  revoke(): Promise<void>
  /** The next agent's folder: empty but for `notes.txt`. */
  renew(): string
  /** `flags` are `launch`'s, `words` the agent's own. */
  work(agent: RealAgent, flags: string[], words: string[]): Promise<Work>
  /** Starts the agent by a shell script created for a new key. */
  shell(toScript: (access: { baseUrl: string; secret: string }) => string, words: string[]): Promise<Work>
  stop(): Promise<void>
}

const FACTS =
  'context_length: 200000, max_output_length: 32000, input_modalities: [text, image], output_modalities: [text], ' +
  'supported_features: [tools, json_mode, structured_outputs, reasoning], ' +
  'pricing: [{ prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001" }]'

const toCatalogue = (url: string) => `
version: 1
upstreams:
  demo: { dialect: demo, local: true, pace_ms: 0 }
${SPEAKERS.map(({ toUpstream }, at) => `  speaker-${at}: ${toUpstream(url)}`).join('\n')}
models:
  ${DEMO}: { name: Demo, ${FACTS}, routes: [{ upstream: demo, model: demo }] }
${SPEAKERS.map(({ model }, at) => `  ${model}: { name: Speaker, ${FACTS}, routes: [{ upstream: speaker-${at}, model: v1 }] }`).join('\n')}
`

export const NOTES = 'The word is heron.\nThe colour is red.\n'

/** @param bin the folder with the agent's program. */
export async function startAgentStage(bin: string): Promise<AgentStage> {
  const place = createWorkplace()
  const upstream = await startUpstream()
  const catalog = await place.write('catalog.yaml', toCatalogue(upstream.url))
  const serve = (...more: string[]) =>
    place.serve(['--catalog', catalog, '--log-level', 'info', ...more], { environment: { UPSTREAM_KEY } })
  let server = await serve()
  const data = join(place.folder, 'data')
  const homes: string[] = []
  let scratch = place.folder
  const known = new Set<string>()
  const ask = async (...argv: string[]) => {
    const { code, stdout, stderr } = await place.run(...argv, '--json')
    if (code !== 0) throw new Error(`${argv.join(' ')} ended with ${code}: ${stderr}`)
    return JSON.parse(stdout)
  }
  const lastKey = async () => {
    const { keys }: { keys: { id: string; status: string }[] } = await ask('keys', 'list', '--all')
    return keys.at(-1)
  }
  async function run(command: string[]): Promise<Work> {
    // Codex refuses a home for its helper programs below the temporary folder.
    const home = mkdtempSync(join(bin, '../../home-'))
    homes.push(home)
    mkdirSync(join(home, '.codex'))
    const child = Bun.spawn(command, {
      ...{ cwd: scratch, env: toEnvironment(bin, home), timeout: 120_000 },
      ...({ stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' } as const),
    })
    const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
    const code = await child.exited
    await applyJournal(data)
    const { requests }: { requests: Row[] } = await ask('requests', 'list')
    const rows = requests.filter(({ id }) => !known.has(id)).reverse()
    for (const { id } of rows) known.add(id)
    return { code, stdout, stderr, rows, key: (await lastKey())?.status ?? 'none' }
  }
  return {
    upstream,
    refusals: () => server.stderr().split('"event":"request_refused"').length - 1,
    async restart() {
      const { port } = new URL(server.baseUrl)
      server.signal('SIGKILL')
      await server.exited
      server = await serve('--port', port)
    },
    async revoke() {
      await ask('keys', 'revoke', (await lastKey())?.id ?? '')
    },
    renew() {
      scratch = mkdtempSync(join(place.folder, 'scratch-'))
      writeFileSync(join(scratch, 'notes.txt'), NOTES)
      upstream.requests.length = 0
      return scratch
    },
    work: (agent, flags, words) => run([BINARY, 'launch', agent, '--data', data, ...flags, '--', ...words]),
    async shell(toScript, words) {
      const { key: secret } = await ask('keys', 'create', '--name', `by hand ${known.size}`)
      return run(['sh', '-c', `${toScript({ baseUrl: server.baseUrl, secret })} "$@"`, 'sh', ...words])
    },
    async stop() {
      await place.close()
      await upstream.stop()
      for (const home of homes) rmSync(home, { recursive: true, force: true })
    },
  }
}

/** Excludes the environment of the machine's owner, and telemetry. */
const toEnvironment = (bin: string, home: string) => ({
  PATH: `${bin}:${process.env.PATH}`,
  HOME: home,
  CLAUDE_CONFIG_DIR: join(home, '.claude'),
  CODEX_HOME: join(home, '.codex'),
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_TELEMETRY: '1',
  DISABLE_ERROR_REPORTING: '1',
})
