/**
 * PostgreSQL, Valkey or Redis, and PgBouncer as processes of a test, in separate folders and at separate ports: other
 * processes of the machine are left alone. If one isn't installed, `describeWith` skips the tests and says so.
 */
import { describe } from 'bun:test'
import { appendFileSync, chmodSync, chownSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createConnection, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SQL } from 'bun'
import type { PemPair } from './certificate.ts'
import { findFreePort } from './free-port.ts'
import { startTcpServer } from './tcp-server.ts'
import { until } from './until.ts'

const byVersion = (a: string, b: string) => a.localeCompare(b, undefined, { numeric: true })
const postgresFolder =
  globSync('/usr/lib/postgresql/*/bin').sort(byVersion).at(-1) ?? (Bun.which('initdb') ?? '').replace(/\/initdb$/, '')
const valkey = Bun.which('valkey-server') ?? Bun.which('redis-server')
const pgBouncer = Bun.which('pgbouncer', { PATH: `${process.env.PATH}:/usr/sbin` })

const ENGINES = { PostgreSQL: postgresFolder !== '', Valkey: valkey !== null, PgBouncer: pgBouncer !== null }

export const isInstalled = (engine: keyof typeof ENGINES): boolean => ENGINES[engine]

/** `describe` if all of them are installed. */
export function describeWith(...engines: (keyof typeof ENGINES)[]) {
  const missing = engines.filter((engine) => !ENGINES[engine])
  if (missing.length > 0) console.warn(`Skipped: ${missing.join(' and ')} isn't installed.`)
  return describe.skipIf(missing.length > 0)
}

/** Servers refuse to run as root. */
const ids = (() => {
  if (process.getuid?.() !== 0) return null
  const id = (flag: string) => Number(Bun.spawnSync(['id', flag, 'postgres']).stdout.toString())
  return { uid: id('-u'), gid: id('-g') }
})()
const asUser = (command: string[]): string[] => [
  ...['setpriv', '--pdeathsig', 'KILL'],
  ...(ids ? [`--reuid=${ids.uid}`, `--regid=${ids.gid}`, '--clear-groups'] : []),
  ...command,
]

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-engine-'))
  chmodSync(folder, 0o700)
  give(folder)
  return folder
}
const give = (path: string) => ids && chownSync(path, ids.uid, ids.gid)

function write(path: string, text: string, mode = 0o600): string {
  writeFileSync(path, text, { mode })
  give(path)
  return path
}

function runOnce(command: string[]): void {
  const { exitCode, stderr } = Bun.spawnSync(asUser(command), { cwd: tmpdir(), env: { PATH: process.env.PATH ?? '' } })
  if (exitCode !== 0) throw new Error(`${command[0]} failed: ${stderr}`)
}

