/**
 * Subjects: both forms of the smallest proxy, Tollgate with limits and routing, and nginx if installed, on the same
 * upstream.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { findFreePort } from '../support/free-port.ts'
import { type Started, startProcess, waitUntilUp } from './processes.ts'
import { BEFORE, BINARY, MODEL, startTollgate } from './tollgate.ts'

export interface Subject {
  name: string
  process: Started
  /** `http://host:port`; the chat URL is below `/v1`. */
  origin: string
  /** A bearer token; the floor and nginx ignore it. */
  key: string
  model: string
}

export const SUBJECTS = ['floor', 'floor-piped', 'tollgate', 'before', 'nginx'] as const
export type SubjectName = (typeof SUBJECTS)[number]

const MANY_REQUESTS = { BUN_CONFIG_MAX_HTTP_REQUESTS: '16384' }

/** Readiness checks cost it as little as requests. */
export async function startBenchUpstream(folder: string): Promise<{ process: Started; origin: string }> {
  const port = await findFreePort()
  const main = resolve(import.meta.dir, '../support/upstream-main.ts')
  const started = startProcess([process.execPath, main, '--port', String(port)], join(folder, 'upstream.log'))
  const origin = `http://127.0.0.1:${port}`
  await waitUntilUp(`${origin}/v1/models`)
  return { process: started, origin }
}

/** Null if it can be measured. */
export function whyMissing(name: SubjectName): string | null {
  if (name === 'nginx' && !Bun.which('nginx')) return 'nginx is not installed'
  if (name === 'before' && !BEFORE) return 'TOLLGATE_BEFORE names no other build to compare with'
  if (name === 'tollgate' && !existsSync(BINARY)) return `${BINARY} does not exist: run \`bun run build\``
  return null
}

/** Resolves once it passes a request on. */
export async function startSubject(name: SubjectName, root: string, upstream: string): Promise<Subject> {
  const folder = join(root, name)
  mkdirSync(folder, { recursive: true })
  const port = await findFreePort()
  const origin = `http://127.0.0.1:${port}`
  if (name === 'tollgate' || name === 'before') return up(await startTollgate(name, folder, port, upstream))
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

export async function up<T extends Subject>(subject: T): Promise<T> {
  const headers = { authorization: `Bearer ${subject.key}` }
  await waitUntilUp(`${subject.origin}/v1/models`, { headers })
  return subject
}

/** One worker, no buffering, kept connections: as set up for streams. */
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
