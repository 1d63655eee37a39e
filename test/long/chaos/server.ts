/** The built binary of the chaos test: one data folder and one port for all runs, a log, and commands next to it. */
import { Database } from 'bun:sqlite'
import { openSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BINARY } from '../../support/binary.ts'
import { startTcpServer } from '../../support/tcp-server.ts'
import { KEYS, type KeyName, SQUAD } from './catalog.ts'
import { CREDENTIALS, onStablePort } from './upstreams.ts'

export interface Ran {
  code: number
  stdout: string
  stderr: string
}

export interface ChaosServer {
  readonly data: string
  readonly port: number
  readonly catalogFile: string
  /** Waits until it responds. Throws with its output if it ends instead. */
  start(): Promise<void>
  kill(): Promise<void>
  /** Stops it as an administrator would. Returns its exit code. */
  drain(): Promise<number>
  run(...argv: string[]): Promise<Ran>
  /** Creates the keys of the test's catalog, on a folder that no server uses. */
  makeKeys(): Promise<Map<KeyName, string>>
  /** All output of the server, of all runs. */
  log(): string
}

/** @param folder contains log, catalog, and data. */
export async function createChaosServer(folder: string): Promise<ChaosServer> {
  const data = join(folder, 'data')
  await mkdir(data, { recursive: true, mode: 0o700 })
  const port = await onStablePort(probe)
  const logFile = join(folder, 'serve.log')
  const catalogFile = join(folder, 'catalog.yaml')
  const env = Object.fromEntries(
    Object.entries(CREDENTIALS).map(([name, value]) => [`${name.toUpperCase()}_KEY`, value]),
  )
  let child: Bun.Subprocess | null = null

  const run = async (...argv: string[]): Promise<Ran> => {
    const ran = Bun.spawn([BINARY, ...argv, '--data', data], { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe', env })
    const [stdout, stderr, code] = await Promise.all([ran.stdout.text(), ran.stderr.text(), ran.exited])
    return { code, stdout, stderr }
  }

  return {
    data,
    port,
    catalogFile,
    async start() {
      const log = openSync(logFile, 'a')
      const before = Bun.file(logFile).size
      const argv = ['serve', '--data', data, '--catalog', catalogFile, '--port', String(port)]
      const started = Bun.spawn([BINARY, ...argv, '--heartbeat', '1s', '--probe', '3s'], {
        stdin: 'ignore',
        stdout: log,
        stderr: log,
        env,
      })
      child = started
      for (;;) {
        const up = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => null)
        if (up?.ok) return
        if (started.exitCode !== null || started.signalCode !== null) {
          throw new Error(`the server ended: ${readFileSync(logFile, 'utf8').slice(before)}`)
        }
        await Bun.sleep(5)
      }
    },
    async kill() {
      child?.kill('SIGKILL')
      await child?.exited
    },
    async drain() {
      child?.kill('SIGTERM')
      return (await child?.exited) ?? -1
    },
    run,
    makeKeys: () => makeKeys(data, run),
    log: () => readFileSync(logFile, 'utf8'),
  }
}

async function probe(port: number): Promise<number> {
  const server = await startTcpServer(() => {}, port)
  await server.stop()
  return port
}

async function makeKeys(data: string, run: ChaosServer['run']): Promise<Map<KeyName, string>> {
  mustDo(await run('teams', 'create', '--name', 'squad', ...SQUAD))
  const secrets = new Map<KeyName, string>()
  for (const [name, options] of Object.entries(KEYS) as [KeyName, readonly string[]][]) {
    const made = mustDo(await run('keys', 'create', '--name', name, ...options, '--json'))
    const { id, key } = JSON.parse(made.stdout) as { id: string; key: string }
    secrets.set(name, key)
    if (name === 'revoked') mustDo(await run('keys', 'revoke', id))
  }
  nameIds(data)
  return secrets
}

function mustDo(ran: Ran): Ran {
  if (ran.code !== 0) throw new Error(`a command failed: ${ran.stderr}`)
  return ran
}

/** Key IDs are random, and with them which of two equal routes a request takes. Here, the name is the ID. */
function nameIds(data: string): void {
  const database = new Database(join(data, 'tollgate.db'), { readwrite: true })
  try {
    database.transaction(() => {
      for (const [table, column] of [
        ['key_secrets', 'key_id'],
        ['key_models', 'key_id'],
        ['keys', 'id'],
      ]) {
        database.run(`UPDATE ${table} SET ${column} = (SELECT name FROM keys AS k WHERE k.id = ${table}.${column})`)
      }
    })()
  } finally {
    database.close()
  }
}