/** A process that can be ended and restarted. */
function createProcess(command: string[], folder: string, isUp: () => Promise<boolean>) {
  let child: Bun.Subprocess | null = null
  return {
    async start(): Promise<void> {
      const out = Bun.file(join(folder, 'log'))
      const started = Bun.spawn(asUser(command), { cwd: folder, stdout: out, stderr: out, stdin: 'ignore' })
      child = started
      await until(`${command[0]} to start`, async () => {
        if (started.exitCode !== null) throw new Error(`${command[0]} ended: ${await out.text()}`)
        return await isUp()
      })
    },
    signal: (name: NodeJS.Signals) => child?.kill(name),
    async end(name: NodeJS.Signals): Promise<void> {
      child?.kill(name)
      child?.kill('SIGCONT')
      await child?.exited
    },
    async remove(): Promise<void> {
      child?.kill('SIGKILL')
      await child?.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export interface TestPostgres {
  /** URL of a superuser, by TCP without TLS. */
  url: string
  port: number
  /** URL of its unix socket. */
  folder: string
  /** Each query uses a new connection. */
  query<Row>(text: string): Promise<Row[]>
  /** Stops it gracefully. */
  stop(): Promise<void>
  /** Kills it, as in a power cut. */
  kill(): Promise<void>
  /** Starts it again, after `stop` or `kill`. */
  start(): Promise<void>
  /** Promotes a standby. */
  promote(): Promise<void>
  signal(name: NodeJS.Signals): void
  close(): Promise<void>
}

export interface TestPostgresOptions {
  /** A standby that replicates from it asynchronously. */
  standbyOf?: TestPostgres
  /** Lines of postgresql.conf. */
  settings?: readonly string[]
  tls?: PemPair
  /** Off by default. */
  fsync?: boolean
}

export async function startPostgres(options: TestPostgresOptions = {}): Promise<TestPostgres> {
  const { standbyOf, settings = [], tls, fsync = false } = options
  const [folder, port] = [makeFolder(), await findFreePort()]
  const data = join(folder, 'data')
  const bin = (name: string) => join(postgresFolder, name)
  if (standbyOf)
    runOnce([
      ...[bin('pg_basebackup'), '-h', standbyOf.folder, '-p', String(standbyOf.port), '-U', 'postgres'],
      ...['-D', data, '-R', '-c', 'fast', '--no-sync'],
    ])
  else runOnce([bin('initdb'), '-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'])
  if (tls) {
    write(join(data, 'server.crt'), tls.cert)
    write(join(data, 'server.key'), tls.key)
  }
  const lines = [
    ...[`port = ${port}`, "listen_addresses = '127.0.0.1'", `unix_socket_directories = '${folder}'`],
    ...[`fsync = ${fsync ? 'on' : 'off'}`, 'max_wal_senders = 4', 'shared_buffers = 16MB', 'max_connections = 100'],
    ...(tls ? ['ssl = on'] : []),
    ...settings,
  ]
  appendFileSync(join(data, 'postgresql.conf'), `\n${lines.join('\n')}\n`)
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  const query = async <Row>(text: string): Promise<Row[]> => {
    const sql = new SQL({ url, max: 1, connectionTimeout: 2 })
    try {
      return [...(await sql.unsafe<Row[]>(text))]
    } finally {
      await sql.close({ timeout: 1 })
    }
  }
  const isUp = () =>
    query('select 1').then(
      () => true,
      () => false,
    )
  const server = createProcess([bin('postgres'), '-D', data], folder, isUp)
  await server.start()
  return {
    ...{ url, port, folder, query, start: server.start, close: server.remove },
    signal: server.signal,
    stop: () => server.end('SIGINT'),
    // Its child processes notice, and a start waits for them.
    kill: () => server.end('SIGQUIT'),
    async promote() {
      await query('select pg_promote(true, 10)')
    },
  }
}

/** @param mode of pooling. No passwords needed. */
export async function startPgBouncer(server: TestPostgres, mode: 'session' | 'transaction' = 'transaction') {
  const [folder, port] = [makeFolder(), await findFreePort()]
  const users = write(join(folder, 'users.txt'), '"postgres" ""\n')
  const config = write(
    join(folder, 'pgbouncer.ini'),
    [
      ...['[databases]', `postgres = host=127.0.0.1 port=${server.port} dbname=postgres`, '[pgbouncer]'],
      ...['listen_addr = 127.0.0.1', `listen_port = ${port}`, 'unix_socket_dir =', 'auth_type = trust'],
      ...[`auth_file = ${users}`, `pool_mode = ${mode}`, 'default_pool_size = 5', 'max_client_conn = 200'],
    ].join('\n'),
  )
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  const isUp = async () => {
    const sql = new SQL({ url, max: 1, connectionTimeout: 2, prepare: false })
    try {
      await sql.unsafe('select 1')
      return true
    } catch {
      return false
    } finally {
      await sql.close({ timeout: 1 })
    }
  }
  const bouncer = createProcess([pgBouncer ?? '', config], folder, isUp)
  await bouncer.start()
  return { url, port, signal: bouncer.signal, close: bouncer.remove }
}

export interface TestValkey {
  url: string
  port: number
  start(): Promise<void>
  /** Kills it, as in a power cut. */
  kill(): Promise<void>
  signal(name: NodeJS.Signals): void
  close(): Promise<void>
}

/** @param settings on the command line, such as `--appendonly yes`; by default, nothing is persisted. */
export async function startValkey(settings: readonly string[] = ['--save', '']): Promise<TestValkey> {
  const [folder, port] = [makeFolder(), await findFreePort()]
  const isUp = () =>
    new Promise<boolean>((resolve) => {
      const socket = createConnection(port, '127.0.0.1', () => socket.write('PING\r\n'))
      socket.once('data', (data) => resolve(data.toString().startsWith('+PONG')) ?? socket.destroy())
      socket.once('error', () => resolve(false))
    })
  const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder]
  const server = createProcess([valkey ?? '', ...place, ...settings], folder, isUp)
  await server.start()
  return {
    ...{ url: `redis://127.0.0.1:${port}`, port, start: server.start, close: server.remove },
    signal: server.signal,
    kill: () => server.end('SIGKILL'),
  }
}

export interface DroppingProxy {
  port: number
  /** `forward`; `drop`: drops all bytes silently and keeps the connections, like a broken network; or a delay in ms. */
  set(mode: 'forward' | 'drop' | number): void
  /** Closes all connections. */
  cut(): void
  close(): Promise<void>
}

/** A proxy to a port of this machine. Dropped bytes are lost: connections from that time stay silent. */
export async function startDroppingProxy(target: number): Promise<DroppingProxy> {
  let mode: 'forward' | 'drop' | number = 'forward'
  const dropped = new Set<Socket>()
  const pairs = new Set<readonly [Socket, Socket]>()
  const pipe = (from: Socket, to: Socket) => {
    from.on('data', (bytes) => {
      if (mode === 'drop') for (const each of [from, to]) dropped.add(each)
      if (dropped.has(from)) return
      if (typeof mode === 'number') setTimeout(() => to.writable && to.write(bytes), mode)
      else to.write(bytes)
    })
    from.on('error', () => {})
    from.on('close', () => dropped.has(from) || to.destroy())
  }
  const server = await startTcpServer((client) => {
    // The other side is not notified.
    if (mode === 'drop') return void client.on('error', () => {})
    const upstream = createConnection({ port: target, host: '127.0.0.1', noDelay: true })
    const pair = [client, upstream] as const
    pairs.add(pair)
    client.on('close', () => pairs.delete(pair))
    pipe(client, upstream)
    pipe(upstream, client)
  })
  const cut = () => {
    for (const pair of pairs) for (const socket of pair) socket.destroy()
  }
  return {
    port: server.port,
    set: (next) => {
      mode = next
    },
    cut,
    async close() {
      cut()
      await server.stop()
    },
  }
}
