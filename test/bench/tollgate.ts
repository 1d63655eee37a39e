/**
 * Tollgate's binary as a subject, as a team would run it: three routes, and all limits on upstreams, key and team, too
 * large to refuse anything. The build to compare gets the same, without new flags.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Started, startProcess, waitUntilUp } from './processes.ts'

/** As in the end-to-end tests. */
export const BINARY = process.env.TOLLGATE_BINARY ?? resolve(import.meta.dir, '../../dist/tollgate')
/** Another build, such as the previous release. */
export const BEFORE = process.env.TOLLGATE_BEFORE

/** Flags of `serve`, for the build that is not `before`: such as `--processes 2`. */
const FLAGS = process.env.TOLLGATE_FLAGS?.split(' ') ?? []

export const BUILDS = ['tollgate', 'before'] as const
export type Build = (typeof BUILDS)[number]

export const binaryOf = (name: Build): string => (name === 'before' ? (BEFORE ?? BINARY) : BINARY)

export const MODEL = 'bench/model'
/** Its upstream offers the Messages API. */
export const NATIVE_MODEL = 'bench/native'

export interface Running {
  name: Build
  process: Started
  /** `http://host:port`; the chat URL is below `/v1`. */
  origin: string
  key: string
  model: string
}

export interface Route {
  upstream: string
  /** The upstream's name of the model; default `upstream-model`. */
  model?: string
  priority?: number
  weight?: number
}

export interface UpstreamEntry {
  base_url: string
  dialect?: string
  deadlines?: Record<string, string>
  rpm?: number
  tpm?: number
  concurrency?: number
}

/** JSON is valid YAML; models have prices, so that costs are calculated. */
/** Models of the endpoints that aren't chats. */
export const MEDIA = { hears: 'bench/hears', draws: 'bench/draws', speaks: 'bench/speaks' } as const
const MAKES: Readonly<Record<string, string>> = {
  ...{ [MEDIA.hears]: 'transcription', [MEDIA.draws]: 'image', [MEDIA.speaks]: 'speech' },
}

export function toCatalog(upstreams: Record<string, UpstreamEntry>, models: Record<string, readonly Route[]>): string {
  return JSON.stringify({
    version: 1,
    upstreams: mapValues(upstreams, (entry) => ({ dialect: 'openai', ...entry })),
    models: mapValues(models, (routes, slug) => ({
      name: 'Benchmark',
      owned_by: 'bench',
      context_length: 2_000_000,
      max_output_length: 1_000_000,
      input_modalities: ['text'],
      output_modalities: [MAKES[slug] ?? 'text'],
      supported_features: [],
      pricing: [{ prompt: '0.00000015', completion: '0.0000006', input_cache_read: '0.000000075' }],
      routes: routes.map((route) => ({ model: 'upstream-model', ...route })),
    })),
  })
}

const mapValues = <T, R>(all: Record<string, T>, map: (value: T, name: string) => R): Record<string, R> =>
  Object.fromEntries(Object.entries(all).map(([name, value]) => [name, map(value, name)]))

/** One model with one route, which every build understands. */
export const toPlainCatalog = (upstream: string): string =>
  toCatalog({ bench: { base_url: `${upstream}/v1` } }, { [MODEL]: [{ upstream: 'bench' }] })

const LARGE = { rpm: 1_000_000_000, tpm: 1_000_000_000, concurrency: 1_000_000 }

/** Two weighted routes of one priority and a third below, all to one upstream, and a Messages model. */
export function toRoutedCatalog(upstream: string): string {
  const entry = { base_url: `${upstream}/v1`, ...LARGE }
  return toCatalog(
    { heavy: entry, light: entry, spare: entry, messages: { ...entry, dialect: 'anthropic' } },
    {
      [MODEL]: [
        { upstream: 'heavy', priority: 0, weight: 3 },
        { upstream: 'light', priority: 0, weight: 1 },
        { upstream: 'spare', priority: 1 },
      ],
      [NATIVE_MODEL]: [{ upstream: 'messages' }],
    },
  )
}

/** On an empty data folder below `folder`; by default with several routes. */
export async function startTollgate(
  name: Build,
  folder: string,
  port: number,
  upstream: string,
  catalog = toRoutedCatalog(upstream),
): Promise<Running> {
  const binary = binaryOf(name)
  const { command, logFile, data } = toServe(folder, port, catalog, binary)
  const started = startProcess(name === 'tollgate' ? [...command, ...FLAGS] : command, logFile)
  const origin = `http://127.0.0.1:${port}`
  await waitUntilUp(`${origin}/healthz`)
  const key = await createLimitedKey([binary], data)
  return { name, process: started, origin, key, model: MODEL }
}

/** Returns the command that serves the new data folder. */
export function toServe(
  folder: string,
  port: number,
  catalog: string,
  binary = BINARY,
): { command: string[]; logFile: string; data: string } {
  const data = join(folder, 'data')
  mkdirSync(data, { recursive: true, mode: 0o700 })
  writeFileSync(join(data, 'catalog.yaml'), catalog)
  const command = [binary, 'serve', '--host', '127.0.0.1', '--port', String(port), '--data', data]
  return { command, logFile: join(folder, 'log'), data }
}

/** From the output of `serve --first-key`. */
export async function readFirstKey(logFile: string): Promise<string> {
  for (let i = 0; i < 500; i += 1) {
    const key = KEY.exec(readFileSync(logFile, 'utf8'))?.[0]
    if (key) return key
    await Bun.sleep(2)
  }
  throw new Error(`no key was printed in ${logFile}:\n${readFileSync(logFile, 'utf8')}`)
}

const KEY = /sk-tg-[A-Za-z0-9]{38}/
const BUDGET = ['--budget', '1000000/month']
const LIMITS = [...Object.entries(LARGE).flatMap(([name, limit]) => [`--${name}`, String(limit)]), ...BUDGET]

/** With every limit, in a team with a budget. `program` is Tollgate without arguments. */
export async function createLimitedKey(program: readonly string[], data: string): Promise<string> {
  await run([...program, 'teams', 'create', '--name', 'bench', ...BUDGET, '--data', data])
  const said = await run([
    ...program,
    'keys',
    'create',
    '--name',
    'bench',
    '--team',
    'bench',
    ...LIMITS,
    '--data',
    data,
  ])
  const key = KEY.exec(said)?.[0]
  if (key === undefined) throw new Error(`keys create printed no key: ${said}`)
  return key
}

async function run(command: string[]): Promise<string> {
  const child = Bun.spawn(command, { stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
  if ((await child.exited) !== 0) throw new Error(`${command.join(' ')} failed: ${stdout}${stderr}`)
  return stdout
}
