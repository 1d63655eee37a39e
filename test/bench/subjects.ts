/**
 * What is measured: both forms of the smallest proxy, Tollgate's binary with default settings, and nginx where it is installed; all in front
 * of the same upstream process. Each is started from nothing in a folder of its own.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { findFreePort, type Started, startProcess, waitUntilUp } from './processes.ts'

export interface Subject {
  name: string
  process: Started
  /** `http://host:port`; the chat URL is below `/v1`. */
  origin: string
  /** Sent as a bearer token; the floor and nginx ignore it. */
  key: string
  model: string
}

export const SUBJECTS = ['floor', 'floor-piped', 'tollgate', 'before', 'nginx'] as const
export type SubjectName = (typeof SUBJECTS)[number]

export const BINARY = resolve(import.meta.dir, '../../dist/tollgate')
/** Another build to compare with, such as the last release. */
const BEFORE = process.env.TOLLGATE_BEFORE
export const MODEL = 'bench/model'
const MANY_REQUESTS = { BUN_CONFIG_MAX_HTTP_REQUESTS: '16384' }

/** Starts the benchmark's upstream and returns its origin. */
export async function startBenchUpstream(folder: string): Promise<{ process: Started; origin: string }> {
  const port = await findFreePort()
  const main = resolve(import.meta.dir, '../support/upstream-main.ts')
  const started = startProcess([process.execPath, main, '--port', String(port)], join(folder, 'upstream.log'))
  const origin = `http://127.0.0.1:${port}`
  await waitUntilUp(`${origin}/v1/models`)
  return { process: started, origin }
}

/** Says why a subject cannot be measured here, or null. */
export function whyMissing(name: SubjectName): string | null {
  if (name === 'nginx' && !Bun.which('nginx')) return 'nginx is not installed'
  if (name === 'before' && !BEFORE) return 'TOLLGATE_BEFORE names no other build to compare with'
  if (name === 'tollgate' && !existsSync(BINARY)) return `${BINARY} does not exist: run \`bun run build\``
  return null
}

export async function startSubject(name: SubjectName, root: string, upstream: string): Promise<Subject> {
  const folder = join(root, name)
  mkdirSync(folder, { recursive: true })
  const port = await findFreePort()
  const origin = `http://127.0.0.1:${port}`
  if (name === 'tollgate') return startTollgate(name, BINARY, folder, port, upstream)
  if (name === 'before') return startTollgate(name, BEFORE ?? BINARY, folder, port, upstream)
  if (name === 'nginx') {
    writeFileSync(join(folder, 'nginx.conf'), toNginxConfig(folder, port, upstream))
    const command = ['nginx', '-p', folder, '-e', join(folder, 'log'), '-c', join(folder, 'nginx.conf')]
    return up({ name, process: startProcess(command, join(folder, 'log')), origin, key: 'none', model: MODEL })
  }
  const floor = resolve(import.meta.dir, 'floor.ts')
  const flags = name === 'floor-piped' ? ['--piped'] : []
  const command = [process.execPath, floor, upstream, String(port), ...flags]
  const started = startProcess(command, join(folder, 'log'), MANY_REQUESTS)
  return up({ name, process: started, origin, key: 'none', model: MODEL })
}

async function up(subject: Subject): Promise<Subject> {
  const headers = { authorization: `Bearer ${subject.key}` }
  await waitUntilUp(`${subject.origin}/v1/models`, { headers })
  return subject
}

async function startTollgate(
  name: SubjectName,
  binary: string,
  folder: string,
  port: number,
  upstream: string,
): Promise<Subject> {
  const { command, logFile } = toServe(folder, port, upstream, binary)
  const started = startProcess([...command, '--first-key'], logFile)
  const origin = `http://127.0.0.1:${port}`
  await waitUntilUp(`${origin}/healthz`)
  return up({ name, process: started, origin, key: await readFirstKey(logFile), model: MODEL })
}

/** Writes a data folder with the benchmark's catalogue and returns the command that serves it. */
export function toServe(
  folder: string,
  port: number,
  upstream: string,
  binary = BINARY,
): { command: string[]; logFile: string } {
  const data = join(folder, 'data')
  mkdirSync(data, { recursive: true, mode: 0o700 })
  writeFileSync(join(data, 'catalog.yaml'), toCatalog(upstream))
  const command = [binary, 'serve', '--host', '127.0.0.1', '--port', String(port), '--data', data]
  return { command, logFile: join(folder, 'log') }
}

/** Reads the key that `serve --first-key` printed into its output. */
export async function readFirstKey(logFile: string): Promise<string> {
  for (let i = 0; i < 500; i += 1) {
    const key = /sk-tg-[A-Za-z0-9]{38}/.exec(readFileSync(logFile, 'utf8'))?.[0]
    if (key) return key
    await Bun.sleep(2)
  }
  throw new Error(`no key was printed in ${logFile}:\n${readFileSync(logFile, 'utf8')}`)
}

/** JSON is valid YAML. A paid model, so that prices are worked out. */
function toCatalog(upstream: string): string {
  return JSON.stringify({
    version: 1,
    upstreams: { bench: { dialect: 'openai', base_url: `${upstream}/v1` } },
    models: {
      [MODEL]: {
        name: 'Benchmark',
        owned_by: 'bench',
        context_length: 1_000_000,
        max_output_length: 1_000_000,
        input_modalities: ['text'],
        output_modalities: ['text'],
        supported_features: [],
        pricing: [{ prompt: '0.00000015', completion: '0.0000006', input_cache_read: '0.000000075' }],
        routes: [{ upstream: 'bench', model: 'upstream-model' }],
      },
    },
  })
}

/** One worker, no buffering and connections kept open, as one would set it up for streams. */
function toNginxConfig(folder: string, port: number, upstream: string): string {
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  return `${user} worker_processes 1; daemon off; pid ${folder}/pid; error_log ${folder}/log;
events { worker_connections 8192; }
http {
  access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  keepalive_requests 1000000000;
  upstream bench { server ${upstream.replace('http://', '')}; keepalive 1024; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / { proxy_pass http://bench; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
  }
}`
}
